"""flashinfer.topk over tombola: the k greatest entries of each row, exactly k, ties resolved by index."""

from __future__ import annotations

from enum import IntEnum
from typing import Optional, Tuple

import torch

import tombola

from ._arguments import source

_INT32_MAX = 2**31 - 1


class TopKTieBreak(IntEnum):
    """Which of the entries that tie with the k-th greatest are taken. NONE is SMALL here."""

    NONE = 0
    SMALL = 1  # those of the smallest indices
    LARGE = 2  # those of the largest indices


def can_implement_filtered_topk() -> bool:
    """Whether tie_break works: always."""
    return True


def top_k(
    input: torch.Tensor,
    k: int,
    sorted: bool = False,
    deterministic: bool = False,
    tie_break: int = TopKTieBreak.NONE,
    dsa_graph_safe: bool = False,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The k greatest values of each row, of input's type, and their indices (int64), each of shape
    (batch_size, k). They come in the order of their indices, or of their values if sorted (equal ones by
    index). NaN and +inf are chosen as the greatest finite value of the type is, -inf as the least. Calls may always be captured in a graph, and
    results are always deterministic."""
    if not 0 <= k <= input.size(-1):
        raise ValueError(f"k must be 0 to {input.size(-1)}, got {k}")
    indices = _select(input, k, tie_break).long()
    values = input.gather(1, indices)
    if sorted:
        values, order = values.sort(dim=1, descending=True, stable=True)
        indices = indices.gather(1, order)
    return values, indices


topk = top_k


def top_k_page_table_transform(
    input: torch.Tensor,
    src_page_table: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    row_to_batch: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    tie_break: int = TopKTieBreak.NONE,
    dsa_graph_safe: bool = False,
    row_starts: Optional[torch.Tensor] = None,
    page_table_row_starts: Optional[torch.Tensor] = None,
    *,
    page_size: int = 1,
    out: Optional[torch.Tensor] = None,
    out_raw_indices: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """The k greatest scores among the first lengths[i] of row i (from row_starts[i]), as places in pages:
    int32 (num_rows, k), padded with -1."""
    shape = (input.size(0), k)
    if page_size < 1 or page_size > 2**30 or page_size & (page_size - 1):
        raise ValueError(f"page_size must be a power of two up to 2**30, got {page_size}")
    if page_size > 1 and row_starts is not None and page_table_row_starts is None:
        raise ValueError("page_table_row_starts is required with page_size > 1 and row_starts")
    for tensor, name in ((out, "out"), (out_raw_indices, "out_raw_indices")):
        if tensor is not None:
            _check_output(tensor, name, shape, input.device)
    ids = _select(input, k, tie_break, row_starts, lengths)
    absent = ids < 0
    if page_table_row_starts is None:
        page_table_row_starts = row_starts
    column = ids.clamp(min=0).long()
    page = column // page_size
    if page_table_row_starts is not None:
        page = page + page_table_row_starts.long().unsqueeze(1)
    # an absent entry must not look outside of the table
    page = page.masked_fill(absent, 0)
    if row_to_batch is not None:
        pages = src_page_table[row_to_batch.long().unsqueeze(1), page]
    else:
        pages = src_page_table[: ids.size(0)].gather(1, page)
    places = (pages * page_size + (column % page_size).int()).masked_fill_(absent, -1)
    if out_raw_indices is not None:
        out_raw_indices.copy_(ids)
    return places if out is None else out.copy_(places)


def top_k_ragged_transform(
    input: torch.Tensor,
    offsets: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    deterministic: bool = False,
    tie_break: int = TopKTieBreak.NONE,
    dsa_graph_safe: bool = False,
    row_starts: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """The indices of the k greatest scores among the first lengths[i] of row i (from row_starts[i]), plus
    offsets[i]: int32 (num_rows, k), padded with -1."""
    ids = _select(input, k, tie_break, row_starts, lengths)
    return torch.where(ids < 0, ids, ids + offsets.int().unsqueeze(1))


def _check_output(tensor: torch.Tensor, name: str, shape: Tuple[int, int], device: torch.device) -> None:
    if tensor.shape != shape or tensor.dtype != torch.int32 or tensor.device != device:
        raise ValueError(
            f"{name} must be int32 {shape} on {device}, got {tensor.dtype} {tuple(tensor.shape)} "
            f"on {tensor.device}"
        )
    if not tensor.is_contiguous():
        raise ValueError(f"{name} must be contiguous")


def _select(
    x: torch.Tensor,
    k: int,
    tie_break: int,
    row_starts: Optional[torch.Tensor] = None,
    lengths: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """int32 (rows, k): the chosen indices, from the row's start, ascending, padded with -1."""
    x = source(x, "input")
    # To the library NaN and -inf are no candidates, and +inf drives out what is finite. Here all of them
    # are entries to be ranked. They tie with the extremes: to tell them apart would take a wider type.
    limits = torch.finfo(x.dtype)
    x = torch.nan_to_num(x, nan=limits.max, posinf=limits.max, neginf=limits.min)
    large = tie_break == TopKTieBreak.LARGE
    if lengths is not None and (large or row_starts is not None):
        # Outside of its window a row has nothing to choose from.
        place = torch.arange(x.size(1), device=x.device)
        starts = 0 if row_starts is None else row_starts.unsqueeze(1)
        inside = (place >= starts) & (place < starts + lengths.unsqueeze(1))
        x = x.masked_fill_(~inside, -torch.inf)
        lengths = None
    if lengths is not None:
        lengths = lengths.clamp(-1, _INT32_MAX).int()
    mirrored = x.flip(1) if large else x
    ids = tombola.select(mirrored, top_k=k, ties="index", capacity=k, lengths=lengths).ids
    if large:
        # from the mirror image's order to ascending, padding behind
        ids = torch.where(ids < 0, _INT32_MAX, x.size(1) - 1 - ids).sort(dim=1).values
        ids = ids.masked_fill_(ids == _INT32_MAX, -1)
    if row_starts is not None:
        ids = torch.where(ids < 0, ids, ids - row_starts.int().unsqueeze(1))
    return ids
