"""The call as a torch operator, `torch.ops.tombola.run`, which torch.compile and torch.export see as one node.

Its arguments are those of the bridge, sorted by what a schema can hold. It writes what its outputs name and returns
nothing, so that its fake implementation is nothing at all: shapes are known before it, where outputs are made.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from . import _library as lib

_CHAIN = frozenset(
    (lib.TEMPERATURE, lib.TOP_K, lib.TOP_P, lib.MIN_P, lib.JOINT_TOP_K, lib.JOINT_TOP_P)
)
_WHOLE = frozenset((lib.TOP_K, lib.JOINT_TOP_K))


@torch.library.custom_op("tombola::run", mutates_args=("outputs",))
def _operator(
    x: Optional[torch.Tensor],
    chain: list[int],
    numbers: list[float],
    per_row: list[Optional[torch.Tensor]],
    int_fields: list[int],
    ints: list[int],
    input_fields: list[int],
    inputs: list[torch.Tensor],
    output_fields: list[int],
    outputs: list[torch.Tensor],
) -> None:
    """`chain`: fields of steps, each with its number or, where that is not None, its tensor. x is None where logits
    are masked in place: then they are that output."""
    arguments: list[Any] = []
    for field, number, tensor in zip(chain, numbers, per_row):
        scalar: Any = int(number) if field in _WHOLE else number
        arguments += (field, scalar if tensor is None else tensor)
    for fields, values in ((int_fields, ints), (input_fields, inputs), (output_fields, outputs)):
        for field, value in zip(fields, values):
            arguments += (field, value)
    if x is None:
        x = outputs[output_fields.index(lib.MASKED)]
    lib.run(x, *arguments)


@_operator.register_fake
def _(*arguments: Any, **more: Any) -> None:
    return None


def _check_number(field: int, value: Any) -> None:
    """What the bridge refuses, before the operator's schema turns numbers into floats."""
    name = lib.NAMES[field]
    if isinstance(value, bool) or not isinstance(value, int if field in _WHOLE else (int, float)):
        wanted = "an integer or an int32 tensor" if field in _WHOLE else "a number or a float32 tensor"
        raise TypeError(f"{name}: must be {wanted}, not {type(value).__name__}")
    if field in _WHOLE and not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{name}: is {value}, beyond 32 bits")
    if value != value:
        raise ValueError(f"{name}: is NaN")
    if field == lib.TEMPERATURE and value < 0:
        raise ValueError(f"{name}: is {value}; it must not be negative")


def run(x: torch.Tensor, *arguments: Any) -> None:
    """The bridge's `run` through the operator."""
    chain: list[int] = []
    numbers: list[float] = []
    per_row: list[Optional[torch.Tensor]] = []
    int_fields: list[int] = []
    ints: list[int] = []
    input_fields: list[int] = []
    inputs: list[torch.Tensor] = []
    output_fields: list[int] = []
    outputs: list[torch.Tensor] = []
    source: Optional[torch.Tensor] = x
    advance = False
    for i in range(0, len(arguments), 2):
        if arguments[i] == lib.ADVANCE and arguments[i + 1]:
            advance = True
    for i in range(0, len(arguments), 2):
        field, value = arguments[i], arguments[i + 1]
        if value is None:
            continue
        tensor = isinstance(value, torch.Tensor)
        if field in _CHAIN:
            if not tensor:
                _check_number(field, value)
            chain.append(field)
            numbers.append(0.0 if tensor else float(value))
            per_row.append(value if tensor else None)
        elif field in lib.OUTPUTS or (field == lib.OFFSET and tensor and advance):
            if field == lib.MASKED and value is x:
                source = None
            output_fields.append(field)
            outputs.append(value)
        elif tensor:
            input_fields.append(field)
            inputs.append(value)
        else:
            if not isinstance(value, int) or (isinstance(value, bool) and field in (lib.SEED, lib.OFFSET)):
                raise TypeError(f"{lib.NAMES[field]}: must be an integer, not {type(value).__name__}")
            int_fields.append(field)
            ints.append(int(value))
    torch.ops.tombola.run(
        source, chain, numbers, per_row, int_fields, ints, input_fields, inputs, output_fields, outputs
    )


def random_bits(
    x: torch.Tensor, shape: tuple[int, ...], num_samples: int | None, method: str
) -> torch.Tensor:
    """64 random bits per draw from torch's generator, for compiled calls that name no seed."""
    if method != "exact":
        raise ValueError(f"seed: must be given for method={method!r} under torch.compile")
    if num_samples is not None:
        shape = (*shape, num_samples)
    return torch.randint(-(1 << 63), (1 << 63) - 1, shape, dtype=torch.int64, device=x.device)
