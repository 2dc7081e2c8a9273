"""tombola.compat.flashinfer.topk beside torch.topk."""

import pytest
import torch

from tombola.compat import flashinfer
from tombola.compat.flashinfer import TopKTieBreak


def scores(device, rows=5, width=300, seed=0, dtype=torch.float32):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("k", [0, 1, 7, 299, 300])
def test_values_are_torchs(device, dtype, k):
    x = scores(device, dtype=dtype)
    values, indices = flashinfer.top_k(x, k, sorted=True)
    assert values.dtype == dtype and indices.dtype == torch.int64 and indices.shape == (5, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(1, indices), values)
    plain = flashinfer.top_k(x, k)[1]
    assert torch.equal(plain, indices.sort(dim=1).values)


def test_infinities_and_nan(device):
    x = scores(device)
    x[0, 5:] = -torch.inf  # fewer finite entries than k
    x[1, ::7] = torch.inf
    x[2, 3] = torch.nan
    x[3] = -torch.inf
    values, indices = flashinfer.top_k(x, 50, sorted=True)
    assert torch.equal(values.nan_to_num(nan=1e9), x.topk(50).values.nan_to_num(nan=1e9))
    for row in indices:
        assert len(row.unique()) == 50
    assert values[2, 0].isnan() and indices[2, 0] == 3


def test_ties(device):
    x = torch.zeros(3, 100, device=device)
    x[:, 40:45] = 1
    small = flashinfer.top_k(x, 10, tie_break=TopKTieBreak.SMALL)[1]
    assert small.tolist() == [[0, 1, 2, 3, 4, 40, 41, 42, 43, 44]] * 3
    assert torch.equal(flashinfer.top_k(x, 10)[1], small)
    large = flashinfer.top_k(x, 10, tie_break=TopKTieBreak.LARGE)[1]
    assert large.tolist() == [[40, 41, 42, 43, 44, 95, 96, 97, 98, 99]] * 3
    assert flashinfer.top_k(x, 3, True, tie_break=TopKTieBreak.LARGE)[1].tolist() == [[42, 43, 44]] * 3


def test_wrong_k_is_refused(device):
    for k in (-1, 301):
        with pytest.raises(ValueError, match="k must be"):
            flashinfer.top_k(scores(device), k)


@pytest.mark.parametrize("tie_break", TopKTieBreak)
@pytest.mark.parametrize("windows", [False, True])
def test_ragged_transform(device, tie_break, windows):
    x = scores(device, rows=6).round(decimals=1)  # with ties
    x[3, :250] = 9
    lengths = torch.tensor([0, 5, 20, 100, 250, 280], dtype=torch.int32, device=device)
    starts = torch.tensor([9, 0, 20, 3, 50, 17], dtype=torch.int32, device=device) if windows else None
    offsets = torch.arange(6, dtype=torch.int32, device=device) * 1000
    out = flashinfer.top_k_ragged_transform(x, offsets, lengths, 20, tie_break=tie_break, row_starts=starts)
    assert out.dtype == torch.int32
    for row in range(6):
        first, length = int(starts[row]) if windows else 0, int(lengths[row])
        window = x[row, first : first + length].cpu()
        order = list(range(length))
        order.sort(key=lambda i: (-window[i], -i if tie_break == TopKTieBreak.LARGE else i))
        expected = sorted(i + 1000 * row for i in order[:20])
        assert out[row].tolist() == expected + [-1] * (20 - len(expected))


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("windows", [False, True])
def test_page_table_transform(device, page_size, windows):
    x = scores(device, rows=6)
    lengths = torch.tensor([3, 8, 20, 100, 250, 280], dtype=torch.int32, device=device)
    batch = torch.tensor([1, 1, 0, 2, 2, 0], dtype=torch.int32, device=device)
    table = torch.randperm(3 * 320, generator=torch.Generator().manual_seed(1)).int().view(3, 320).to(device)
    starts = torch.tensor([9, 0, 20, 3, 50, 17], dtype=torch.int32, device=device) if windows else None
    pages = torch.tensor([1, 0, 2, 0, 3, 1], dtype=torch.int32, device=device) if windows else None
    out = torch.empty(6, 8, dtype=torch.int32, device=device)
    raw = torch.empty(6, 8, dtype=torch.int32, device=device)
    result = flashinfer.top_k_page_table_transform(
        x, table, lengths, 8, batch, row_starts=starts, page_table_row_starts=pages, page_size=page_size,
        out=out, out_raw_indices=raw,
    )  # fmt: skip
    assert result is out
    for row in range(6):
        first, length = int(starts[row]) if windows else 0, int(lengths[row])
        chosen = sorted(x[row, first : first + length].topk(min(8, length)).indices.tolist())
        page = int(pages[row]) if windows else 0
        places = [int(table[batch[row], page + i // page_size]) * page_size + i % page_size for i in chosen]
        padding = [-1] * (8 - len(chosen))
        assert raw[row].tolist() == chosen + padding and out[row].tolist() == places + padding


def test_wrong_pages_are_refused(device):
    x = scores(device)
    table = torch.zeros(5, 300, dtype=torch.int32, device=device)
    lengths = torch.full((5,), 300, dtype=torch.int32, device=device)
    call = flashinfer.top_k_page_table_transform
    for page_size in (0, 3, 2**31):
        with pytest.raises(ValueError, match="page_size must be a power of two"):
            call(x, table, lengths, 8, page_size=page_size)
    with pytest.raises(ValueError, match="page_table_row_starts is required"):
        call(x, table, lengths, 8, row_starts=lengths, page_size=2)
    with pytest.raises(ValueError, match="out must be int32"):
        call(x, table, lengths, 8, out=table)
    with pytest.raises(ValueError, match="out_raw_indices must be contiguous"):
        call(x, table, lengths, 8, out_raw_indices=table[:, :8])
