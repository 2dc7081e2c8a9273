"""Random numbers of calls that name no seed: one seed per process, and an offset that counts the calls."""

from __future__ import annotations

import itertools
import numbers
import os
import secrets
from typing import Any

LIMIT = 1 << 64

_seed = secrets.randbits(63)
_calls = itertools.count()
_chosen = False


def manual_seed(seed: int) -> None:
    """Sets the seed of the calls that name none, and begins their count anew.

    Parameters
    ----------
    seed
        0 to 2^64 - 1. Processes that are forked after this draw the same as each other; give each its own seed.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> logits = np.zeros((1, 1000), dtype=np.float32)
    >>> tombola.manual_seed(7)
    >>> first = tombola.sample(logits), tombola.sample(logits)
    >>> tombola.manual_seed(7)
    >>> first == (tombola.sample(logits), tombola.sample(logits))
    True
    """
    global _seed, _calls, _chosen
    number = word(seed, "seed")
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"seed: must be an integer, not {type(seed).__name__}")
    _seed, _calls, _chosen = number, itertools.count(), True


def automatic() -> tuple[int, int]:
    """Seed and offset of the next call."""
    return _seed, next(_calls)


def scalar(value: int, name: str) -> int:
    """A 64-bit word as the signed integer of the same bits."""
    if not 0 <= value < LIMIT:
        raise ValueError(f"{name}: is {value}; it must be 0 to 2^64 - 1")
    return value if value < LIMIT >> 1 else value - LIMIT


def word(value: Any, name: str) -> Any:
    """What is not an int: arrays as they are, NumPy's integers as scalars."""
    if isinstance(value, int) and not isinstance(value, bool):  # first: torch.compile cannot trace the next line for it
        return scalar(value, name)
    if hasattr(value, "__dlpack__") or not isinstance(value, numbers.Integral) or isinstance(value, bool):
        return value
    return scalar(int(value), name)


def _after_fork() -> None:
    # A child must not repeat its parent's draws, nor its siblings'.
    global _seed, _calls
    if not _chosen:
        _seed, _calls = secrets.randbits(63), itertools.count()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
