"""The array libraries and devices that the tests run on, under one interface; what is missing, and why."""

import importlib
import os
import pathlib

import numpy as np
import pytest

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes for a few small kernels

ROOT = pathlib.Path(__file__).resolve().parents[2]


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch = module("torch")
ml_dtypes = module("ml_dtypes")

NO_TORCH = "torch is not installed"
NO_CUDA = "there is no CUDA device"
has_cuda = torch is not None and torch.cuda.is_available()

needs_torch = pytest.mark.skipif(torch is None, reason=NO_TORCH)
needs_cuda = pytest.mark.skipif(not has_cuda, reason=NO_TORCH if torch is None else NO_CUDA)


class NumPyArrays:
    name = "numpy"

    def array(self, values):
        return np.asarray(values, order="C")

    def rows(self, bits, dtype):
        """Rows of logits from their bits."""
        if dtype == "bf16":
            if ml_dtypes is None:
                pytest.skip("ml_dtypes is not installed, and NumPy has no bfloat16 of its own")
            return bits.view(ml_dtypes.bfloat16)
        return bits.view({"f32": np.float32, "f16": np.float16}[dtype])

    def empty(self, shape, dtype):
        return np.empty(shape, dtype)

    def numpy(self, array):
        assert isinstance(array, np.ndarray), type(array)
        return array

    def bits(self, array):
        """The bits of an array's elements."""
        return self.numpy(array).view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


class TorchArrays:
    def __init__(self, device):
        self.name = f"torch-{device}"
        self.device = device

    def array(self, values):
        values = np.asarray(values, order="C")
        signed = {np.dtype(np.uint32): np.int32, np.dtype(np.uint64): np.int64}.get(values.dtype)
        return torch.from_numpy(values.view(signed) if signed else values.copy()).to(self.device)

    def rows(self, bits, dtype):
        signed = torch.from_numpy(bits.copy().view({2: np.int16, 4: np.int32}[bits.dtype.itemsize]))
        return signed.view({"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]).to(
            self.device
        )

    def empty(self, shape, dtype):
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)

    def numpy(self, array):
        assert isinstance(array, torch.Tensor) and array.device.type == self.device, array
        return array.cpu().numpy()

    def bits(self, array):
        signed = {2: "int16", 4: "int32", 8: "int64"}[array.element_size()]
        return self.numpy(array.view(getattr(torch, signed))).view(f"u{signed}")
