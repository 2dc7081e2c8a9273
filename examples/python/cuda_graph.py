"""A captured decode step: logits in, tokens out, every replay draws anew.

    python examples/python/cuda_graph.py

Seeds and offsets are tensors on the device, one per request. `advance=True` raises each offset by 1 behind the draw, as
a part of the graph, so nothing on the host changes between replays. A request's token is that of the same seed, offset
and logits outside of the graph.
"""

import torch

import tombola


def capture(logits, seeds, offsets, **parameters):
    """A graph that samples from `logits` as they are at replay, and the tensor that it writes."""
    tokens = torch.empty(logits.size(0), dtype=torch.int32, device=logits.device)

    def step():
        tombola.sample(logits, seed=seeds, offset=offsets, advance=True, out=tokens, **parameters)

    # The first call outside of a graph, on a side stream, as torch asks for; its advance is undone.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        offsets -= 1
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph, tokens


def main(rows=8, vocab_size=128256, steps=5):
    torch.manual_seed(0)
    logits = torch.empty(rows, vocab_size, device="cuda")
    seeds = torch.arange(100, 100 + rows, device="cuda")
    offsets = torch.zeros(rows, dtype=torch.int64, device="cuda")
    parameters = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}
    graph, tokens = capture(logits, seeds, offsets, **parameters)
    history = []
    for step in range(steps):
        logits.normal_(std=3)  # the model's part
        graph.replay()
        expected = tombola.sample(logits, seed=seeds, offset=torch.full_like(offsets, step), **parameters)
        assert torch.equal(tokens, expected)
        history.append(tokens.tolist())
        print(f"step {step}: {history[-1]}")
    assert offsets.tolist() == [steps] * rows
    return history


if __name__ == "__main__":
    main()
