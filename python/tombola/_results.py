"""What calls return, and the error of rows."""

from typing import Any, Generic, NamedTuple, TypeVar

Array = TypeVar("Array")

ROW_NAN = 1
"""Bit of a row's status: NaN entries, which were left out."""
ROW_POS_INF = 2
"""Bit of a row's status: +inf entries; only they can be drawn, equally likely."""
ROW_NEGATIVE = 4
"""Bit of a row's status: negative probabilities, which were left out."""
ROW_EMPTY = 8
"""Bit of a row's status: nothing to draw from; its token is -1."""
ROW_BAD_PARAM = 16
"""Bit of a row's status: a parameter of the row is NaN, a temperature negative, or an index out of range."""

_REASONS = {
    ROW_NAN: "NaN entries",
    ROW_POS_INF: "+inf entries",
    ROW_NEGATIVE: "negative probabilities",
    ROW_EMPTY: "nothing to draw from",
    ROW_BAD_PARAM: "a bad parameter",
}


class Sample(NamedTuple, Generic[Array]):
    """What `sample` returns when more than tokens is asked for; what was not asked for is None.

    `[rows(, n)]` has the second dimension where `num_samples` is given.
    """

    tokens: Array | None = None
    """i32 `[rows(, n)]`; -1 where a row has nothing to draw from."""
    logprobs: Array | None = None
    """f32 `[rows(, n)]`, natural log of the token's final probability."""
    raw_logprobs: Array | None = None
    """f32 `[rows(, n)]`, the same before the chain."""
    ranks: Array | None = None
    """i32 `[rows(, n)]`, tokens whose value >= the drawn one's; 1 = greatest."""
    rounds: Array | None = None
    """i32 `[rows(, n)]`, trials of the rejection methods."""
    kept_ids: Array | None = None
    """i32 `[rows, capacity]`, ascending, padded with -1."""
    kept_counts: Array | None = None
    """i32 `[rows]`, tokens that the chain keeps."""
    status: Array | None = None
    """i32 `[rows]`, ROW_ bits."""


class Selection(NamedTuple, Generic[Array]):
    """What `select` returns; masses are None unless asked for."""

    ids: Array | None = None
    """i32 `[rows, capacity]`, ascending, padded with -1."""
    counts: Array | None = None
    """i32 `[rows]`, tokens kept, also where that exceeds the capacity."""
    mass: Array | None = None
    """i64 `[rows]`, integer mass of the kept tokens."""
    total_mass: Array | None = None
    """i64 `[rows]`, integer mass before the filters."""


class Logprobs(NamedTuple, Generic[Array]):
    """What `logprobs` returns; what was not asked for is None."""

    logprobs: Array | None = None
    """f32, the shape of `ids`."""
    top_ids: Array | None = None
    """i32 `[rows, top]`, greatest first, padded with -1."""
    top_logprobs: Array | None = None
    """f32 `[rows, top]`, padded with -inf."""
    entropy: Array | None = None
    """f32 `[rows]`, nats."""


class RowError(ValueError):
    """Raised with `check=True` where a row's status is not 0. Other rows' results are valid, and with `out=` they
    have been written.

    Attributes
    ----------
    status
        The status of every row, as a list of ints (ROW_ bits).
    """

    def __init__(self, status: list[int]) -> None:
        self.status = status
        bad = [(row, bits) for row, bits in enumerate(status) if bits]
        texts = [
            f"row {row} has {' and '.join(text for bit, text in _REASONS.items() if bits & bit)}"
            for row, bits in bad[:3]
        ]
        more = f", and {len(bad) - 3} rows more" if len(bad) > 3 else ""
        super().__init__(f"logits: {', '.join(texts)}{more}")


def raise_for(status: Any) -> None:
    """Waits for a status array and raises what it says."""
    numbers = status.reshape(-1).tolist()
    if any(numbers):
        raise RowError(numbers)
