"""tombola: from LLM logits to tokens, without sorting, and the same bits on every machine.

`sample` draws tokens; `softmax`, `renorm`, `mask`, `select` and `logprobs` give the rest of what a chain of
temperature, top-k, top-p and min-p makes of a row. They take arrays of NumPy, torch, CuPy and JAX as they are.
"""

from __future__ import annotations

from . import _library
from ._chain import DEFAULT_ORDER, Chain, MinP, Step, Temperature, TopK, TopKTopP, TopP
from ._results import (
    ROW_BAD_PARAM,
    ROW_EMPTY,
    ROW_NAN,
    ROW_NEGATIVE,
    ROW_POS_INF,
    Logprobs,
    RowError,
    Sample,
    Selection,
)
from ._rows import logprobs, mask, renorm, select, softmax
from ._sample import sample
from ._seeds import manual_seed

__version__ = "{}.{}.{}".format(*divmod(_library.VERSION // 100, 100), _library.VERSION % 100)


def info(device: int | None = None) -> str:
    """What runs calls: on the CPU, or on a CUDA device given by its number.

    Examples
    --------
    >>> import tombola
    >>> tombola.info().split()[0]
    'cpu'
    """
    return _library.info() if device is None else _library.info(device)


__all__ = [
    "Chain",
    "DEFAULT_ORDER",
    "Logprobs",
    "MinP",
    "ROW_BAD_PARAM",
    "ROW_EMPTY",
    "ROW_NAN",
    "ROW_NEGATIVE",
    "ROW_POS_INF",
    "RowError",
    "Sample",
    "Selection",
    "Step",
    "Temperature",
    "TopK",
    "TopKTopP",
    "TopP",
    "info",
    "logprobs",
    "manual_seed",
    "mask",
    "renorm",
    "sample",
    "select",
    "softmax",
]
