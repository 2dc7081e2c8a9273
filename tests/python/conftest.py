"""What the tests of the Python package share.

    pytest tests/python

runs on what is there; what is not is skipped, with the reason.
"""

import os

import numpy as np
import pytest
from arrays import NumPyArrays, TorchArrays, needs_cuda, needs_torch, torch
from receipt import Receipt

if torch is None:
    collect_ignore = ["compat"]  # FlashInfer's functions are torch's


def pytest_configure(config):
    if "TOMBOLA_TEST_REPORT" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Receipt(os.environ["TOMBOLA_TEST_REPORT"]))


@pytest.fixture(
    params=[
        pytest.param(NumPyArrays(), id="numpy"),
        pytest.param(TorchArrays("cpu"), id="torch-cpu", marks=needs_torch),
        pytest.param(TorchArrays("cuda"), id="torch-cuda", marks=needs_cuda),
    ]
)
def lib(request):
    """An array library on a device."""
    return request.param


@pytest.fixture
def logits():
    """Five rows of 1000 logits."""
    return np.random.default_rng(1).normal(0, 2, (5, 1000)).astype(np.float32)
