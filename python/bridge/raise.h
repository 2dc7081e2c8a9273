/*
 * Raises an error of the caller's language: its kind (a Python exception's name), and a message that begins
 * with the argument's name. Returns -1, what the exported functions return then.
 */
#ifndef BRIDGE_RAISE_H
#define BRIDGE_RAISE_H

#include <tombola.h>

__attribute__((format(printf, 3, 4))) int bridge_raise(const char *kind, const char *argument,
                                                       const char *format, ...);

/* The same for what the library refuses. */
int bridge_raise_library(const tombola_error *error);

#endif
