"""FlashInfer's argument conventions, turned into the fields of a tombola call."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

import torch

_NATIVE = (torch.float32, torch.float16, torch.bfloat16)
_INT32_MAX = 2**31 - 1
_U64 = 2**64 - 1
_SEEDS = (torch.int64, torch.uint64)
_NUMBERS = (int, float)  # asked for first: isinstance(1, torch.Tensor) takes half a microsecond

Seed = Union[int, torch.Tensor]


def source(x: torch.Tensor, name: str) -> torch.Tensor:
    """The rows as the library reads them. float32, float16 and bfloat16 are read in place, whatever the
    distance between rows; other floating types are converted to float32."""
    dtype = x.dtype
    if dtype is not torch.float32 and dtype not in _NATIVE:
        if not x.dtype.is_floating_point:
            raise ValueError(f"{name} must be of a floating type, got {dtype}")
        x = x.float()
    if x.dim() != 2:
        raise ValueError(f"{name} must have 2 dimensions (rows, vocabulary), got {x.dim()}")
    if not x.is_contiguous():
        apart, step = x.stride()
        if step != 1 or apart < x.size(1):
            x = x.contiguous()
    return x


def refuse_nan(x: torch.Tensor, name: str) -> None:
    """Waits for the device, as check_nan=True does in FlashInfer."""
    if torch.isnan(x).any():
        raise ValueError(f"Input {name} contains NaN.")


def parameter(
    value: Union[torch.Tensor, float],
    rows: int,
    dtype: torch.dtype,
    indices: Optional[torch.Tensor] = None,
) -> Union[torch.Tensor, float]:
    """A scalar, or one value per output row. FlashInfer numbers the values of a tensor by the rows of
    its source, so with `indices` they are gathered here. Programs match on the messages' beginnings."""
    if value.__class__ in _NUMBERS or not isinstance(value, torch.Tensor):
        return min(max(int(value), -1), _INT32_MAX) if dtype == torch.int32 else float(value)
    if value.dim() == 0:
        raise ValueError(
            "Expected a 1D tensor of shape (batch_size,) or scalar for the sampling parameter, "
            "got a 0-dimensional tensor"
        )
    if value.dim() != 1:
        raise ValueError(
            f"Expected a 1D tensor or scalar for the sampling parameter, got a {value.dim()}D tensor"
        )
    if value.size(0) != rows:
        raise ValueError(
            f"Sampling parameter tensor batch size mismatch: {value.size(0)} values for {rows} rows"
        )
    if dtype == torch.int32 and value.dtype == torch.int64:
        value = value.clamp(-1, _INT32_MAX)
    value = value.to(dtype)
    if indices is not None:
        # A row that is not there has no token whatever its value; nothing may be read out of bounds for it.
        place = indices.long().clamp(0, max(rows - 1, 0))
        value = value[place] if rows else value.new_zeros(place.shape)
    return value.contiguous()


def row_index(indices: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    if indices is None:
        return None
    if indices.dim() != 1 or indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"indices must be a 1D tensor of int32 or int64, got {indices.dim()}D of {indices.dtype}"
        )
    return indices.clamp(-1, _INT32_MAX).to(torch.int32).contiguous()


_kept_streams: Dict[Tuple[torch.device, int], torch.Tensor] = {}
_kept_views: Dict[Tuple[torch.device, int], torch.Tensor] = {}
_MOST_VIEWS = 4096


def _streams(rows: int, device: torch.device) -> Optional[torch.Tensor]:
    """The numbers of the rows, 0 and up; None for one row, whose number is the default. They are kept for later
    calls on any CUDA stream: so the device is waited for when they are made, and they are never freed."""
    if rows == 1:
        return None
    if torch.compiler.is_compiling():
        return torch.arange(rows, dtype=torch.int32, device=device)
    view = _kept_views.get((device, rows))
    if view is not None:
        return view
    length = max(1024, 1 << (rows - 1).bit_length())
    kept = _kept_streams.get((device, length))
    if kept is None:
        if _is_recording(device):  # what a capture makes has no content before a replay
            return torch.arange(rows, dtype=torch.int32, device=device)
        kept = torch.arange(length, dtype=torch.int32, device=device)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
        _kept_streams[device, length] = kept
    view = kept[:rows]
    if len(_kept_views) < _MOST_VIEWS:
        _kept_views[device, rows] = view
    return view


def _is_recording(device: torch.device) -> bool:
    """Whether the call becomes part of a CUDA graph or a compiled function, to run later."""
    if torch.compiler.is_compiling():
        return True
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def randomness(
    rows: int,
    device: torch.device,
    generator: Optional[torch.Generator],
    seed: Optional[Seed],
    offset: Optional[Seed],
    chain: Dict[str, Any],
) -> Dict[str, Any]:
    """The arguments of tombola.sample that say where random numbers come from: seed and offset if they are
    given, else what `generator` (or torch's default one) supplies."""
    if (seed is None) != (offset is None):
        raise ValueError("seed and offset must be given together")
    if seed is None:
        return _from_generator(rows, device, generator)
    if seed.__class__ is int and offset.__class__ is int:
        return {"seed": seed & _U64, "offset": offset & _U64}
    if isinstance(seed, torch.Tensor) != isinstance(offset, torch.Tensor):
        raise ValueError("seed and offset must both be tensors or both be scalars")
    if not isinstance(seed, torch.Tensor):
        return {"seed": int(seed) & _U64, "offset": int(offset) & _U64}
    _check_seed(seed, "seed", rows, device)
    _check_seed(offset, "offset", rows, device)
    # One seed for the batch: rows take different streams, as with a scalar. One seed per row: a
    # request's token depends on its seed and offset alone, and all rows take stream 0.
    streams = _streams(rows, device) if seed.size(0) == 1 else None
    # Arrays of a call are all of one element or all of one per row.
    if seed.size(0) != offset.size(0) or any(
        value.__class__ not in _NUMBERS and isinstance(value, torch.Tensor) for value in chain.values()
    ):
        seed, offset = seed.expand(rows), offset.expand(rows)
    return {"seed": seed.contiguous(), "offset": offset.contiguous(), "streams": streams}


def _check_seed(value: torch.Tensor, name: str, rows: int, device: torch.device) -> None:
    if value.device != device:
        raise ValueError(f"{name} tensor must be on {device}, not {value.device}")
    if value.dtype not in _SEEDS:
        raise ValueError(f"{name} tensor must be int64/uint64, not {value.dtype}")
    if value.dim() != 1:
        raise ValueError(f"{name} tensor must be 1D, not {value.dim()}D")
    if value.size(0) not in (1, rows):
        raise ValueError(f"{name} tensor length must be 1 or {rows}, not {value.size(0)}")


def _from_generator(
    rows: int, device: torch.device, generator: Optional[torch.Generator]
) -> Dict[str, Any]:
    # What is recorded must not keep numbers of the host: it would draw the same tokens each time. torch's
    # own operator takes the generator's state when it runs. Generators of the CPU have no Philox state.
    if device.type != "cuda" or _is_recording(device):
        low, high = -(2**63), 2**63 - 1
        bits = torch.randint(low, high, (rows,), generator=generator, dtype=torch.int64, device=device)
        return {"random": bits}
    if generator is None:
        index = device.index if device.index is not None else torch.cuda.current_device()
        generator = torch.cuda.default_generators[index]
    # torch counts the 32-bit words of a Philox stream and takes whole blocks of 4. One block number is
    # reserved and serves as the offset, so no number of torch's is used a second time.
    words = generator.get_offset()
    generator.set_offset(words + 4)
    return {"seed": generator.initial_seed() & _U64, "offset": words // 4}
