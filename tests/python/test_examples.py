"""The programs of examples/python: NumPy's, and where torch is there the others, on the CPU and, where there is one, on a
GPU."""

import importlib.util

import numpy
import pytest
from arrays import ROOT, needs_cuda, needs_torch, torch

import tombola

EXAMPLES = ROOT / "examples/python"
DEVICES = [pytest.param("cpu", marks=needs_torch), pytest.param("cuda", marks=needs_cuda)]


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    tested = {"numpy_cpu", "decode_torch", "cuda_graph", "rl_rollout"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_numpy(capsys):
    example = load("numpy_cpu")
    result = example.main()
    logits = numpy.load(example.LOGITS)
    assert len(capsys.readouterr().out.splitlines()) == len(logits) == len(result.tokens)
    for row in range(len(logits)):
        kept = result.kept_ids[row, : result.kept_counts[row]]
        scaled = logits[row, kept].astype(numpy.float64) / numpy.float32(0.8)
        expected = scaled - scaled.max()
        expected -= numpy.log(numpy.exp(expected).sum())
        where = list(kept).index(result.tokens[row])
        assert abs(result.logprobs[row] - expected[where]) < 1e-5


@pytest.mark.parametrize("device", DEVICES)
def test_decoding(device):
    example = load("decode_torch")
    model, prompts, requests, tokens, logprobs = example.main(device)
    assert tokens.shape == (4, 16)
    with torch.inference_mode():
        # from scratch, without a cache: the greedy request's tokens are the greatest logits
        sequence = torch.cat([prompts, tokens.long()], dim=1)
        logits = model(sequence).logits[:, 11:-1]
    assert torch.equal(tokens[0].long(), logits[0].argmax(-1))
    assert torch.equal(logprobs[0], torch.zeros(16, device=device))
    # and the third request's are what its seed draws alone
    alone = {name: value[2:3] for name, value in requests.items() if name != "seeds"}
    seed, position = requests["seeds"][2:3], torch.tensor([12], device=device)
    for step in range(16):
        drawn = tombola.sample(logits[2:3, step], seed=seed, offset=position + step, **alone)
        assert drawn.item() == tokens[2, step].item()


@needs_cuda
def test_graph():
    history = load("cuda_graph").main()
    assert len({tuple(step) for step in history}) == len(history)


@pytest.mark.parametrize("device", DEVICES)
def test_rollout(device):
    example = load("rl_rollout")
    memory, error, gradient = example.main(device)
    assert error < 1e-4 and gradient.abs().sum() > 0
    for step in memory:
        offsets, kept = step["offsets"].tolist(), step["kept"]
        assert offsets[-1] == len(kept)
        for row, token in enumerate(step["tokens"].tolist()):
            ids = kept[offsets[row] : offsets[row + 1]].tolist()
            assert token in ids and ids == sorted(ids) and 1 <= len(ids) <= 100
    with pytest.raises(ValueError, match="room for 2"):
        example.pack(torch.zeros(1, 2), torch.tensor([3]))
