"""The array libraries: how each makes outputs and hands its arrays to the library.

A framework is found by the type of the first array of a call. None is imported here that the caller has not
imported already (torch is by tvm-ffi, where it is installed).
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable

from . import _library as lib


class Framework:
    """`run(x, field, value, ...)` for arrays of one library, and how to make an array like x's."""

    run: Callable[..., None] = staticmethod(lib.run)
    #: Turns what was filled into the caller's arrays; None where nothing is to be done.
    finish: Callable[[Any], Any] | None = None

    #: Tells the framework that the caller's own arrays were written; None where it need not know.
    written: Callable[..., None] | None = None

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
        """An array on x's device; without dtype, of x's."""
        raise TypeError(f"out: must be given for logits of type {type(x).__module__}.{type(x).__name__}")

    def full(self, x: Any, shape: tuple[int, ...], dtype: str | None, value: float) -> Any:
        """The same, filled."""
        return self.empty(x, shape, dtype)

    def arange(self, x: Any, count: int) -> Any:
        """int32 numbers from 0 on x's device."""
        raise ValueError("streams: must be given with a seed of one element")

    def check_written(self, array: Any, name: str) -> None:
        """Refuses an array of the caller's that must not be written, of whatever library it is."""
        torch, numpy, jax = (sys.modules.get(module) for module in ("torch", "numpy", "jax"))
        if torch is not None and isinstance(array, torch.Tensor):
            if array.requires_grad:
                raise ValueError(f"{name}: requires gradients, which writing to it would falsify")
        elif numpy is not None and isinstance(array, numpy.ndarray):
            if not array.flags.writeable:
                raise ValueError(f"{name}: is read-only")
        elif jax is not None and isinstance(array, jax.Array):
            raise ValueError(f"{name}: JAX arrays cannot be written")

    def random_bits(self, x: Any, shape: tuple[int, ...], num_samples: int | None, method: str) -> Any:
        """64 random bits per draw from the framework's own generator."""
        raise ValueError("seed: must be given")


class NumPy(Framework):
    def __init__(self) -> None:
        self.numpy: Any = sys.modules["numpy"]

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
        return self.numpy.empty(shape, dtype or x.dtype)

    def full(self, x: Any, shape: tuple[int, ...], dtype: str | None, value: float) -> Any:
        return self.numpy.full(shape, value, dtype or x.dtype)

    def arange(self, x: Any, count: int) -> Any:
        return self.numpy.arange(count, dtype="int32")

    def check_written(self, array: Any, name: str) -> None:
        if array.__class__ is not self.numpy.ndarray:  # of those `run` says whether they are read-only
            super().check_written(array, name)

    def run(self, x: Any, *arguments: Any) -> None:
        try:
            lib.run(x, *arguments)
        except BufferError:  # an array that NumPy does not export as it is: read-only, or bfloat16
            lib.run(*self._export(x, arguments))

    def _export(self, x: Any, arguments: tuple[Any, ...]) -> list[Any]:
        advance = dict(zip(arguments[::2], arguments[1::2])).get(lib.ADVANCE)
        exported = [self._export_one(x, "logits", False), lib.BFLOAT16, int(x.dtype.name == "bfloat16") or None]
        for field, value in zip(arguments[::2], arguments[1::2]):
            written = field in lib.OUTPUTS or (field == lib.OFFSET and bool(advance))
            exported += (field, self._export_one(value, lib.NAMES[field], written))
        return exported

    def _export_one(self, value: Any, name: str, written: bool) -> Any:
        import tvm_ffi

        if not isinstance(value, self.numpy.ndarray):
            return value
        if written and not value.flags.writeable:
            raise ValueError(f"{name}: is read-only")
        if value.dtype.name == "bfloat16":  # ml_dtypes': unknown to NumPy's own export
            value = value.view(self.numpy.uint16)
        try:
            return tvm_ffi.from_dlpack(value.__dlpack__(max_version=(1, 0)))
        except (BufferError, TypeError) as error:
            raise TypeError(f"{name}: NumPy cannot share this array ({error})") from None


class Torch(Framework):
    def __init__(self) -> None:
        self.torch: Any = sys.modules["torch"]
        torch = self.torch
        self.tensor = torch.Tensor
        self.increment: Any = getattr(torch._C, "_increment_version", None)
        self.dtypes = {"int32": torch.int32, "int64": torch.int64, "float32": torch.float32}

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
        return x.new_empty(shape, dtype=self.dtypes[dtype] if dtype else x.dtype)  # sooner than torch.empty(device=)

    def full(self, x: Any, shape: tuple[int, ...], dtype: str | None, value: float) -> Any:
        return self.torch.full(shape, value, dtype=self.dtypes[dtype] if dtype else x.dtype, device=x.device)

    def arange(self, x: Any, count: int) -> Any:
        return self.torch.arange(count, dtype=self.torch.int32, device=x.device)

    def check_written(self, array: Any, name: str) -> None:
        if array.__class__ is not self.tensor or array.requires_grad:
            super().check_written(array, name)

    def written(self, *arrays: Any) -> None:
        """Raises the tensors' versions, by which torch sees that what it saved for a gradient was overwritten."""
        if self.increment is not None:
            try:
                self.increment(arrays)
            except (TypeError, RuntimeError):  # None or arrays of another library among them
                self.increment(tuple(array for array in arrays if isinstance(array, self.tensor)))


class CuPy(Framework):
    def __init__(self) -> None:
        self.cupy: Any = sys.modules["cupy"]

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
        with x.device:
            return self.cupy.empty(shape, dtype or x.dtype)

    def full(self, x: Any, shape: tuple[int, ...], dtype: str | None, value: float) -> Any:
        with x.device:
            return self.cupy.full(shape, value, dtype or x.dtype)

    def arange(self, x: Any, count: int) -> Any:
        with x.device:
            return self.cupy.arange(count, dtype="int32")

    def run(self, x: Any, *arguments: Any) -> None:
        with x.device:
            stream = self.cupy.cuda.get_current_stream().ptr
        lib.run(x, *arguments, lib.STREAM, stream)


class Jax(NumPy):
    """On the CPU, where JAX's arrays are NumPy's too. They are immutable, so results are filled as NumPy's and become
    JAX's after."""

    def __init__(self) -> None:
        self.numpy: Any = importlib.import_module("numpy")
        self.jax: Any = sys.modules["jax"]

    def finish(self, array: Any) -> Any:
        return self.jax.numpy.asarray(array)

    def run(self, x: Any, *arguments: Any) -> None:
        if any(device.platform != "cpu" for device in x.devices()):
            raise NotImplementedError("logits: JAX arrays are served on the CPU only")
        super().run(*(self.numpy.asarray(a) if isinstance(a, self.jax.Array) else a for a in (x, *arguments)))


class TorchOperator(Torch):
    """Tensors of torch's own machinery (fake, functional, distributed ...), which must go through the operator."""

    def __init__(self) -> None:
        super().__init__()
        from . import _torch

        self.run = _torch.run
        self.written = None  # type: ignore[assignment] # the operator's schema says what is written
        self.random_bits = _torch.random_bits  # type: ignore[method-assign]

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
        return self.torch.empty(shape, dtype=self.dtypes[dtype] if dtype else x.dtype, device=x.device)

    def check_written(self, array: Any, name: str) -> None:
        if not isinstance(array, self.torch.Tensor):
            raise TypeError(f"{name}: must be a tensor")
        if array.requires_grad:
            raise ValueError(f"{name}: requires gradients, which writing to it would falsify")


_by_type: dict[type, Framework] = {}


def framework_of(x: Any) -> Framework:
    """The framework of an array; kept by its type."""
    try:
        return _by_type[x.__class__]
    except KeyError:
        found = _by_type[x.__class__] = _find(x)
        return found


def _find(x: Any) -> Framework:
    torch, numpy, cupy, jax = (sys.modules.get(name) for name in ("torch", "numpy", "cupy", "jax"))
    if torch is not None and isinstance(x, torch.Tensor):
        plain = type(x) in (torch.Tensor, torch.nn.Parameter)
        return Torch() if plain else TorchOperator()
    if numpy is not None and isinstance(x, numpy.ndarray):
        return NumPy()
    if cupy is not None and isinstance(x, cupy.ndarray):
        return CuPy()
    if jax is not None and isinstance(x, jax.Array):
        return Jax()
    if hasattr(type(x), "__dlpack__"):
        return Framework()
    raise TypeError(f"logits: must be an array, not {type(x).__name__}")
