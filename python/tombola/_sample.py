"""`sample`: tokens, and what is asked for about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from . import _library as lib
from . import _seeds
from ._chain import DEFAULT_ORDER, Chain, chain_arguments
from ._engine import (
    ALL,
    AUTO,
    EXACT,
    LOGITS,
    Output,
    count_of,
    fill,
    is_compiling,
    is_traced,
    lead,
    operator,
    reraise,
    source,
    vocab,
)
from ._frameworks import Framework, framework_of
from ._library import MIN_P, NOT_CAPTURED, OFFSET, SEED, TEMPERATURE, TOKENS, TOP_K, TOP_P
from ._results import Array, Sample

_MAX_INT = (1 << 63) - 1


@overload
def sample(
    logits: Array,
    *,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = ...,
    chain: Chain | None = None,
    kind: str = ...,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ...,
    method: str = ...,
    seed: int | Array | None = None,
    offset: int | Array | None = None,
    advance: bool = False,
    streams: Array | None = None,
    random: Array | None = None,
    num_samples: int | None = None,
    out: Array | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = ...,
) -> Array: ...
@overload
def sample(
    logits: Array,
    *,
    temperature: float | Array | None = None,
    top_k: int | Array | None = None,
    top_p: float | Array | None = None,
    min_p: float | Array | None = None,
    order: Sequence[str] = ...,
    chain: Chain | None = None,
    kind: str = ...,
    rows: Array | None = None,
    slots: Array | None = None,
    lengths: Array | None = None,
    ties: str = ...,
    method: str = ...,
    seed: int | Array | None = None,
    offset: int | Array | None = None,
    advance: bool = False,
    streams: Array | None = None,
    random: Array | None = None,
    num_samples: int | None = None,
    return_logprobs: bool = False,
    return_raw_logprobs: bool = False,
    return_ranks: bool = False,
    return_rounds: bool = False,
    return_kept: bool | int = False,
    return_status: bool = False,
    out: Array | Sample[Array] | None = None,
    check: bool = False,
    threads: int = 0,
    backend: str = ...,
) -> Array | Sample[Array]: ...
def sample(
    logits: Any,
    *,
    temperature: Any = None,
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    order: Sequence[str] = DEFAULT_ORDER,
    chain: Chain | None = None,
    kind: str = LOGITS,
    rows: Any = None,
    slots: Any = None,
    lengths: Any = None,
    ties: str = ALL,
    method: str = EXACT,
    seed: Any = None,
    offset: Any = None,
    advance: bool = False,
    streams: Any = None,
    random: Any = None,
    num_samples: int | None = None,
    return_logprobs: bool = False,
    return_raw_logprobs: bool = False,
    return_ranks: bool = False,
    return_rounds: bool = False,
    return_kept: bool | int = False,
    return_status: bool = False,
    out: Any = None,
    check: bool = False,
    threads: int = 0,
    backend: str = AUTO,
) -> Any:
    """Draws a token from each row: source, chain, draw.

    Parameters
    ----------
    logits
        `[rows, vocab_size]`, or `[vocab_size]` for one row, whose results lack the dimension of rows; float32,
        float16 or bfloat16; elements of a row adjacent in memory, rows at any distance. NumPy, torch (CPU and
        CUDA), CuPy or JAX (CPU).
    temperature
        A number, or float32 `[rows]`. 0 is greedy. None: 1.
    top_k
        An int, or int32 `[rows]`. Off where <= 0.
    top_p
        A number, or float32 `[rows]`. Off where >= 1.
    min_p
        A number, or float32 `[rows]`. Off where <= 0.
    order
        The order in which these apply. `"top_k_top_p"` in place of the two names judges both on the same set.
    chain
        A `Chain` instead of the parameters above.
    kind
        `"logits"`, or `"probabilities"` for non-negative weights of any sum.
    rows
        int32 `[n]`: output row i is row `rows[i]` of logits. The results then have n rows.
    slots
        int32, one per output row: its place in the per-row parameters, which may then have any length.
    lengths
        int32, one per row of logits: how many of its elements count.
    ties
        `"all"` keeps tokens of equal value together at a cut; `"index"` ranks the lower index higher, so that
        `top_k` keeps exactly k.
    method
        `"exact"`, or `"rejection"` and `"dual_pivot"`, which draw from the same distribution.
    seed
        An int, 0 to 2^64 - 1: rows differ by their number. An int64/uint64 array of one element is the same (unless
        `slots` is given). Or int64/uint64 `[rows]`, a seed per request, whose tokens then do not depend on its place
        in the batch. None: see `manual_seed`.
    offset
        The position of the token: an int, or int64/uint64 `[rows]`. None: 0.
    advance
        Adds 1 to every element of an `offset` array that the call uses, on the device.
    streams
        int32/uint32 `[rows]`: more to tell rows' random numbers apart by.
    random
        int64/uint64 `[rows]` (`[rows, num_samples]`): 64 random bits per draw in place of the seed.
    num_samples
        Independent draws per row, at most 4096; results of draws are then `[rows, num_samples]`.
    return_logprobs, return_raw_logprobs
        The tokens' log-probabilities after the chain, and before it.
    return_ranks, return_rounds, return_status
        Ranks, trials of the rejection methods, and rows' status.
    return_kept
        The kept ids and their counts. True has room for all of them; a number is the room in a row.
    out
        int32 array to write the tokens to; or a `Sample` of arrays, all of which are written.
    check
        Waits for the results, and raises `RowError` where a row's status is not 0.
    threads
        CPU threads; 0: as many as there are processors.
    backend
        `"auto"`, `"cpu"`, `"reference"` or `"cuda"`.

    Returns
    -------
    array or Sample
        int32 tokens, `[rows]` or `[rows, num_samples]`; a `Sample` where more is asked for.

    Examples
    --------
    >>> import numpy as np, tombola
    >>> logits = np.array([[1.0, 4.0, 3.5, -2.0], [0.0, 0.5, 0.2, 9.0]], dtype=np.float32)
    >>> tombola.sample(logits, temperature=0.8, top_k=3, top_p=0.95, seed=7)
    array([2, 3], dtype=int32)
    >>> result = tombola.sample(logits, top_k=2, seed=7, return_logprobs=True, return_kept=2)
    >>> result.tokens, result.kept_counts
    (array([2, 3], dtype=int32), array([2, 2], dtype=int32))
    >>> result.kept_ids
    array([[1, 2],
           [1, 3]], dtype=int32)

    A temperature for each request, and its own seed:

    >>> tombola.sample(logits, temperature=np.array([0.0, 1.3], dtype=np.float32), seed=np.array([1, 2]))
    array([1, 3], dtype=int32)
    """
    how = operator if is_traced() else framework_of(logits)
    captured = None
    if seed is None:
        if offset is not None:
            raise ValueError("offset: belongs to a seed, and there is none")
        if random is None:
            if is_compiling():
                random = how.random_bits(logits, lead(logits, rows), num_samples, method)
            else:
                seed, offset = _seeds.automatic()
                captured = 1
    elif random is not None:
        raise ValueError("random: excludes seed")
    elif seed.__class__ is not int:
        seed = _seeds.word(seed, "seed")
        if (
            streams is None and slots is None
            and not isinstance(seed, int)  # first: torch.compile cannot trace the next line for it
            and getattr(seed, "shape", None) == (1,)
        ):  # fmt: skip
            streams = _streams(how, logits, rows)
    elif not 0 <= seed <= _MAX_INT:
        seed = _seeds.scalar(seed, "seed")
    if offset is not None:
        if offset.__class__ is not int:
            offset = _seeds.word(offset, "offset")
        elif not 0 <= offset <= _MAX_INT:
            offset = _seeds.scalar(offset, "offset")

    if num_samples is not None:
        num_samples = count_of(num_samples, "num_samples", 1)
    if chain is None and order is DEFAULT_ORDER:
        arguments: tuple[Any, ...] = (
            TEMPERATURE, temperature, MIN_P, min_p, TOP_K, top_k, TOP_P, top_p,
            SEED, seed, OFFSET, offset, NOT_CAPTURED, captured,
        )  # fmt: skip
    else:
        arguments = (
            *chain_arguments(temperature, top_k, top_p, min_p, order, chain),
            SEED, seed, OFFSET, offset, NOT_CAPTURED, captured,
        )  # fmt: skip
    if not (
        kind is LOGITS and ties is ALL and backend is AUTO and threads == 0
        and rows is None and slots is None and lengths is None
    ):  # fmt: skip
        arguments += source(kind, rows, slots, lengths, ties, threads, backend)
    if not (method is EXACT and advance is False and streams is None and random is None and num_samples is None):
        arguments += (
            lib.METHOD, lib.value_of(lib.METHODS, "method", method), lib.ADVANCE, advance,
            lib.STREAMS, streams, lib.RANDOM, random, lib.NUM_SAMPLES, num_samples,
        )  # fmt: skip
        if advance and offset is not None and offset.__class__ is not int:
            how.check_written(offset, "offset")
            if how.written is not None:
                how.written(offset)

    several = (
        return_logprobs or return_raw_logprobs or return_ranks or return_rounds or return_status
        or return_kept is not False or check or out.__class__ is Sample
    )  # fmt: skip
    if not several:
        result = out
        if out is not None:
            how.check_written(out, "out")
        else:
            shape = lead(logits, rows)
            result = how.empty(logits, shape if num_samples is None else (*shape, num_samples), "int32")
        try:
            how.run(logits, *arguments, TOKENS, result)
        except (TypeError, ValueError) as error:
            reraise(error, "tokens")
        if out is not None and how.written is not None:
            how.written(out)
        return result if how.finish is None or out is not None else how.finish(result)

    given: dict[str, Any] = {}
    if out.__class__ is Sample:
        given = {name: array for name, array in out._asdict().items() if array is not None}
    elif out is not None:
        given = {"tokens": out}
    shape = lead(logits, rows)
    drawn = shape if num_samples is None else (*shape, num_samples)
    wanted: dict[str, Output] = {}
    if out.__class__ is not Sample or "tokens" in given:
        wanted["tokens"] = (lib.TOKENS, drawn, "int32")
    if return_logprobs or "logprobs" in given:
        wanted["logprobs"] = (lib.LOGPROBS, drawn, "float32")
    if return_raw_logprobs or "raw_logprobs" in given:
        wanted["raw_logprobs"] = (lib.RAW_LOGPROBS, drawn, "float32")
    if return_ranks or "ranks" in given:
        wanted["ranks"] = (lib.RANKS, drawn, "int32")
    if return_rounds or "rounds" in given:
        wanted["rounds"] = (lib.ROUNDS, drawn, "int32")
    if return_kept is not False or "kept_ids" in given:
        room = vocab(logits) if return_kept is True or return_kept is False else count_of(return_kept, "return_kept")
        wanted["kept_ids"] = (lib.KEPT_IDS, (*shape, room), "int32")
    if return_kept is not False or "kept_counts" in given:
        wanted["kept_counts"] = (lib.KEPT_COUNTS, shape, "int32")
    if return_status or "status" in given:
        wanted["status"] = (lib.STATUS, shape, "int32")
    several = several and (len(wanted) > 1 or out.__class__ is Sample)
    arrays = fill(logits, how, arguments, wanted, given, check, "" if out.__class__ is Sample else "tokens")
    return Sample(**arrays) if several else arrays["tokens"]


def _streams(how: Framework, logits: Any, rows: Any) -> Any:
    """What tells rows apart that have one array's only seed: their numbers, as with an int."""
    shape = lead(logits, rows)
    return how.arange(logits, shape[0]) if shape and shape[0] != 1 else None
