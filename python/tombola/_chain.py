"""Chains: what happens to a row before a token is drawn, step by step."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

from . import _library as lib

DEFAULT_ORDER = ("temperature", "min_p", "top_k", "top_p")
"""The order that a call without `order` applies its parameters in; vLLM's."""


class Temperature(NamedTuple):
    """Divides logits by `value`: a number, or f32 `[rows]`. 0 keeps the greatest token alone (greedy)."""

    value: Any


class TopK(NamedTuple):
    """Keeps the `k` greatest tokens: an int, or i32 `[rows]`. Off where k <= 0."""

    k: Any


class TopP(NamedTuple):
    """Keeps the fewest greatest tokens whose share of the mass reaches `p`: a number, or f32 `[rows]`.
    Off where p >= 1."""

    p: Any


class MinP(NamedTuple):
    """Keeps tokens of at least `q` times the greatest one's probability: a number, or f32 `[rows]`.
    Off where q <= 0."""

    q: Any


class TopKTopP(NamedTuple):
    """`TopK(k)` and `TopP(p)`, both judged on the same set (FlashInfer's "joint" order)."""

    k: Any
    p: Any


Step = Union[Temperature, TopK, TopP, MinP, TopKTopP]
"""What a chain is made of."""

_FIELDS: dict[type, tuple[int, ...]] = {
    Temperature: (lib.TEMPERATURE,),
    TopK: (lib.TOP_K,),
    TopP: (lib.TOP_P,),
    MinP: (lib.MIN_P,),
    TopKTopP: (lib.JOINT_TOP_K, lib.JOINT_TOP_P),
}


class Chain:
    """An ordered list of steps, in any order and number (16 at most), for any number of calls.

    Parameters
    ----------
    steps
        `Temperature`, `TopK`, `TopP`, `MinP` and `TopKTopP` objects.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> chain = tombola.Chain([tombola.TopK(2), tombola.Temperature(0.5), tombola.TopP(0.9)])
    >>> chain
    Chain([TopK(k=2), Temperature(value=0.5), TopP(p=0.9)])
    >>> logits = np.array([[0.0, 3.0, 2.0, 1.0]], dtype=np.float32)
    >>> tombola.renorm(logits, chain=chain).round(3)
    array([[0.   , 0.881, 0.119, 0.   ]], dtype=float32)
    """

    __slots__ = ("steps", "arguments")

    steps: tuple[Step, ...]
    arguments: tuple[Any, ...]

    def __init__(self, steps: Sequence[Step]) -> None:
        if isinstance(steps, tuple(_FIELDS)):
            raise TypeError(f"chain: must be a list of steps; {steps!r} is one step")
        try:
            steps = tuple(steps)
        except TypeError:
            raise TypeError(f"chain: must be a list of steps, not {type(steps).__name__}") from None
        arguments: list[Any] = []
        for step in steps:
            fields = _FIELDS.get(type(step))
            if fields is None:
                raise TypeError(f"chain: {step!r} is no step; steps are Temperature, TopK, TopP, MinP, TopKTopP")
            for field, value in zip(fields, step):
                if value is None:
                    raise TypeError(f"chain: {step!r} lacks a value")
                arguments += (field, value)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "arguments", tuple(arguments))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Chain is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Chain is immutable")

    def __reduce__(self) -> tuple[type[Chain], tuple[tuple[Step, ...]]]:
        return Chain, (self.steps,)

    def __eq__(self, other: object) -> bool:
        """The same steps with equal numbers; arrays are equal to themselves alone."""
        return self._key() == other._key() if isinstance(other, Chain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        values = (value if isinstance(value, numbers.Number) else id(value) for value in self.arguments[1::2])
        return tuple(zip(self.arguments[::2], (isinstance(v, numbers.Number) for v in self.arguments[1::2]), values))

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.steps))}])"


def chain_arguments(
    temperature: Any, top_k: Any, top_p: Any, min_p: Any, order: Sequence[str], chain: Chain | None
) -> tuple[Any, ...]:
    """The chain of a call as fields and values."""
    if chain is not None:
        if not (temperature is None and top_k is None and top_p is None and min_p is None):
            raise ValueError("chain: excludes temperature, top_k, top_p and min_p")
        if not isinstance(chain, Chain):
            raise TypeError(f"chain: must be a Chain, not {type(chain).__name__}")
        if order != DEFAULT_ORDER:
            raise ValueError("order: a chain has its own")
        return chain.arguments
    if not isinstance(order, (tuple, list)):
        raise TypeError(f"order: must be a tuple or list of names, not {type(order).__name__}")
    if order == DEFAULT_ORDER:
        return (lib.TEMPERATURE, temperature, lib.MIN_P, min_p, lib.TOP_K, top_k, lib.TOP_P, top_p)
    return _ordered(temperature, top_k, top_p, min_p, order)


def _ordered(temperature: Any, top_k: Any, top_p: Any, min_p: Any, order: Sequence[str]) -> tuple[Any, ...]:
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    numbers = {
        "temperature": lib.TEMPERATURE,
        "top_k": lib.TOP_K,
        "top_p": lib.TOP_P,
        "min_p": lib.MIN_P,
    }
    arguments: list[Any] = []
    named: set[str] = set()
    for name in order:
        if not isinstance(name, str):
            raise TypeError(f"order: must be a tuple or list of names, and {name!r} is none")
        parts = {"top_k", "top_p"} if name == "top_k_top_p" else {name}
        if name != "top_k_top_p" and name not in given:
            known = ", ".join([*given, "top_k_top_p"])
            raise ValueError(f"order: {name!r} is none of {known}")
        if parts & named:
            raise ValueError(f"order: names {', '.join(sorted(parts & named))} twice")
        named |= parts
        if name != "top_k_top_p":
            arguments += (numbers[name], given[name])
        elif top_k is not None and top_p is not None:
            arguments += (lib.JOINT_TOP_K, top_k, lib.JOINT_TOP_P, top_p)
        else:  # one alone is the same either way
            arguments += (lib.TOP_K, top_k, lib.TOP_P, top_p)
    for name, value in given.items():
        if value is not None and name not in named:
            raise ValueError(f"order: lacks {name}, which is given")
    return tuple(arguments)
