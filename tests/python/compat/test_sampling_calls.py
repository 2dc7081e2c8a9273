"""tombola.compat.flashinfer.sampling: FlashInfer's argument conventions, and where they are better defined."""

import inspect

import pytest
import torch

from tombola.compat import flashinfer
from tombola.compat.flashinfer import sampling

# FlashInfer 0.6: every function's parameters with their defaults, in order.
_DRAW = "indices=None, {}deterministic=True, generator=None, check_nan=False, seed=None, offset=None"
_PROBS = _DRAW.format("") + ", return_valid=False"
_ORDER = 'filter_apply_order="top_k_first", '
SIGNATURES = {
    "softmax": "logits, temperature=None, enable_pdl=None",
    "sampling_from_logits": "logits, " + _DRAW.format(""),
    "sampling_from_probs": "probs, " + _PROBS,
    "top_p_sampling_from_probs": "probs, top_p, " + _PROBS,
    "top_k_sampling_from_probs": "probs, top_k, " + _PROBS,
    "min_p_sampling_from_probs": "probs, min_p, " + _PROBS,
    "top_k_top_p_sampling_from_logits": "logits, top_k, top_p, " + _DRAW.format(_ORDER),
    "top_k_top_p_sampling_from_probs": "probs, top_k, top_p, " + _DRAW.format(_ORDER) + ", return_valid=False",
    "top_p_renorm_probs": "probs, top_p, is_deterministic=False",
    "top_p_renorm_prob": "probs, top_p, is_deterministic=False",
    "top_k_renorm_probs": "probs, top_k",
    "top_k_renorm_prob": "probs, top_k",
    "top_k_mask_logits": "logits, top_k",
    "chain_speculative_sampling": "draft_probs, draft_token_ids, target_probs, "
    "maybe_output_accepted_token_num=None, maybe_output_emitted_draft_token_num=None, deterministic=True, "
    "generator=None, seed=None, offset=None",
}
FROM_PROBS = {
    "sampling_from_probs": (),
    "top_p_sampling_from_probs": (0.9,),
    "top_k_sampling_from_probs": (20,),
    "min_p_sampling_from_probs": (0.1,),
    "top_k_top_p_sampling_from_probs": (20, 0.9),
}
FROM_LOGITS = {"sampling_from_logits": (), "top_k_top_p_sampling_from_logits": (20, 0.9)}
SAMPLING = {**FROM_PROBS, **FROM_LOGITS}


def rows_for(name, device, rows=6, vocab=500, seed=1):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=generator).to(device) * 2
    return logits if name in FROM_LOGITS else logits.softmax(-1)


def call(name, x, *args, **kwargs):
    return getattr(sampling, name)(x, *SAMPLING[name], *args, **kwargs)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    parameters = inspect.signature(getattr(sampling, name)).parameters
    expected = eval(f"inspect.signature(lambda {SIGNATURES[name]}: 0)").parameters
    assert [(p.name, p.default) for p in parameters.values()] == [
        (p.name, p.default) for p in expected.values()
    ]
    if not name.endswith("renorm_prob"):  # only the module has the old names
        assert getattr(flashinfer, name) is getattr(sampling, name)


@pytest.mark.parametrize("name", SAMPLING)
def test_one_seed_serves_a_batch_as_int_or_tensor(device, name):
    x = rows_for(name, device).expand(6, 500)[:1].expand(200, 500).contiguous()
    tokens = call(name, x, seed=5, offset=3)
    assert tokens.dtype == torch.int32 and tokens.shape == (200,)
    assert len(tokens.unique()) > 5  # rows draw for themselves
    one = torch.tensor([5], device=device), torch.tensor([3], device=device)
    assert torch.equal(call(name, x, seed=one[0], offset=one[1]), tokens)
    each = torch.full((200,), 3, device=device)
    assert torch.equal(call(name, x, seed=one[0], offset=each), tokens)
    if name == "top_k_sampling_from_probs":
        k = torch.full((200,), 20, device=device)
        assert torch.equal(sampling.top_k_sampling_from_probs(x, k, seed=one[0], offset=one[1]), tokens)
    assert not torch.equal(call(name, x, seed=5, offset=4), tokens)
    assert not torch.equal(call(name, x, seed=6, offset=3), tokens)


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64])
def test_a_row_with_its_own_seed_does_not_depend_on_its_slot(device, name, dtype):
    x = rows_for(name, device, rows=64)
    seeds = torch.arange(64, device=device) * 977 + 1
    offsets = torch.arange(64, device=device) % 5

    def draw(order):
        return call(
            name, x[order], seed=seeds[order].to(dtype), offset=offsets[order].to(dtype)
        )

    tokens = draw(torch.arange(64, device=device))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(2)).to(device)
    assert torch.equal(draw(order), tokens[order])
    for row in (0, 17, 63):
        assert draw(torch.tensor([row], device=device)).item() == tokens[row]
    # and every seed counts, not only the first
    seeds = seeds + torch.arange(64, device=device) * (torch.arange(64, device=device) > 0)
    assert (draw(torch.arange(64, device=device))[1:] != tokens[1:]).float().mean() > 0.3


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_indices_name_source_rows(device, name, dtype):
    x = rows_for(name, device, rows=3)
    indices = torch.tensor([2, 0, 1, 2, 2], dtype=dtype, device=device)
    tokens = call(name, x, indices, seed=9, offset=0)
    assert tokens.dtype == dtype
    assert torch.equal(tokens, call(name, x[indices.long()], seed=9, offset=0).to(dtype))


@pytest.mark.parametrize("name", FROM_PROBS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_indices_out_of_range_have_no_token(device, name, dtype):
    x = rows_for(name, device, rows=3)
    wide = [1 << 32, -(1 << 32), (1 << 32) + 1] if dtype == torch.int64 else [1 << 20, -(1 << 20), 1 << 30]
    indices = torch.tensor([2, 3, -1, 0, *wide], dtype=dtype, device=device)
    good = [True, False, False, True, False, False, False]
    expected = call(name, x, indices.clamp(0, 2), seed=9, offset=0)
    tensors = [torch.full((3,), a, device=device) for a in SAMPLING[name]]
    for parameters in SAMPLING[name], tensors:
        tokens, valid = getattr(sampling, name)(x, *parameters, indices, seed=9, offset=0, return_valid=True)
        assert valid.tolist() == good
        assert tokens.tolist() == [e if g else 0 for e, g in zip(expected.tolist(), good)]
        none, valid = getattr(sampling, name)(
            x[:0], *(p[:0] if isinstance(p, torch.Tensor) else p for p in parameters), indices, seed=9, offset=0,
            return_valid=True,
        )
        assert none.tolist() == [0] * 7 and not valid.any()


def test_parameters_belong_to_source_rows(device):
    probs = rows_for("sampling_from_probs", device, rows=3)
    indices = torch.tensor([2, 2, 0, 1] * 50, device=device)
    k = torch.tensor([1, 2, 3], device=device)
    tokens = sampling.top_k_sampling_from_probs(probs, k, indices, seed=1, offset=0)
    greatest = probs.argsort(-1, descending=True)
    for row in range(3):
        drawn = tokens[indices == row].unique()
        assert sorted(drawn.tolist()) == sorted(greatest[row, : row + 1].tolist())


@pytest.mark.parametrize("name", FROM_PROBS)
def test_rows_without_a_token_are_zero_and_not_valid(device, name):
    probs = rows_for(name, device, rows=5)
    probs[1] = 0
    probs[3] = torch.nan
    tokens, valid = call(name, probs, seed=1, offset=0, return_valid=True)
    assert valid.dtype == torch.bool and valid.tolist() == [True, False, True, False, True]
    assert tokens[1] == 0 and tokens[3] == 0
    assert torch.equal(tokens, call(name, probs, seed=1, offset=0))


@pytest.mark.parametrize("name", SAMPLING)
def test_check_nan(device, name):
    x = rows_for(name, device)
    call(name, x, check_nan=True)
    x[2, 7] = torch.nan
    with pytest.raises(ValueError, match="contains NaN"):
        call(name, x, check_nan=True)
    assert call(name, x, seed=1, offset=0)[2] != 7


@pytest.mark.parametrize("name", SAMPLING)
def test_generators(device, name):
    x = rows_for(name, device, rows=50)
    generator = torch.Generator(device).manual_seed(3)
    same = generator.clone_state()
    first, second = call(name, x, generator=generator), call(name, x, generator=generator)
    assert not torch.equal(first, second)
    assert torch.equal(call(name, x, generator=same), first)
    assert torch.equal(call(name, x, generator=same), second)
    torch.manual_seed(4)
    first = call(name, x)
    torch.manual_seed(4)
    assert torch.equal(call(name, x), first)


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_are_read_exactly(device, name, dtype):
    x = rows_for(name, device).to(dtype)
    assert torch.equal(call(name, x, seed=2, offset=0), call(name, x.float(), seed=2, offset=0))


@pytest.mark.parametrize("name", SAMPLING)
def test_rows_may_be_apart(device, name):
    wide = rows_for(name, device, vocab=600)
    assert torch.equal(call(name, wide[:, :500], seed=2, offset=0),
                       call(name, wide[:, :500].contiguous(), seed=2, offset=0))  # fmt: skip
    across = wide.T.contiguous().T
    assert torch.equal(call(name, across, seed=2, offset=0), call(name, wide, seed=2, offset=0))


@pytest.mark.parametrize("name", SAMPLING)
def test_no_rows(device, name):
    x = rows_for(name, device)
    assert call(name, x[:0]).shape == (0,)
    none = torch.zeros(0, dtype=torch.int64, device=device)
    assert call(name, x, none).shape == (0,) and call(name, x, none).dtype == torch.int64


@pytest.mark.parametrize("name", SAMPLING)
def test_wrong_seeds_are_refused(device, name):
    x = rows_for(name, device)
    long, short = torch.arange(6, device=device), torch.arange(5, device=device)
    for seed, offset, message in [
        (1, None, "together"),
        (None, 1, "together"),
        (1, long, "both be tensors or both be scalars"),
        (short, short, "length must be 1 or 6"),
        (long, short, "offset tensor length must be 1 or 6"),
        (long.int(), long, "int64/uint64"),
        (long.view(6, 1), long, "1D"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(name, x, seed=seed, offset=offset)


@pytest.mark.parametrize("name", ["top_p_sampling_from_probs", "top_k_sampling_from_probs",
                                  "min_p_sampling_from_probs", "top_p_renorm_probs", "top_k_renorm_probs",
                                  "top_k_mask_logits", "softmax"])  # fmt: skip
def test_wrong_parameters_are_refused(device, name):
    x = rows_for(name, device)
    good = torch.ones(6, device=device)
    getattr(sampling, name)(x, good)
    for value, message in [
        (good[0], "got a 0-dimensional tensor"),
        (good.view(6, 1), "got a 2D tensor"),
        (good[:5], "batch size mismatch"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(sampling, name)(x, value)


def test_wrong_sources_and_orders_are_refused(device):
    x = rows_for("softmax", device)
    with pytest.raises(ValueError, match="2 dimensions"):
        sampling.sampling_from_logits(x[0])
    with pytest.raises(ValueError, match="floating"):
        sampling.sampling_from_probs(x.int())
    with pytest.raises(ValueError, match="indices"):
        sampling.sampling_from_logits(x, x[0])
    for name in ("top_k_top_p_sampling_from_logits", "top_k_top_p_sampling_from_probs"):
        with pytest.raises(ValueError, match="top_p_first"):
            call(name, x, None, "top_p_first")
    with pytest.raises(NotImplementedError, match="verification of drafts"):
        sampling.chain_speculative_sampling(x, x, x)


@pytest.mark.parametrize("from_logits", [False, True])
def test_filter_orders_differ_where_they_should(device, from_logits):
    probs = torch.tensor([[0.4, 0.2, 0.15, 0.15, 0.1]], device=device)
    x = probs.log() if from_logits else probs
    name = f"top_k_top_p_sampling_from_{'logits' if from_logits else 'probs'}"
    indices = torch.zeros(2000, dtype=torch.int32, device=device)

    def drawn(order):
        tokens = getattr(sampling, name)(x, 2, 0.6, indices, order, seed=1, offset=0)
        return tokens.unique().tolist()

    # of the two kept tokens the first has 2/3 of the mass; of all tokens 0.4
    assert drawn("top_k_first") == [0]
    assert drawn("joint") == [0, 1]


@pytest.mark.parametrize("name", SAMPLING)
def test_frequencies(device, name):
    """Pearson's statistic of 200 000 draws; its 1 - 1e-9 quantile for up to 19 degrees of freedom is 83."""
    probs = torch.softmax(torch.linspace(0, 2, 20), 0).to(device).unsqueeze(0)
    x = probs.log() if name in FROM_LOGITS else probs
    keep = {
        "sampling_from_probs": 20, "sampling_from_logits": 20, "top_p_sampling_from_probs": 15,
        "top_k_sampling_from_probs": 8, "min_p_sampling_from_probs": 13,
    }.get(name, 6)  # fmt: skip
    arguments = {
        "top_p_sampling_from_probs": (probs[0, -15:].sum().item() - 0.01,),
        "top_k_sampling_from_probs": (8,),
        "min_p_sampling_from_probs": ((probs[0, 7] / probs[0, 19]).item() * 0.99,),
    }.get(name, (6, 1.0) if SAMPLING[name] else ())
    indices = torch.zeros(200000, dtype=torch.int32, device=device)
    tokens = getattr(sampling, name)(x, *arguments, indices, seed=77, offset=0)
    counts = torch.bincount(tokens.long(), minlength=20).double().cpu()
    expected = probs[0].double().cpu()
    expected[: 20 - keep] = 0
    expected *= 200000 / expected.sum()
    assert counts[: 20 - keep].sum() == 0
    error = (counts - expected)[20 - keep :] ** 2 / expected[20 - keep :]
    assert error.sum() < 83


def test_softmax(device):
    logits = rows_for("softmax", device)
    torch.testing.assert_close(sampling.softmax(logits), logits.softmax(-1), rtol=1e-5, atol=1e-8)
    t = torch.tensor([0.5, 1, 2, 3, 0.1, 0], device=device)
    out = sampling.softmax(logits.bfloat16(), t)
    assert out.dtype == torch.float32
    expected = (logits.bfloat16().float()[:5] / t[:5, None]).softmax(-1)
    torch.testing.assert_close(out[:5], expected, rtol=1e-4, atol=1e-8)
    assert out[5].max() == 1 and out[5].sum() == 1  # temperature 0 is greedy
    assert out[5].argmax() == logits.bfloat16()[5].argmax()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_renorm_and_mask(device, dtype):
    probs = rows_for("probs", device).to(dtype)
    k = torch.tensor([1, 5, 50, 500, 1000, 7], device=device)
    out = sampling.top_k_renorm_probs(probs, k)
    assert out.dtype == dtype
    for row in range(6):
        kth = probs[row].sort(descending=True).values[min(int(k[row]), 500) - 1]
        kept = torch.where(probs[row] >= kth, probs[row].float(), 0)
        torch.testing.assert_close(out[row].float(), kept / kept.sum(), rtol=1e-2, atol=0)
    out = sampling.top_p_renorm_probs(probs, 0.5)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.sum(1), torch.ones(6, device=device), rtol=1e-4, atol=0)
    for row in range(6):
        smallest = out[row][out[row] > 0].min()
        mass = probs[row].double()[out[row] > smallest].sum() / probs[row].double().sum()
        assert mass < 0.5 <= probs[row].double()[out[row] > 0].sum() / probs[row].double().sum()
    logits = rows_for("logits", device, rows=6)[:, :500].log_softmax(-1).to(dtype)
    out = sampling.top_k_mask_logits(logits, k)
    assert out.dtype == dtype
    for row in range(6):
        kth = logits[row].sort(descending=True).values[min(int(k[row]), 500) - 1]
        assert torch.equal(out[row], torch.where(logits[row] >= kth, logits[row], -torch.inf))


def test_off_values(device):
    """Where FlashInfer draws nothing (top_k 0, top_p 0) or is undefined, the law says what happens."""
    probs = rows_for("probs", device)
    draw = {"seed": 1, "offset": 0}
    every = sampling.sampling_from_probs(probs, **draw)
    assert torch.equal(sampling.top_k_sampling_from_probs(probs, 0, **draw), every)
    assert torch.equal(sampling.top_k_sampling_from_probs(probs, -1, **draw), every)
    assert torch.equal(sampling.top_k_sampling_from_probs(probs, 2**40, **draw), every)
    for k in (-(2**40), 2**40):
        each = torch.full((6,), k, device=device)
        assert torch.equal(sampling.top_k_sampling_from_probs(probs, each, **draw), every)
    assert torch.equal(sampling.top_p_sampling_from_probs(probs, 1.0, **draw), every)
    assert torch.equal(sampling.min_p_sampling_from_probs(probs, 0.0, **draw), every)
    assert torch.equal(sampling.top_p_sampling_from_probs(probs, 0.0, **draw), probs.argmax(-1).int())


@pytest.mark.parametrize("name", ["sampling_from_logits", "top_k_top_p_sampling_from_probs"])
@pytest.mark.parametrize("seeds", ["none", "ints", "one", "rows"])
def test_whole_calls_are_compiled(device, name, seeds):
    x = rows_for(name, device, rows=50)
    indices = torch.arange(50, device=device).flip(0)
    length = 1 if seeds == "one" else 50
    if seeds == "none":
        draw = {}
    elif seeds == "ints":
        draw = {"seed": 1, "offset": 2}
    else:
        draw = {"seed": torch.arange(length, device=device), "offset": torch.ones(length, device=device).long()}
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x, indices, draw: call(name, x, indices, **draw), fullgraph=True, backend="aot_eager"
    )
    tokens = compiled(x, indices, draw)
    if draw:
        assert torch.equal(tokens, call(name, x, indices, **draw))
    else:
        assert tokens.dtype == torch.int64 and not torch.equal(tokens, compiled(x, indices, draw))


def test_the_rest_is_compiled(device):
    def everything(logits):
        probs = sampling.softmax(logits, 0.7)
        return (
            probs, sampling.top_p_renorm_probs(probs, 0.9), sampling.top_k_renorm_probs(probs.half(), 10),
            sampling.top_k_mask_logits(logits, 10), *flashinfer.top_k(logits, 10, sorted=True),
        )  # fmt: skip

    logits = rows_for("softmax", device)
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")(logits)
    for a, b in zip(compiled, everything(logits)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", SAMPLING)
def test_every_replay_of_a_graph_draws_anew(cuda, name):
    x = rows_for(name, cuda, rows=50)
    call(name, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = call(name, x)
    drawn = []
    for _ in range(4):
        graph.replay()
        drawn.append(tokens.tolist())
    assert len({tuple(row) for row in drawn}) == 4


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("length", [1, 50])
def test_seed_tensors_in_a_graph(cuda, name, length):
    x = rows_for(name, cuda, rows=50)
    seed = torch.arange(7, 7 + length, device=cuda)
    offset = torch.zeros(length, dtype=torch.int64, device=cuda)
    call(name, x, seed=seed, offset=offset)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = call(name, x, seed=seed, offset=offset)
    for step in range(3):
        graph.replay()
        assert torch.equal(tokens, call(name, x, seed=seed, offset=torch.full_like(offset, step)))
        offset += 1
