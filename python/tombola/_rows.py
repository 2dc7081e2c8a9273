"""Functions of whole rows: probabilities, masks, kept sets, log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _library as lib
from ._chain import DEFAULT_ORDER, Chain, chain_arguments
from ._engine import ALL, AUTO, LOGITS, Output, count_of, fill, framework, lead, source, vocab, whole_rows
from ._results import Array, Logprobs, Selection


def softmax(
    logits: Array,
    *,
    temperature: float | Array | None = None,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    out: Array | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Array:
    """Probabilities of all tokens.

    Parameters
    ----------
    logits, temperature, rows, slots, lengths, check, threads, backend
        As for `sample`. Temperature 0 gives the greatest token 1.
    out
        float32 array to write to, with adjacent elements in a row. What lies behind a row's length stays as it is;
        without `out` it is 0.

    Returns
    -------
    array
        float32, `[rows, vocab_size]`.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> tombola.softmax(np.array([[0.0, 1.0, 2.0]], dtype=np.float32), temperature=0.5).round(4)
    array([[0.0159, 0.1173, 0.8668]], dtype=float32)
    """
    arguments: tuple[Any, ...] = (lib.TEMPERATURE, temperature)
    arguments += source(LOGITS, rows, slots, lengths, ALL, threads, backend)
    result: Array = whole_rows(
        logits, framework(logits), arguments, rows, lengths, lib.PROBABILITIES, "float32", out, check
    )
    return result


def renorm(
    x: Array,
    *,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = DEFAULT_ORDER,
    chain: Chain | None = None,
    kind: str = LOGITS,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ALL,
    out: Array | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Array:
    """Probabilities of the tokens that the chain keeps, of sum 1; 0 for the others.

    Parameters
    ----------
    x
        Logits, or with `kind="probabilities"` non-negative weights; `[rows, vocab_size]` or `[vocab_size]`.
    temperature, top_k, top_p, min_p, order, chain
        The chain, as for `sample`. Probabilities have no temperature.
    kind, rows, slots, lengths, ties, check, threads, backend
        As for `sample`.
    out
        float32 array to write to, with adjacent elements in a row. What lies behind a row's length stays as it is;
        without `out` it is 0.

    Returns
    -------
    array
        float32, `[rows, vocab_size]`.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> probabilities = np.array([[0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    >>> tombola.renorm(probabilities, top_p=0.6, kind="probabilities").round(4)
    array([[0.    , 0.    , 0.4286, 0.5714]], dtype=float32)
    """
    arguments = chain_arguments(temperature, top_k, top_p, min_p, order, chain)
    arguments += source(kind, rows, slots, lengths, ties, threads, backend)
    result: Array = whole_rows(x, framework(x), arguments, rows, lengths, lib.PROBABILITIES, "float32", out, check)
    return result


def mask(
    logits: Array,
    *,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = DEFAULT_ORDER,
    chain: Chain | None = None,
    kind: str = LOGITS,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ALL,
    out: Array | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Array:
    """Logits with -inf where the chain cuts; what it keeps stays as it is, to the bit.

    Parameters
    ----------
    logits, temperature, top_k, top_p, min_p, order, chain
        As for `sample`.
    kind, rows, slots, lengths, ties, check, threads, backend
        As for `sample`.
    out
        Array of logits' dtype to write to, with adjacent elements in a row; logits itself: in place (not together
        with `rows`). What lies behind a row's length stays as it is; without `out` it is -inf.

    Returns
    -------
    array
        Of logits' dtype, `[rows, vocab_size]`.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> tombola.mask(np.array([[0.5, 3.0, 2.0, 3.0]], dtype=np.float32), top_k=1)
    array([[-inf,   3., -inf,   3.]], dtype=float32)
    >>> tombola.mask(np.array([[0.5, 3.0, 2.0, 3.0]], dtype=np.float32), top_k=1, ties="index")
    array([[-inf,   3., -inf, -inf]], dtype=float32)
    """
    arguments = chain_arguments(temperature, top_k, top_p, min_p, order, chain)
    arguments += source(kind, rows, slots, lengths, ties, threads, backend)
    result: Array = whole_rows(logits, framework(logits), arguments, rows, lengths, lib.MASKED, None, out, check)
    return result


def select(
    x: Array,
    *,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = DEFAULT_ORDER,
    chain: Chain | None = None,
    kind: str = LOGITS,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ALL,
    capacity: int | None = None,
    return_mass: bool = False,
    out: Selection[Array] | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Selection[Array]:
    """The ids that the chain keeps.

    Parameters
    ----------
    x
        Logits, or with `kind="probabilities"` non-negative weights; `[rows, vocab_size]` or `[vocab_size]`.
    temperature, top_k, top_p, min_p, order, chain
        The chain, as for `sample`.
    kind, rows, slots, lengths, ties, check, threads, backend
        As for `sample`.
    capacity
        Room for ids in a row; None: vocab_size. A count above it tells that only the lowest ids are there.
    return_mass
        Also the integer masses of the kept tokens and of all tokens before the filters.
    out
        A `Selection` of arrays, all of which are written.

    Returns
    -------
    Selection
        ids int32 `[rows, capacity]`, ascending, padded with -1; counts int32 `[rows]`; masses int64 `[rows]`.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> kept = tombola.select(np.array([[0.1, 0.2, 0.3, 0.4]], dtype=np.float32), top_p=0.6,
    ...                       kind="probabilities", capacity=3)
    >>> kept.ids, kept.counts
    (array([[ 2,  3, -1]], dtype=int32), array([2], dtype=int32))
    """
    if out is not None and not isinstance(out, Selection):
        raise TypeError(f"out: must be a Selection of arrays, not {type(out).__name__}")
    how = framework(x)
    given = {} if out is None else {name: array for name, array in out._asdict().items() if array is not None}
    arguments = chain_arguments(temperature, top_k, top_p, min_p, order, chain)
    arguments += source(kind, rows, slots, lengths, ties, threads, backend)
    shape = lead(x, rows)
    wanted: dict[str, Output] = {}
    if out is None or "ids" in given:
        wanted["ids"] = (lib.KEPT_IDS, (*shape, vocab(x) if capacity is None else count_of(capacity, "capacity")), "int32")
    if out is None or "counts" in given:
        wanted["counts"] = (lib.KEPT_COUNTS, shape, "int32")
    if return_mass or "mass" in given:
        wanted["mass"] = (lib.KEPT_MASS, shape, "int64")
    if return_mass or "total_mass" in given:
        wanted["total_mass"] = (lib.TOTAL_MASS, shape, "int64")
    return Selection(**fill(x, how, arguments, wanted, given, check))


def logprobs(
    x: Array,
    ids: Array | None = None,
    *,
    top: int | None = None,
    raw: bool = False,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = DEFAULT_ORDER,
    chain: Chain | None = None,
    kind: str = LOGITS,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ALL,
    return_entropy: bool = False,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Logprobs[Array]:
    """Log-probabilities of given ids and of the greatest tokens, and the entropy.

    Parameters
    ----------
    x
        Logits, or with `kind="probabilities"` non-negative weights; `[rows, vocab_size]` or `[vocab_size]`.
    ids
        int32 `[rows]` or `[rows, n]`. Cut ids have -inf; ids out of range have NaN.
    top
        How many of the greatest tokens to return, greatest first.
    raw
        Before the chain (temperature 1, all tokens) instead of after it.
    temperature, top_k, top_p, min_p, order, chain
        The chain, as for `sample`.
    kind, rows, slots, lengths, ties, check, threads, backend
        As for `sample`.
    return_entropy
        Also the entropy of what the chain keeps, in nats.

    Returns
    -------
    Logprobs
        logprobs float32, of the shape of ids; top_ids int32 and top_logprobs float32 `[rows, top]`; entropy float32
        `[rows]`.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> logits = np.array([[0.0, 1.0, 2.0]], dtype=np.float32)
    >>> tombola.logprobs(logits, np.array([2], dtype=np.int32)).logprobs
    array([-0.40760598], dtype=float32)
    >>> tombola.logprobs(logits, top=2, top_k=1).top_ids
    array([[ 2, -1]], dtype=int32)
    """
    how = framework(x)
    arguments = chain_arguments(temperature, top_k, top_p, min_p, order, chain)
    arguments += source(kind, rows, slots, lengths, ties, threads, backend)
    shape = lead(x, rows)
    wanted: dict[str, Output] = {}
    single = False  # one id per row
    if ids is not None:
        if not hasattr(ids, "shape"):
            raise TypeError(f"ids: must be an int32 array, not {type(ids).__name__}")
        given: Any = ids
        single = len(given.shape) == len(shape)
        if single:
            given = given.reshape((*given.shape, 1))
        arguments += (lib.IDS, given)
        field = lib.RAW_LOGPROBS_OF_IDS if raw else lib.LOGPROBS_OF_IDS
        wanted["logprobs"] = (field, tuple(given.shape), "float32")
    if top is not None:
        top = count_of(top, "top")
        arguments += (lib.TOP_RAW, int(raw))
        wanted["top_ids"] = (lib.TOP_IDS, (*shape, top), "int32")
        wanted["top_logprobs"] = (lib.TOP_LOGPROBS, (*shape, top), "float32")
    if return_entropy:
        wanted["entropy"] = (lib.ENTROPY, shape, "float32")
    if not wanted:
        raise ValueError("ids: nothing is asked for: give ids, top or return_entropy")
    arrays = fill(x, how, arguments, wanted, {}, check)
    if single:
        arrays["logprobs"] = arrays["logprobs"].reshape(arrays["logprobs"].shape[:-1])
    return Logprobs(**arrays)
