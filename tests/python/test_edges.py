"""Where little is given: batches of no rows, rows shorter than the array, one seed in an array; chains as values."""

import copy
import pickle

import numpy as np
import pytest
from arrays import needs_torch, torch

import tombola


def i32(lib, *values):
    return lib.array(np.array(values, np.int32))


# ---- rows of an empty batch ----


@pytest.mark.parametrize("vocab", [1, 8, 100000])
def test_rows_picked_of_none_are_bad(lib, vocab):
    x = lib.array(np.empty((0, vocab), np.float32))
    rows = lib.array(np.arange(8, dtype=np.int32))
    result = tombola.sample(x, rows=rows, seed=1, top_p=0.9, return_status=True, return_kept=1)
    assert lib.numpy(result.tokens).tolist() == [-1] * 8
    assert lib.numpy(result.status).tolist() == [tombola.ROW_BAD_PARAM] * 8
    assert lib.numpy(result.kept_counts).tolist() == [0] * 8
    assert not lib.numpy(tombola.softmax(x, rows=rows)).any()
    assert (lib.numpy(tombola.mask(x, rows=rows, top_k=1)) == -np.inf).all()
    none = lib.array(np.empty(0, np.int32))
    assert lib.numpy(tombola.sample(x, rows=rows, lengths=none, seed=1)).tolist() == [-1] * 8
    assert lib.numpy(tombola.sample(x, rows=none, seed=1)).tolist() == []


def test_the_reference_has_the_same_rows_of_none():
    x, rows = np.empty((0, 8), np.float32), np.zeros(3, np.int32)
    assert tombola.sample(x, rows=rows, seed=1, backend="reference").tolist() == [-1] * 3


# ---- behind a row's length ----


@pytest.mark.parametrize("check", [False, True])
def test_nothing_stands_behind_a_rows_length(lib, logits, check):
    x = lib.array(logits)
    lengths = i32(lib, 1000, 10, 700, 3, 999) if check else i32(lib, 1000, 10, 0, -3, 1001)
    if not check:
        rows = i32(lib, 0, 1, 2, 3, 4, 9)
    else:
        rows = i32(lib, 0, 1, 2, 3, 4)
    shape = (len(rows), 1000)
    for function, blank in ((tombola.softmax, 0), (tombola.renorm, 0), (tombola.mask, -np.inf)):
        # memory that comes back to the allocator holds something
        dirty = [lib.array(np.full(shape, 777, np.float32)) for _ in range(4)]
        del dirty
        got = lib.numpy(function(x, rows=rows, lengths=lengths, check=check))
        for row, length in enumerate(lib.numpy(lengths).tolist()):
            length = length if 0 <= length <= 1000 else 0
            assert (got[row, length:] == blank).all(), (function, row)
            assert (got[row, :length] != 777).all()
        assert (got[5:] == blank).all()


def test_out_is_left_alone_behind_a_rows_length(lib, logits):
    out = lib.array(np.full((5, 1000), 777, np.float32))
    tombola.softmax(lib.array(logits), lengths=i32(lib, 1000, 10, 0, 3, 999), out=out)
    assert [(row == 777).sum() for row in lib.numpy(out)] == [0, 990, 1000, 997, 1]


# ---- seeds and offsets in arrays ----


def test_a_seed_of_one_element_is_the_same_as_an_int(lib):
    x = lib.array(np.zeros((6, 1000), np.float32))
    seed = lib.array(np.array([7], np.int64))
    for more in {}, {"num_samples": 3}, {"rows": i32(lib, 0, 0, 0)}, {"method": "rejection", "top_p": 0.9}:
        expected = lib.numpy(tombola.sample(x, seed=7, **more))
        assert len(set(expected.reshape(-1).tolist())) > 2
        assert (lib.numpy(tombola.sample(x, seed=seed, **more)) == expected).all()
    # one row is the same either way, and streams of the caller's stay
    assert (lib.numpy(tombola.sample(x[:1], seed=seed)) == lib.numpy(tombola.sample(x[:1], seed=7))).all()
    streams = i32(lib, *[3] * 6)
    assert len(set(lib.numpy(tombola.sample(x, seed=seed, streams=streams)).tolist())) == 1


def test_advanced_offsets_lie_apart(lib):
    x = lib.array(np.zeros((3, 8), np.float32))
    block = lib.array(np.zeros(12, np.int64))
    cases = {
        "seed": {"seed": block[:3], "offset": block[:3]},
        "seed in part": {"seed": block[:3], "offset": block[2:5]},
        "out": {"seed": 1, "offset": block[:3], "out": block[:3].view(x.dtype).view(i32(lib, 1).dtype)[:3]},
        "logits": {"seed": 1, "offset": block[:3]},
        "temperature": {"seed": 1, "offset": block[:3], "temperature": block[:3].view(x.dtype)[:3]},
    }
    for name, how in cases.items():
        source = block.view(x.dtype).reshape(3, 8) if name == "logits" else x
        with pytest.raises(ValueError, match="^(offset|out): overlaps"):
            tombola.sample(source, advance=True, **how)
        assert not lib.numpy(block).any()
    tombola.sample(x, seed=block[:3], offset=block[3:6], advance=True)
    assert lib.numpy(block).tolist() == [0, 0, 0, 1, 1, 1] + [0] * 6


# ---- chains ----


def test_chains_are_values():
    steps = [tombola.TopK(2), tombola.Temperature(0.5), tombola.TopKTopP(3, 0.9)]
    chain = tombola.Chain(steps)
    for again in (
        pickle.loads(pickle.dumps(chain)), copy.copy(chain), copy.deepcopy(chain), tombola.Chain(s for s in steps)
    ):
        assert again.steps == chain.steps and again.arguments == chain.arguments
        assert again == chain and hash(again) == hash(chain)
    assert chain != tombola.Chain(steps[:2]) and chain != steps
    assert tombola.Chain([tombola.TopP(1)]) != tombola.Chain([tombola.MinP(1)])
    array = np.ones(3, np.float32)
    assert tombola.Chain([tombola.TopP(array)]) == tombola.Chain([tombola.TopP(array)])
    assert tombola.Chain([tombola.TopP(array)]) != tombola.Chain([tombola.TopP(array.copy())])
    with pytest.raises(AttributeError):
        del chain.steps
    assert len(chain.steps) == 3


# ---- what must not be written ----


@needs_torch
def test_tensors_of_a_graph_are_not_written():
    x = torch.zeros(3, 8)
    leaf = torch.zeros(3, 8, requires_grad=True)
    before = leaf.detach().clone()
    for out in leaf, leaf * 1:
        with pytest.raises(ValueError, match="^out: "):
            tombola.softmax(x, out=out)
        with pytest.raises(ValueError, match="^out: "):
            tombola.softmax(x, out=out, check=True)
        with pytest.raises(ValueError, match="^out: "):
            tombola.mask(out, top_k=1, out=out)
    with pytest.raises(ValueError, match="^logprobs: "):
        tombola.sample(x, seed=1, out=tombola.Sample(logprobs=torch.zeros(3, requires_grad=True)))
    assert torch.equal(leaf, before)


@needs_torch
def test_torch_sees_what_was_written():
    w = torch.ones(3, 8, requires_grad=True)
    for check in False, True:
        saved = torch.zeros(3, 8)
        loss = (w * saved).sum()
        tombola.softmax(torch.zeros(3, 8), out=saved, check=check)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    tokens, offset = torch.zeros(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int64)
    versions = tokens._version, offset._version
    tombola.sample(torch.zeros(3, 8), seed=1, offset=offset, advance=True, out=tokens)
    assert tokens._version > versions[0] and offset._version > versions[1]
    with torch.inference_mode():
        tombola.sample(torch.zeros(3, 8), seed=1, out=torch.zeros(3, dtype=torch.int32))


@needs_torch
def test_read_only_arrays_beside_torch():
    tokens = np.zeros(3, np.int32)
    tokens.flags.writeable = False
    with pytest.raises(ValueError, match="^out: is read-only"):
        tombola.sample(torch.zeros(3, 8), seed=1, out=tokens)
