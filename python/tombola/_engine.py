"""What the functions share: options of a call, outputs, errors."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, NoReturn

from . import _library as lib
from ._frameworks import Framework, framework_of
from ._results import raise_for

# Defaults, so that a call that leaves them alone is seen by identity.
LOGITS = "logits"
ALL = "all"
EXACT = "exact"
AUTO = "auto"

_torch = sys.modules.get("torch")

if _torch is not None:
    from ._frameworks import TorchOperator

    #: Dynamo sees True, everybody else False, at the price of an empty function.
    is_traced: Callable[[], bool] = _torch.compiler.is_dynamo_compiling
    is_compiling: Callable[[], bool] = _torch.compiler.is_compiling
    operator: Framework = TorchOperator()
else:
    operator = Framework()

    def is_traced() -> bool:
        return False

    is_compiling = is_traced


def framework(x: Any) -> Framework:
    """How to run a call on x: under torch.compile through the operator."""
    return operator if is_traced() else framework_of(x)


def lead(x: Any, rows: Any) -> tuple[int, ...]:
    """The dimension of rows, if there is one."""
    if rows is not None and not hasattr(rows, "shape"):
        raise TypeError(f"rows: must be an int32 array, not {type(rows).__name__}")
    shape: tuple[int, ...] = tuple(x.shape[:-1] if rows is None else rows.shape[:1])
    return shape


def vocab(x: Any) -> int:
    if not x.shape:
        raise ValueError("logits: has no dimensions; it must be [rows, vocab_size] or [vocab_size]")
    width: int = x.shape[-1]
    return width


def count_of(value: Any, name: str, least: int = 0) -> int:
    """A number that makes a shape."""
    number: int
    if isinstance(value, bool) or not isinstance(value, int):  # torch.compile traces int alone
        index = None if isinstance(value, bool) else getattr(value, "__index__", None)
        if index is None:
            raise TypeError(f"{name}: must be an integer, not {type(value).__name__}")
        try:
            number = index()
        except TypeError:
            raise TypeError(f"{name}: must be an integer, not {type(value).__name__}") from None
    else:
        number = value
    if number < least:
        raise ValueError(f"{name}: is {number}; it must be at least {least}")
    return number


def source(
    kind: str, rows: Any, slots: Any, lengths: Any, ties: str, threads: int, backend: str
) -> tuple[Any, ...]:
    """Where rows come from and how a call runs, as fields and values; nothing for the defaults."""
    if rows is None and slots is None and lengths is None and threads == 0 and ties is ALL and backend is AUTO:
        return () if kind is LOGITS else (lib.KIND, lib.value_of(lib.KINDS, "kind", kind))
    return (
        lib.KIND, lib.value_of(lib.KINDS, "kind", kind), lib.TIES, lib.value_of(lib.ALL_TIES, "ties", ties),
        lib.ROWS, rows, lib.SLOTS, slots, lib.LENGTHS, lengths,
        lib.THREADS, threads, lib.BACKEND, lib.value_of(lib.BACKENDS, "backend", backend),
    )  # fmt: skip


#: An output: its field, its shape, its dtype (None: that of logits).
Output = tuple[int, tuple[int, ...], "str | None"]


def fill(
    x: Any,
    how: Framework,
    arguments: tuple[Any, ...],
    wanted: dict[str, Output],
    given: dict[str, Any],
    check: bool,
    single: str = "",
    blank: float | None = None,
) -> dict[str, Any]:
    """Runs a call. `given` are the caller's own outputs by name, the rest is made; `single` names the output that
    the caller knows as `out`; `blank` is what an output holds where the call writes nothing."""
    for name, array in given.items():
        if array is not None:
            how.check_written(array, "out" if name == single else name)
    arrays: dict[str, Any] = {}
    for name, (field, shape, dtype) in wanted.items():
        array = given.get(name)
        if array is None:
            array = how.empty(x, shape, dtype) if blank is None else how.full(x, shape, dtype, blank)
        arrays[name] = array
        arguments += (field, array)
    status = arrays.get("status")
    if check and status is None:
        if is_compiling():
            raise ValueError("check: cannot wait for results under torch.compile; ask for the status instead")
        status = how.empty(x, tuple(arguments_lead(x, arguments)), "int32")
        arguments += (lib.STATUS, status)
    try:
        how.run(x, *arguments)
    except (TypeError, ValueError) as error:
        reraise(error, single)
    if given and how.written is not None:
        how.written(*given.values())
    if check:
        raise_for(status)
    if how.finish is not None:
        for name, array in arrays.items():
            if given.get(name) is None:
                arrays[name] = how.finish(array)
    return arrays


def whole_rows(
    x: Any, how: Framework, arguments: tuple[Any, ...], rows: Any, lengths: Any, field: int, dtype: str | None,
    out: Any, check: bool,
) -> Any:  # fmt: skip
    """A call whose one output is as wide as the vocabulary, and which the caller knows as `out`."""
    # Behind a row's length nothing is written.
    blank = None if lengths is None else -math.inf if field == lib.MASKED else 0.0
    name = lib.NAMES[field]
    if check:
        wanted: dict[str, Output] = {name: (field, (*lead(x, rows), vocab(x)), dtype)}
        return fill(x, how, arguments, wanted, {name: out}, check, name, blank)[name]
    shape = (*lead(x, rows), vocab(x))
    if out is not None:
        how.check_written(out, "out")
        result = out
    else:
        result = how.empty(x, shape, dtype) if blank is None else how.full(x, shape, dtype, blank)
    try:
        how.run(x, *arguments, field, result)
    except (TypeError, ValueError) as error:
        reraise(error, name)
    if out is not None and how.written is not None:
        how.written(out)
    return result if how.finish is None or out is not None else how.finish(result)


def arguments_lead(x: Any, arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """The dimension of rows of a call's outputs."""
    for field, value in zip(arguments[::2], arguments[1::2]):
        if field == lib.ROWS and value is not None:
            return lead(x, value)
    return lead(x, None)


def reraise(error: Exception, single: str) -> NoReturn:
    """Raises the library's error under the name that the caller knows the argument by."""
    text = str(error)
    if single and text.startswith(f"{single}: "):
        raise type(error)(f"out{text[len(single):]}") from None
    raise error.with_traceback(None) from None
