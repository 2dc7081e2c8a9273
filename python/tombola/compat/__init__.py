"""Modules that offer tombola under the names of other libraries."""
