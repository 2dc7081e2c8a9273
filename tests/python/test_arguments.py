"""Wrong use is refused: with an exception that names the argument, and before anything is written."""

import numpy as np
import pytest
from arrays import needs_cuda, needs_torch, torch

import tombola

X = np.zeros((3, 8), np.float32)
WIDE = np.zeros((4, 16), np.float32)
ONES = np.ones(3, np.float32)
INTS = np.zeros(3, np.int32)


def f32(*values):
    return np.array(values, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def overlapping(rows, columns):
    return np.lib.stride_tricks.as_strided(np.zeros(columns, np.float32), (rows, columns), (4, 4))


def misaligned(count):
    return np.frombuffer(bytearray(4 * count + 2), np.uint8)[2 : 4 * count + 2].view(np.float32)


CASES = [
    # logits
    (lambda: tombola.sample([1.0, 2.0]), TypeError, "logits"),
    (lambda: tombola.sample(None), TypeError, "logits"),
    (lambda: tombola.sample(np.zeros((2, 3, 4), np.float32)), ValueError, "logits"),
    (lambda: tombola.sample(np.array(1.0, np.float32)), ValueError, "logits"),
    (lambda: tombola.softmax(np.array(1.0, np.float32)), ValueError, "logits"),
    (lambda: tombola.sample(X.astype(np.float64)), TypeError, "logits"),
    (lambda: tombola.sample(X.astype(np.int32)), TypeError, "logits"),
    (lambda: tombola.sample(X.astype(np.uint16)), TypeError, "logits"),
    (lambda: tombola.sample(np.zeros((8, 3), np.float32).T), ValueError, "logits"),
    (lambda: tombola.sample(np.zeros((3, 16), np.float32)[:, ::2]), ValueError, "logits"),
    (lambda: tombola.sample(X[::-1]), ValueError, "logits"),
    (lambda: tombola.sample(np.broadcast_to(X[0], (3, 8))), ValueError, "logits"),
    (lambda: tombola.sample(overlapping(3, 8)), ValueError, "logits"),
    (lambda: tombola.sample(np.zeros((3, 0), np.float32)), ValueError, "logits"),
    (lambda: tombola.sample(misaligned(8)), ValueError, "logits"),
    (lambda: tombola.sample(np.zeros((1, (1 << 22) + 1), np.float16)), ValueError, "logits"),
    # parameters
    (lambda: tombola.sample(X, temperature=-1), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature=float("nan")), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature="warm"), TypeError, "temperature"),
    (lambda: tombola.sample(X, temperature=[0.5, 1, 1]), TypeError, "temperature"),
    (lambda: tombola.sample(X, temperature=True), TypeError, "temperature"),
    (lambda: tombola.sample(X, temperature=np.ones(3)), TypeError, "temperature"),
    (lambda: tombola.sample(X, temperature=f32(1, 1)), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature=f32(1, 1, 1, 1)), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature=np.ones((3, 1), np.float32)), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature=np.array(1, np.float32)), ValueError, "temperature"),
    (lambda: tombola.sample(X, temperature=f32(1, 2, 1, 2, 1, 2)[::2]), ValueError, "temperature"),
    (lambda: tombola.sample(X, top_k=1.5), TypeError, "top_k"),
    (lambda: tombola.sample(X, top_k=True), TypeError, "top_k"),
    (lambda: tombola.sample(X, top_k=1 << 31), ValueError, "top_k"),
    (lambda: tombola.sample(X, top_k=1 << 70), Exception, ""),
    (lambda: tombola.sample(X, top_k=np.ones(3, np.int64)), TypeError, "top_k"),
    (lambda: tombola.sample(X, top_k=f32(1, 1, 1)), TypeError, "top_k"),
    (lambda: tombola.sample(X, top_p=np.ones(3, np.float16)), TypeError, "top_p"),
    (lambda: tombola.sample(X, top_p=i32(1, 1, 1)), TypeError, "top_p"),
    (lambda: tombola.sample(X, min_p=f32(1, 1)), ValueError, "min_p"),
    (lambda: tombola.sample(X, top_p=f32(0.9), top_k=i32(1, 2, 3)), ValueError, "top_"),
    (lambda: tombola.renorm(X, temperature=1.0, kind="probabilities"), ValueError, "steps"),
    # order and chain
    (lambda: tombola.sample(X, top_p=0.9, order=("top_k",)), ValueError, "order"),
    (lambda: tombola.sample(X, order=("warmth",)), ValueError, "order"),
    (lambda: tombola.sample(X, order=("top_k", "top_k_top_p")), ValueError, "order"),
    (lambda: tombola.sample(X, order="top_k"), TypeError, "order"),
    (lambda: tombola.sample(X, top_k=3, chain=tombola.Chain([])), ValueError, "chain"),
    (lambda: tombola.sample(X, chain=[tombola.TopK(1)]), TypeError, "chain"),
    (lambda: tombola.Chain([("top_k", 1)]), TypeError, "chain"),
    (lambda: tombola.Chain([tombola.TopK(None)]), TypeError, "chain"),
    (lambda: tombola.sample(X, chain=tombola.Chain([tombola.TopK(1)] * 17)), ValueError, "top_k"),
    (lambda: tombola.sample(X, order=None), TypeError, "order"),
    (lambda: tombola.sample(X, order=5), TypeError, "order"),
    (lambda: tombola.sample(X, order=(["top_k"],)), TypeError, "order"),
    (lambda: tombola.sample(X, order=np.array(["top_k", "top_p"])), TypeError, "order"),
    (lambda: tombola.sample(X, chain=tombola.Chain([]), order=("top_k",)), ValueError, "order"),
    (lambda: tombola.Chain(None), TypeError, "chain"),
    (lambda: tombola.Chain(5), TypeError, "chain"),
    (lambda: tombola.Chain(tombola.TopK(1)), TypeError, "chain"),
    # choices
    (lambda: tombola.sample(X, kind="odds"), ValueError, "kind"),
    (lambda: tombola.sample(X, ties="some"), ValueError, "ties"),
    (lambda: tombola.sample(X, method="best"), ValueError, "method"),
    (lambda: tombola.sample(X, backend="gpu"), ValueError, "backend"),
    (lambda: tombola.sample(X, backend="cuda"), ValueError, "backend"),
    (lambda: tombola.sample(X, threads=-1), ValueError, "threads"),
    (lambda: tombola.sample(X, num_samples=4097), ValueError, "num_samples"),
    (lambda: tombola.sample(X, num_samples=-1), ValueError, "num_samples"),
    (lambda: tombola.sample(X, num_samples=0), ValueError, "num_samples"),
    (lambda: tombola.sample(X, num_samples=1.5), TypeError, "num_samples"),
    (lambda: tombola.sample(X, num_samples=True), TypeError, "num_samples"),
    (lambda: tombola.sample(X, num_samples="2"), TypeError, "num_samples"),
    # draws
    (lambda: tombola.sample(X, seed=-1), ValueError, "seed"),
    (lambda: tombola.sample(X, seed=1 << 64), ValueError, "seed"),
    (lambda: tombola.sample(X, seed=1.0), TypeError, "seed"),
    (lambda: tombola.sample(X, seed=True), TypeError, "seed"),
    (lambda: tombola.sample(X, seed=np.int64(-1)), ValueError, "seed"),
    (lambda: tombola.sample(X, seed=i32(1, 2, 3)), TypeError, "seed"),
    (lambda: tombola.sample(X, seed=np.ones(2, np.int64)), ValueError, "seed"),
    (lambda: tombola.sample(X, offset=1), ValueError, "offset"),
    (lambda: tombola.sample(X, seed=1, offset=-1), ValueError, "offset"),
    (lambda: tombola.sample(X, seed=1, offset=1 << 64), ValueError, "offset"),
    (lambda: tombola.sample(X, seed=1, advance=True), ValueError, "advance"),
    (lambda: tombola.sample(X, seed=1, advance=True, offset=1), ValueError, "advance"),
    (lambda: tombola.sample(X, seed=1, advance=True, offset=read_only(np.ones(3, np.int64))), ValueError, "offset"),
    (lambda: tombola.sample(X, streams=i32(1, 2)), ValueError, "streams"),
    (lambda: tombola.sample(X, streams=np.ones(3, np.int64)), TypeError, "streams"),
    (lambda: tombola.sample(X, random=np.ones((3, 2), np.int64)), ValueError, "random"),
    (lambda: tombola.sample(X, random=np.ones(3, np.int64), method="rejection"), ValueError, "random"),
    (lambda: tombola.sample(X, random=np.ones(3, np.int64), seed=1), ValueError, "random"),
    (lambda: tombola.sample(X, random=np.ones(3, np.int64), offset=1), ValueError, "offset"),
    # rows, slots, lengths
    (lambda: tombola.sample(X, rows=[0, 1]), TypeError, "rows"),
    (lambda: tombola.sample(X, rows=1), TypeError, "rows"),
    (lambda: tombola.softmax(X, rows=[0, 1]), TypeError, "rows"),
    (lambda: tombola.sample(X, lengths=[1, 1, 1]), TypeError, "lengths"),
    (lambda: tombola.sample(X, rows=np.ones(3, np.int64)), TypeError, "rows"),
    (lambda: tombola.sample(X, rows=np.ones((1, 3), np.int32)), ValueError, "rows"),
    (lambda: tombola.sample(X, slots=i32(0, 1)), ValueError, "slots"),
    (lambda: tombola.sample(X, lengths=i32(1, 1)), ValueError, "lengths"),
    (lambda: tombola.sample(X, lengths=np.ones(3, np.int64)), TypeError, "lengths"),
    # outputs
    (lambda: tombola.sample(X, out=[0, 0, 0]), TypeError, "out"),
    (lambda: tombola.sample(X, out=np.zeros(3, np.int64)), TypeError, "out"),
    (lambda: tombola.sample(X, out=np.zeros(2, np.int32)), ValueError, "out"),
    (lambda: tombola.sample(X, out=np.zeros((3, 1), np.int32)), ValueError, "out"),
    (lambda: tombola.sample(X, out=np.zeros(6, np.int32)[::2]), ValueError, "out"),
    (lambda: tombola.sample(X, out=read_only(np.zeros(3, np.int32))), ValueError, "out"),
    (lambda: tombola.sample(X, num_samples=2, out=np.zeros(3, np.int32)), ValueError, "out"),
    (lambda: tombola.sample(X, out=np.zeros(3, np.int64), check=True), TypeError, "out"),
    (lambda: tombola.sample(X, out=tombola.Sample(logprobs=np.zeros(3))), TypeError, "logprobs"),
    (lambda: tombola.sample(X, out=tombola.Sample(kept_ids=np.zeros((2, 4), np.int32))), ValueError, "kept_ids"),
    (lambda: tombola.softmax(X, out=np.zeros((3, 8))), TypeError, "out"),
    (lambda: tombola.softmax(X, out=np.zeros((3, 7), np.float32)), ValueError, "out"),
    (lambda: tombola.softmax(X, out=np.zeros((8, 3), np.float32).T), ValueError, "out"),
    (lambda: tombola.softmax(X, out=overlapping(3, 8)), ValueError, "out"),
    (lambda: tombola.softmax(X, out=read_only(X)), ValueError, "out"),
    (lambda: tombola.mask(X, out=X.astype(np.float16)), TypeError, "out"),
    (lambda: tombola.mask(X, rows=i32(0, 1, 2), out=X), ValueError, "out"),
    (lambda: tombola.softmax(X, out=X), ValueError, "out"),
    (lambda: tombola.softmax(WIDE[:, :8], out=WIDE[:, 7:15]), ValueError, "out"),
    (lambda: tombola.softmax(WIDE[:, :8], out=WIDE[:, 10:18]), ValueError, "out"),
    (lambda: tombola.softmax(WIDE[:3, :8], out=WIDE.reshape(-1)[24:48].reshape(3, 8)), ValueError, "out"),
    (lambda: tombola.sample(X, temperature=ONES, out=ONES.view(np.int32)), ValueError, "out"),
    (lambda: tombola.sample(X, out=tombola.Sample(tokens=INTS, ranks=INTS)), ValueError, "ranks"),
    (lambda: tombola.select(X, out=np.zeros((3, 8), np.int32)), TypeError, "out"),
    (lambda: tombola.select(X, capacity=-1), ValueError, "capacity"),
    (lambda: tombola.select(X, capacity=1.5), TypeError, "capacity"),
    (lambda: tombola.select(X, capacity=True), TypeError, "capacity"),
    (lambda: tombola.sample(X, return_kept=-1), ValueError, "return_kept"),
    (lambda: tombola.sample(X, return_kept=1.5), TypeError, "return_kept"),
    (lambda: tombola.sample(X, return_kept="a"), TypeError, "return_kept"),
    (lambda: tombola.logprobs(X, top=-1), ValueError, "top"),
    (lambda: tombola.logprobs(X, top=1.5), TypeError, "top"),
    (lambda: tombola.logprobs(X, top="2"), TypeError, "top"),
    (lambda: tombola.logprobs(X, top=True), TypeError, "top"),
    (lambda: tombola.logprobs(X, [1, 2, 3]), TypeError, "ids"),
    (lambda: tombola.logprobs(X, 1), TypeError, "ids"),
    (lambda: tombola.logprobs(X), ValueError, "ids"),
    (lambda: tombola.logprobs(X, np.ones(3, np.int64)), TypeError, "ids"),
    (lambda: tombola.logprobs(X, i32(1, 2)), ValueError, "ids"),
    # the process's seed
    (lambda: tombola.manual_seed(-1), ValueError, "seed"),
    (lambda: tombola.manual_seed(1.5), TypeError, "seed"),
    (lambda: tombola.manual_seed("a"), TypeError, "seed"),
    (lambda: tombola.manual_seed(True), TypeError, "seed"),
    (lambda: tombola.manual_seed(None), TypeError, "seed"),
    (lambda: tombola.manual_seed(np.ones(3, np.int64)), TypeError, "seed"),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_refused(number):
    call, kind, argument = CASES[number]
    with pytest.raises(kind) as raised:
        call()
    assert not argument or argument in str(raised.value).split(": ")[0], str(raised.value)


def test_nothing_is_written_by_a_refused_call():
    tokens, status = np.full(3, 77, np.int32), np.full(2, 77, np.int32)
    with pytest.raises(ValueError, match="^status: "):
        tombola.sample(X, out=tombola.Sample(tokens=tokens, status=status))
    assert tokens.tolist() == [77] * 3


def test_columns_of_one_array_are_apart():
    wide = np.zeros((4, 17), np.float32)
    wide[:, :8] = np.arange(32).reshape(4, 8)
    expected = tombola.softmax(np.ascontiguousarray(wide[:, :8]))
    for column in 8, 9:
        assert (tombola.softmax(wide[:, :8], out=wide[:, column : column + 8]) == expected).all()
    assert (tombola.softmax(wide[:, 8:16], out=wide[:, :8]) == tombola.softmax(wide[:, 8:16].copy())).all()


def test_unknown_keywords_are_refused():
    for function in tombola.sample, tombola.softmax, tombola.renorm, tombola.mask, tombola.select, tombola.logprobs:
        with pytest.raises(TypeError):
            function(X, temprature=1.0)


def test_read_only_inputs_are_read(logits):
    expected = tombola.sample(logits, temperature=f32(1, 2, 1, 2, 1), seed=1)
    got = tombola.sample(read_only(logits), temperature=read_only(f32(1, 2, 1, 2, 1)), seed=1)
    assert (got == expected).all()


@needs_torch
@pytest.mark.parametrize("name", ["temperature", "top_p", "seed", "rows", "streams", "out"])
def test_torch_tensors_on_another_device(name):
    other = torch.zeros(3, dtype={"seed": torch.int64, "rows": torch.int32, "streams": torch.int32,
                                  "out": torch.int32}.get(name, torch.float32), device="meta")
    with pytest.raises((ValueError, TypeError, RuntimeError, BufferError, NotImplementedError)):
        tombola.sample(torch.zeros(3, 8), **{"seed": 1, name: other})


@needs_cuda
@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["temperature", "top_k", "seed", "rows", "streams", "out"])
def test_cuda_and_cpu_do_not_mix(name, where):
    other = "cuda" if where == "cpu" else "cpu"
    dtype = {"temperature": torch.float32, "seed": torch.int64}.get(name, torch.int32)
    with pytest.raises(ValueError, match=f"^{name}: is on {other}.* logits are on {where}"):
        tombola.sample(torch.zeros(3, 8, device=where), **{"seed": 1, name: torch.zeros(3, dtype=dtype, device=other)})


@needs_cuda
def test_cuda_backends():
    x = torch.zeros(3, 8, device="cuda")
    for backend in "cpu", "reference":
        with pytest.raises(ValueError, match="^backend: "):
            tombola.sample(x, seed=1, backend=backend)
    assert tombola.sample(x, seed=1, backend="cuda").device.type == "cuda"
