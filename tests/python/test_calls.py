"""What calls return: shapes, dtypes, strides, batches, and that nothing but the row, the chain and the random numbers
matters."""

import numpy as np
import pytest

import tombola

RNG = np.random.default_rng(2)


def reference(x, **how):
    """A result by the reference, on NumPy arrays."""
    return tombola.sample(x, backend="reference", **how)


def random_parameters(rows):
    return {
        "temperature": RNG.uniform(0, 2, rows).astype(np.float32),
        "top_k": RNG.integers(-1, 60, rows).astype(np.int32),
        "top_p": RNG.uniform(0, 1.2, rows).astype(np.float32),
        "min_p": RNG.uniform(-0.1, 0.3, rows).astype(np.float32),
        "seed": RNG.integers(0, 1 << 63, rows, dtype=np.int64),
        "offset": RNG.integers(0, 1000, rows, dtype=np.int64),
    }


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("rows, vocab", [(1, 1), (1, 32000), (3, 151), (7, 5003), (64, 1024), (300, 17)])
def test_random_batches_equal_the_reference(lib, dtype, rows, vocab):
    values = RNG.normal(0, 3, (rows, vocab)).astype(np.float32)
    bits = {
        "f32": lambda: values.view(np.uint32),
        "f16": lambda: values.astype(np.float16).view(np.uint16),
        "bf16": lambda: (values.view(np.uint32) >> 16).astype(np.uint16),
    }[dtype]()
    x = lib.rows(bits, dtype)
    wide = bits if dtype == "f32" else None
    if dtype == "f16":
        wide = bits.view(np.float16).astype(np.float32).view(np.uint32)
    elif dtype == "bf16":
        wide = bits.astype(np.uint32) << 16
    parameters = random_parameters(rows)
    everything = dict(
        return_logprobs=True, return_raw_logprobs=True, return_ranks=True, return_status=True, return_kept=9
    )
    expected = reference(wide.view(np.float32), **parameters, **everything, num_samples=3)
    got = tombola.sample(
        x, **{name: lib.array(value) for name, value in parameters.items()}, **everything, num_samples=3
    )
    for name in expected._fields:
        a, b = getattr(expected, name), getattr(got, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert (a.view(np.uint32) == lib.bits(b)).all(), name


def test_shapes_and_dtypes(lib, logits):
    x = lib.array(logits)
    result = tombola.sample(
        x, seed=1, top_k=4, num_samples=6, return_logprobs=True, return_raw_logprobs=True, return_ranks=True,
        return_rounds=True, return_kept=True, return_status=True,
    )
    shapes = {name: tuple(array.shape) for name, array in result._asdict().items()}
    draws = (5, 6)
    assert shapes == {
        "tokens": draws, "logprobs": draws, "raw_logprobs": draws, "ranks": draws, "rounds": draws,
        "kept_ids": (5, 1000), "kept_counts": (5,), "status": (5,),
    }
    dtypes = {name: str(array.dtype).rpartition(".")[2] for name, array in result._asdict().items()}
    assert {name for name, dtype in dtypes.items() if dtype == "float32"} == {"logprobs", "raw_logprobs"}
    assert {dtype for name, dtype in dtypes.items() if "logprobs" not in name} == {"int32"}
    assert tombola.sample(x, seed=1).shape == (5,)
    assert tombola.sample(x, seed=1, num_samples=1).shape == (5, 1)
    assert tombola.sample(x, seed=1, return_kept=3).kept_ids.shape == (5, 3)
    kept = tombola.select(x, top_k=4, return_mass=True)
    assert kept.ids.shape == (5, 1000) and kept.mass.shape == (5,) and "int64" in str(kept.mass.dtype)
    assert tombola.select(x, top_k=4).mass is None
    some = tombola.logprobs(x, lib.array(np.zeros((5, 7), np.int32)), top=3)
    assert some.logprobs.shape == (5, 7) and some.top_ids.shape == (5, 3) and some.entropy is None


def test_one_row_has_no_dimension_of_rows(lib, logits):
    one, batch = lib.array(logits[0]), lib.array(logits[:1])
    how = {"top_k": 5, "random": lib.array(np.array(12345678901234567, np.uint64).reshape(()))}
    token = tombola.sample(one, **how)
    assert token.shape == ()
    many = tombola.sample(batch, top_k=5, random=lib.array(np.array([12345678901234567], np.uint64)))
    assert int(token) == int(many[0])
    drawn = tombola.sample(one, seed=3, num_samples=4, return_kept=2)
    assert drawn.tokens.shape == (4,) and drawn.kept_ids.shape == (2,) and drawn.kept_counts.shape == ()
    assert (lib.numpy(drawn.tokens) == lib.numpy(tombola.sample(batch, seed=3, num_samples=4))[0]).all()
    for function in tombola.softmax, tombola.mask:
        assert (lib.bits(function(one)) == lib.bits(function(batch))[0]).all()
    logprob = tombola.logprobs(one, lib.array(np.array([4, 5], np.int32))).logprobs
    assert logprob.shape == (2,)
    assert tombola.sample(one, seed=1, rows=lib.array(np.zeros(3, np.int32))).shape == (3,)
    per_slot = tombola.sample(one, seed=lib.array(np.array([9], np.int64)), temperature=lib.array(np.ones(1, np.float32)))
    assert per_slot.shape == ()


def test_empty_batches_return_empty(lib):
    x = lib.array(np.zeros((0, 10), np.float32))
    assert tombola.sample(x).shape == (0,)
    assert tombola.sample(x, num_samples=3).shape == (0, 3)
    assert tombola.sample(x, temperature=lib.array(np.zeros(0, np.float32)), check=True).shape == (0,)
    assert tombola.softmax(x).shape == (0, 10)
    assert tombola.mask(x, top_k=1).shape == (0, 10)
    assert tombola.select(x, top_k=1, capacity=4).ids.shape == (0, 4)
    assert tombola.logprobs(x, top=2).top_ids.shape == (0, 2)
    full = lib.array(np.zeros((3, 10), np.float32))
    assert tombola.sample(full, rows=lib.array(np.zeros(0, np.int32))).shape == (0,)
    out = lib.empty((0,), "int32")
    assert tombola.sample(x, out=out) is out


def test_rows_may_be_apart(lib, logits):
    wide = np.full((5, 1200), np.inf, np.float32)
    wide[:, 100:1100] = logits
    x, y = lib.array(wide)[:, 100:1100], lib.array(logits)
    how = {"top_p": 0.9, "temperature": 0.7}
    assert (lib.numpy(tombola.sample(x, seed=4, **how)) == lib.numpy(tombola.sample(y, seed=4, **how))).all()
    assert (lib.bits(tombola.mask(x, **how)) == lib.bits(tombola.mask(y, **how))).all()
    third = lib.array(np.repeat(logits, 2, axis=0))[::2]
    assert (lib.numpy(tombola.sample(third, seed=4)) == lib.numpy(tombola.sample(y, seed=4))).all()
    one = lib.array(wide)[2:3, 100:1100]
    assert (lib.bits(tombola.softmax(one)) == lib.bits(tombola.softmax(y))[2:3]).all()


def test_out(lib, logits):
    x = lib.array(logits)
    tokens = lib.empty((5,), "int32")
    assert tombola.sample(x, seed=8, out=tokens) is tokens
    assert (lib.numpy(tokens) == lib.numpy(tombola.sample(x, seed=8))).all()
    assert tombola.sample(x, seed=9, out=tokens, check=True) is tokens
    more = tombola.sample(x, seed=8, out=tokens, return_logprobs=True)
    assert more.tokens is tokens and more.ranks is None
    given = tombola.Sample(logprobs=lib.empty((5,), "float32"), kept_ids=lib.empty((5, 2), "int32"))
    result = tombola.sample(x, seed=8, top_k=2, out=given)
    assert result.tokens is None and result.logprobs is given.logprobs
    assert (lib.numpy(result.kept_ids) == lib.numpy(tombola.select(x, top_k=2, capacity=2).ids)).all()

    wide = lib.array(np.full((5, 1100), 7, np.float32))
    view = wide[:, 50:1050]
    assert tombola.softmax(x, out=view) is view
    assert (lib.bits(wide[:, 50:1050]) if lib.name != "numpy" else np.ascontiguousarray(view).view(np.uint32)).tolist() == \
        lib.bits(tombola.softmax(x)).tolist()
    outside = lib.numpy(wide)[:, [0, 49, 1050, 1099]]
    assert (outside == 7).all()

    expected = lib.bits(tombola.mask(x, top_k=3))
    assert tombola.mask(x, top_k=3, out=x) is x
    assert (lib.bits(x) == expected).all()

    counts = tombola.Selection(counts=lib.empty((5,), "int32"))
    assert tombola.select(x, top_k=3, out=counts).counts is counts.counts
    assert lib.numpy(counts.counts).tolist() == [3] * 5


def test_order(lib, logits):
    x = lib.array(logits)
    a = {"temperature": 0.6, "top_k": 20, "top_p": 0.7, "min_p": 0.05}
    default = lib.bits(tombola.mask(x, **a))
    for order in [tombola.DEFAULT_ORDER, ["temperature", "min_p", "top_k", "top_p"]]:
        assert (lib.bits(tombola.mask(x, **a, order=order)) == default).all()
    chain = tombola.Chain([tombola.Temperature(0.6), tombola.MinP(0.05), tombola.TopK(20), tombola.TopP(0.7)])
    assert (lib.bits(tombola.mask(x, chain=chain)) == default).all()
    joint = tombola.Chain([tombola.TopKTopP(20, 0.7), tombola.Temperature(0.6)])
    by_order = tombola.renorm(x, temperature=0.6, top_k=20, top_p=0.7, order=("top_k_top_p", "temperature"))
    assert (lib.bits(tombola.renorm(x, chain=joint)) == lib.bits(by_order)).all()
    other = tombola.renorm(x, temperature=0.6, top_k=20, top_p=0.7, order=("top_k", "top_p", "temperature"))
    assert (lib.bits(other) != lib.bits(by_order)).any()
    alone = tombola.mask(x, top_p=0.7, order=("top_k_top_p",))
    assert (lib.bits(alone) == lib.bits(tombola.mask(x, top_p=0.7))).all()


def test_rows_slots_and_lengths(lib, logits):
    x = lib.array(logits)
    rows = np.array([4, 0, 0, 2], np.int32)
    temperatures = np.array([0.1, 2.0], np.float32)
    slots = np.array([1, 0, 1, 1], np.int32)
    seeds = np.array([5, 6], np.int64)
    got = tombola.sample(
        x, rows=lib.array(rows), slots=lib.array(slots), temperature=lib.array(temperatures), seed=lib.array(seeds)
    )
    expected = tombola.sample(logits[rows], temperature=temperatures[slots], seed=seeds[slots])
    assert (lib.numpy(got) == expected).all()
    lengths = np.array([1000, 1, 500, 3, 0], np.int32)
    ragged = tombola.sample(x, lengths=lib.array(lengths), seed=2, return_status=True)
    padded = np.where(np.arange(1000) < lengths[:, None], logits, -np.inf).astype(np.float32)
    assert (lib.numpy(ragged.tokens) == tombola.sample(padded, seed=2)).all()
    assert lib.numpy(ragged.status).tolist() == [0, 0, 0, 0, tombola.ROW_EMPTY]


def test_a_request_keeps_its_tokens_in_any_batch(lib, logits):
    seeds = np.arange(5)
    whole = lib.numpy(tombola.sample(lib.array(logits), seed=lib.array(seeds), top_p=0.9))
    order = np.array([3, 1, 4, 0, 2])
    moved = lib.numpy(tombola.sample(lib.array(logits[order]), seed=lib.array(seeds[order]), top_p=0.9))
    assert (moved == whole[order]).all()
    for r in range(5):
        alone = tombola.sample(lib.array(logits[r : r + 1]), seed=lib.array(seeds[r : r + 1]), top_p=0.9)
        assert lib.numpy(alone)[0] == whole[r]


def test_advance(lib, logits):
    x, seeds = lib.array(logits), lib.array(np.arange(5))
    offsets = lib.array(np.array([0, 5, 0, 1 << 40, 7], np.int64))
    first = lib.numpy(tombola.sample(x, seed=seeds, offset=offsets, advance=True))
    assert lib.numpy(offsets).tolist() == [1, 6, 1, (1 << 40) + 1, 8]
    second = lib.numpy(tombola.sample(x, seed=seeds, offset=offsets))
    assert lib.numpy(offsets).tolist() == [1, 6, 1, (1 << 40) + 1, 8]
    by_hand = tombola.sample(logits, seed=np.arange(5), offset=np.array([1, 6, 1, (1 << 40) + 1, 8]))
    assert (second == by_hand).all() and (first != second).any()


def test_seeds(lib):
    x = lib.array(np.zeros((64, 5000), np.float32))
    assert (lib.numpy(tombola.sample(x)) != lib.numpy(tombola.sample(x))).any()
    tombola.manual_seed(3)
    first, second = lib.numpy(tombola.sample(x)), lib.numpy(tombola.sample(x))
    tombola.manual_seed(3)
    assert (lib.numpy(tombola.sample(x)) == first).all() and (lib.numpy(tombola.sample(x)) == second).all()
    assert len(set(first.tolist())) > 50  # rows have random numbers of their own
    great = tombola.sample(x, seed=(1 << 64) - 1, offset=(1 << 64) - 1)
    same = tombola.sample(x, seed=lib.array(np.full(64, (1 << 64) - 1, np.uint64)),
                          offset=lib.array(np.full(64, (1 << 64) - 1, np.uint64)),
                          streams=lib.array(np.arange(64, dtype=np.int32)))
    assert (lib.numpy(great) == lib.numpy(same)).all()
    again = tombola.sample(x, seed=(1 << 63) + 11, offset=1)
    assert (lib.numpy(again) != lib.numpy(tombola.sample(x, seed=11, offset=1))).any()


def test_methods_draw_what_is_kept(lib, logits):
    x = lib.array(logits)
    kept = lib.numpy(tombola.mask(x, top_k=10)) > -np.inf
    for method in "exact", "rejection", "dual_pivot":
        result = tombola.sample(x, top_k=10, method=method, seed=1, num_samples=50, return_rounds=True)
        tokens, rounds = lib.numpy(result.tokens), lib.numpy(result.rounds)
        assert all(kept[r, tokens[r]].all() for r in range(5)), method
        assert (rounds == 0).all() if method == "exact" else (rounds >= 1).all(), method


def test_check(lib, logits):
    bad = logits.copy()
    bad[1] = np.nan
    bad[3, 5] = np.nan
    x = lib.array(bad)
    tokens = lib.empty((5,), "int32")
    with pytest.raises(tombola.RowError, match="^logits: row 1 has .*nothing to draw from, row 3 has NaN") as raised:
        tombola.sample(x, seed=1, out=tokens, check=True)
    assert raised.value.status == [0, tombola.ROW_NAN | tombola.ROW_EMPTY, 0, tombola.ROW_NAN, 0]
    assert lib.numpy(tokens)[1] == -1 and (np.delete(lib.numpy(tokens), 1) >= 0).all()
    for function in tombola.softmax, tombola.renorm, tombola.mask, tombola.select:
        with pytest.raises(tombola.RowError):
            function(x, check=True)
        function(lib.array(logits), check=True)
    with pytest.raises(tombola.RowError):
        tombola.logprobs(x, top=1, check=True)
    with pytest.raises(tombola.RowError, match="a bad parameter"):
        tombola.sample(lib.array(logits), seed=1, temperature=lib.array(np.full(5, -1, np.float32)), check=True)
    with pytest.raises(tombola.RowError, match="negative"):
        tombola.sample(x, seed=1, kind="probabilities", check=True)
    with pytest.raises(tombola.RowError, match="row 0 .* rows more"):
        tombola.sample(lib.array(np.full((9, 4), np.nan, np.float32)), check=True)


def test_scalars_of_numpy(lib, logits):
    x = lib.array(logits)
    a = tombola.sample(x, temperature=np.float32(0.5), top_k=np.int64(7), top_p=np.float64(0.9), seed=np.int32(3))
    assert (lib.numpy(a) == lib.numpy(tombola.sample(x, temperature=0.5, top_k=7, top_p=0.9, seed=3))).all()
    for seed in 5, (1 << 64) - 5:
        b = tombola.sample(x, seed=np.uint64(seed), offset=np.uint64(seed))
        assert (lib.numpy(b) == lib.numpy(tombola.sample(x, seed=seed, offset=seed))).all()
