"""torch: the operator, torch.compile, streams, threads and CUDA graphs."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from arrays import has_cuda, needs_cuda, needs_torch, torch

import tombola
from tombola import _library as lib

pytestmark = needs_torch

DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def x(device, logits):
    return torch.from_numpy(logits).to(device)


@pytest.fixture(autouse=True)
def forget_compiled_code():
    yield
    torch._dynamo.reset()


# ---- the operator ----


def test_operator_follows_torchs_rules(x):
    tokens = torch.empty(5, dtype=torch.int32, device=x.device)
    temperature = torch.full((5,), 0.7, device=x.device)
    arguments = (
        x, [lib.TEMPERATURE, lib.TOP_K, lib.TOP_P], [0.0, 40.0, 0.9], [temperature, None, None],
        [lib.SEED], [7], [], [], [lib.TOKENS], [tokens],
    )
    torch.library.opcheck(torch.ops.tombola.run.default, arguments)
    torch.ops.tombola.run(*arguments)
    assert torch.equal(tokens, tombola.sample(x, temperature=0.7, top_k=40, top_p=0.9, seed=7))


def test_tensors_that_need_gradients_and_parameters(x):
    expected = tombola.sample(x, seed=1)
    assert torch.equal(tombola.sample(x.clone().requires_grad_(), seed=1), expected)
    assert torch.equal(tombola.sample(torch.nn.Parameter(x), seed=1), expected)
    with torch.inference_mode():
        assert torch.equal(tombola.sample(x * 1, seed=1), expected)


def test_subclasses_go_through_the_operator(x):
    class Marked(torch.Tensor):
        pass

    got = tombola.sample(x.as_subclass(Marked), seed=1, top_k=3)
    assert (got == tombola.sample(x, seed=1, top_k=3)).all()


def test_fake_tensors_have_shapes(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        result = tombola.sample(fake, seed=1, top_k=3, return_logprobs=True, return_kept=4)
    assert result.tokens.shape == (5,) and result.tokens.dtype == torch.int32
    assert result.kept_ids.shape == (5, 4) and result.logprobs.dtype == torch.float32


# ---- torch.compile ----


def compiled(function, backend="aot_eager", **how):
    """Compiled whole. One test looks at what inductor generates around the operator; the others stop before it,
    which takes many seconds less."""
    return torch.compile(function, fullgraph=True, backend=backend, **how)


def test_inductor():
    device = "cuda" if has_cuda else "cpu"
    x = torch.randn(5, 1000, device=device)
    temperature = torch.linspace(0.5, 1.5, 5, device=device)
    k = torch.arange(1, 6, dtype=torch.int32, device=device)

    def step(x, temperature, k):
        tokens = tombola.sample(x * 2, temperature=temperature, top_k=k, top_p=0.9, seed=3)
        return tokens + 1, tombola.softmax(x, temperature=temperature) * 2

    for got, expected in zip(compiled(step, backend="inductor")(x, temperature, k), step(x, temperature, k)):
        assert torch.equal(got, expected)


def test_compile_all_functions(x):
    ids = torch.tensor([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], dtype=torch.int32, device=x.device)

    def everything(x):
        sample = tombola.sample(
            x, chain=tombola.Chain([tombola.TopKTopP(30, 0.9), tombola.Temperature(0.7)]), seed=1, offset=2,
            num_samples=3, return_logprobs=True, return_ranks=True, return_kept=6, return_status=True,
        )
        kept = tombola.select(x, top_k=5, ties="index", capacity=5, return_mass=True)
        about = tombola.logprobs(x, ids, top=2, min_p=0.1, return_entropy=True)
        return [
            *(part for part in (*sample, *kept, *about) if part is not None),
            tombola.renorm(x, top_p=0.8),
            tombola.mask(x, top_k=9),
        ]

    for got, expected in zip(compiled(everything)(x), everything(x), strict=True):
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)


def test_compile_writes_in_place(x):
    def mask(x):
        tombola.mask(x, top_k=3, out=x)
        return x.amax(-1)

    expected = tombola.mask(x, top_k=3)
    y = x.clone()
    compiled(mask)(y)
    assert torch.equal(y, expected)

    def draw(x, seeds, offsets, tokens):
        tombola.sample(x, seed=seeds, offset=offsets, advance=True, out=tokens)

    seeds, offsets = torch.arange(5, device=x.device), torch.zeros(5, dtype=torch.int64, device=x.device)
    tokens = torch.empty(5, dtype=torch.int32, device=x.device)
    step = compiled(draw)
    for position in range(3):
        step(x, seeds, offsets, tokens)
        assert torch.equal(tokens, tombola.sample(x, seed=seeds, offset=position))
    assert offsets.tolist() == [3] * 5


@pytest.mark.parametrize(
    "name, how",
    [
        ("top_k", {"top_k": 1.5}),
        ("top_k", {"top_k": True}),
        ("top_k", {"top_k": 1 << 31}),
        ("temperature", {"temperature": True}),
        ("temperature", {"temperature": -1.0}),
        ("top_p", {"top_p": float("nan")}),
        ("seed", {"seed": 1.7}),
        ("seed", {"seed": True}),
        ("offset", {"offset": 1.5}),
        ("threads", {"threads": 1.5}),
        ("num_samples", {"num_samples": 1.5}),
        ("rows", {"rows": [0, 1]}),
    ],
)
def test_compile_refuses_what_eager_calls_refuse(name, how):
    x = torch.zeros(3, 8)
    how = {"seed": 1, **how}

    class Marked(torch.Tensor):
        pass

    for source in x, x.as_subclass(Marked):  # the bridge, and the operator
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            tombola.sample(source, **how)
    with pytest.raises(Exception, match=f"{name}: "):
        compiled(lambda x: tombola.sample(x, **how))(x)


def test_compile_with_one_seed_in_a_tensor(x):
    seed = torch.tensor([7], device=x.device)
    assert torch.equal(compiled(lambda x, seed: tombola.sample(x, seed=seed))(x, seed), tombola.sample(x, seed=7))


def test_compile_with_dynamic_shapes(x):
    step = compiled(lambda x: tombola.sample(x, top_p=0.9, seed=2), dynamic=True)
    for rows in 5, 3, 2:
        for width in 1000, 700:
            part = x[:rows, :width].contiguous()
            assert torch.equal(step(part), tombola.sample(part, top_p=0.9, seed=2))


def test_compile_with_changing_scalars(x):
    step = compiled(lambda x, seed, k, t: tombola.sample(x, top_k=k, temperature=t, seed=seed, offset=seed + 1))
    for seed, k, t in (1, 50, 0.5), (2, 60, 0.6), (3, 70, 0.6), (1 << 40, 80, 0.6):
        expected = tombola.sample(x, top_k=k, temperature=t, seed=seed, offset=seed + 1)
        assert torch.equal(step(x, seed, k, t), expected)


def test_compile_without_a_seed_draws_from_torchs_generator(x):
    step = compiled(lambda x: tombola.sample(x, top_k=500))
    torch.manual_seed(1)
    first, second = step(x), step(x)
    torch.manual_seed(1)
    assert torch.equal(step(x), first) and torch.equal(step(x), second)
    assert not torch.equal(first, second)


def test_compile_refuses_to_wait(x):
    with pytest.raises(Exception, match="check: "):
        compiled(lambda x: tombola.sample(x, seed=1, check=True))(x)


def test_export(x):
    class Head(torch.nn.Module):
        def forward(self, x):
            return tombola.sample(x, top_k=4, seed=5)

    program = torch.export.export(Head(), (x,))
    assert "tombola.run" in str(program.graph)
    assert torch.equal(program.module()(x), tombola.sample(x, top_k=4, seed=5))


# ---- CUDA ----


@needs_cuda
@pytest.mark.parametrize("rows", [1, 2, 8, 64, 300])
@pytest.mark.parametrize("vocab", [128256, 32000, 517])
def test_cuda_tokens_equal_numpys(rows, vocab):
    values = np.random.default_rng(rows).normal(0, 3, (rows, vocab)).astype(np.float32)
    x = torch.from_numpy(values).cuda()
    seeds = np.arange(rows) + 11
    chains = [
        {}, {"top_p": 0.9}, {"top_k": 50}, {"min_p": 0.05}, {"temperature": 0.7, "top_k": 40, "top_p": 0.95},
        {"temperature": 0.0}, {"top_k": 20, "top_p": 0.8, "order": ("top_k_top_p",)},
    ]
    for chain in chains:
        for method in "exact", "dual_pivot":
            expected = tombola.sample(values, seed=seeds, method=method, return_logprobs=True, **chain)
            got = tombola.sample(x, seed=torch.from_numpy(seeds).cuda(), method=method, return_logprobs=True, **chain)
            assert (got.tokens.cpu().numpy() == expected.tokens).all(), (chain, method)
            assert got.logprobs.cpu().numpy().tobytes() == expected.logprobs.tobytes(), (chain, method)


@needs_cuda
def test_current_stream_is_used(logits):
    ready = torch.from_numpy(logits).cuda()
    expected = tombola.sample(ready, seed=3, top_k=100)
    for stream in [torch.cuda.Stream(), torch.cuda.default_stream(), torch.cuda.Stream()]:
        late = torch.zeros_like(ready)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1_000_000_000)  # cycles: some 0.5 s, in which a launch elsewhere would read zeros
            late.copy_(ready)
            tokens = tombola.sample(late, seed=3, top_k=100)
        assert not stream.query()  # nothing has waited
        stream.synchronize()
        assert torch.equal(tokens, expected)


@needs_cuda
def test_threads_with_streams_of_their_own(logits):
    x = torch.from_numpy(logits).cuda()
    expected = [tombola.sample(x, seed=s, top_p=0.9).tolist() for s in range(8)]
    torch.cuda.synchronize()
    wrong = []

    def work(number, shared):
        with torch.cuda.stream(shared or torch.cuda.Stream()):
            for _ in range(200):
                if tombola.sample(x, seed=number, top_p=0.9).tolist() != expected[number]:
                    wrong.append(number)

    for shared in None, torch.cuda.Stream():
        threads = [threading.Thread(target=work, args=(n, shared)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


@needs_cuda
@pytest.mark.parametrize("chain", [{"top_p": 0.9}, {"temperature": 0.8, "top_k": 50}, {}])
def test_graph_with_offsets_on_the_device(logits, chain):
    x = torch.from_numpy(logits).cuda()
    seeds = torch.arange(5, device="cuda") + 100
    offsets = torch.zeros(5, dtype=torch.int64, device="cuda")
    tokens = torch.zeros(5, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tombola.sample(x, seed=seeds, offset=offsets, advance=True, out=tokens, **chain)
    for position in range(6):
        graph.replay()
        at = np.full(5, position)
        assert tokens.tolist() == tombola.sample(logits, seed=np.arange(5) + 100, offset=at, **chain).tolist()
    assert offsets.tolist() == [6] * 5
    x.copy_(torch.from_numpy(logits[::-1].copy()))  # the graph reads what is there at its replay
    graph.replay()
    expected = tombola.sample(logits[::-1].copy(), seed=np.arange(5) + 100, offset=np.full(5, 6), **chain)
    assert tokens.tolist() == expected.tolist()


@needs_cuda
def test_graphs_own_their_workspace(logits):
    """Replays beside eager calls on another stream and beside other graphs: nobody's results change."""
    x = torch.from_numpy(np.tile(logits, (40, 1))).cuda()
    graphs = []
    for seed in range(3):
        graph, results = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph):
            for call in range(4):
                results.append(tombola.sample(x, seed=seed * 10 + call, top_p=0.9, return_logprobs=True).tokens)
        graphs.append((graph, results, torch.cuda.Stream()))
    expected = {s: tombola.sample(x, seed=s, top_p=0.9).tolist() for s in [*range(4), *range(10, 14), *range(20, 24)]}
    torch.cuda.synchronize()
    eager = []
    for _ in range(20):
        for graph, _, stream in graphs:
            with torch.cuda.stream(stream):
                graph.replay()
        eager.append(tombola.sample(x, seed=2, top_p=0.9))
    torch.cuda.synchronize()
    for number, (_, results, _) in enumerate(graphs):
        for call, tokens in enumerate(results):
            assert tokens.tolist() == expected[number * 10 + call]
    assert all(tokens.tolist() == expected[2] for tokens in eager)


@needs_cuda
def test_the_first_call_may_be_captured():
    program = """
import numpy as np, torch, tombola
x = torch.arange(40, dtype=torch.float32, device="cuda").reshape(4, 10)
tokens = torch.zeros(4, dtype=torch.int32, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    tombola.sample(x, seed=5, top_k=4, out=tokens)
graph.replay()
assert tokens.tolist() == tombola.sample(x.cpu().numpy(), seed=5, top_k=4).tolist()
print("captured")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "captured" in done.stdout, done.stderr


@needs_cuda
def test_a_capture_needs_a_seed(logits):
    x = torch.from_numpy(logits).cuda()
    with pytest.raises(ValueError, match="^seed: a captured call"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            tombola.sample(x)
    torch.cuda.synchronize()
    assert tombola.sample(x).shape == (5,)


@needs_cuda
def test_a_call_does_not_wait_or_allocate(logits):
    x = torch.from_numpy(logits).cuda()
    tokens = torch.empty(5, dtype=torch.int32, device="cuda")
    tombola.sample(x, seed=1, top_p=0.9, out=tokens)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda._sleep(1_000_000_000)
    for seed in range(50):
        tombola.sample(x, seed=seed, top_p=0.9, out=tokens)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@needs_cuda
def test_managed_by_another_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    for number in range(2):
        x = torch.randn(3, 100, device=f"cuda:{number}")
        tokens = tombola.sample(x, seed=1)
        assert tokens.device == x.device
        assert tokens.tolist() == tombola.sample(x.cpu().numpy(), seed=1).tolist()
