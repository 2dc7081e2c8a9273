"""A decode step of three language models with its sampler swapped: the article's first and fifth figures. On one GPU.

What is real: the shapes of Llama-3.1-8B, phi-4 and Qwen2.5-7B (every layer with weights of its own, in bf16), a KV
cache of CONTEXT tokens per sequence, attention over all of it, the output layer, the sampler; one step is one CUDA
graph, whose sampled tokens are the next step's inputs. What is simulated: the weights and the cache are random
numbers; the sampler does not see the logits that these give but zipf-like rows of the model's vocabulary, put in
their place by the copy from bf16 to f32 that an engine makes anyway; the position stays at the end of the context;
biases are left out. The kernels are PyTorch's (cuBLAS, its flash attention), not an engine's: an engine that fuses
more has a shorter step, in which the sampler's part is larger.

    decode.py --harness LIB [--flashinfer LIB VERSION] [--quick] OUTPUT.json
    decode.py --tiny              the model alone, tiny, on the CPU: does it run?
"""

import argparse
import datetime
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"))

CONTEXT = 1024
HEAD = 128  # all three models
MODELS = {
    "Llama-3.1-8B": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256},
    "phi-4": {"layers": 40, "hidden": 5120, "heads": 40, "kv_heads": 10, "ffn": 17920, "vocab": 100352},
    "Qwen2.5-7B": {"layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "ffn": 18944, "vocab": 152064},
}
TINY = {"layers": 2, "hidden": 256, "heads": 2, "kv_heads": 1, "ffn": 512, "vocab": 1000}
BATCHES = (1, 4, 16, 64, 128, 256)
WARM_UP, TURNS, REPLAYS = 1, 7, 2


class Model:
    """Random weights, one decode step."""

    def __init__(self, shape, batch, context, device):
        self.shape, self.context, self.device = shape, context, device
        hidden, heads, kv = shape["hidden"], shape["heads"], shape["kv_heads"]
        self.embedding = self.weight(shape["vocab"], hidden)
        self.head = self.weight(shape["vocab"], hidden)
        self.norm = torch.ones(hidden, dtype=torch.bfloat16, device=device)
        self.layers = [{
            "qkv": self.weight((heads + 2 * kv) * HEAD, hidden),
            "out": self.weight(hidden, heads * HEAD),
            "gate_up": self.weight(2 * shape["ffn"], hidden),
            "down": self.weight(hidden, shape["ffn"]),
            "cache": self.weight(2, batch, kv, context, HEAD, scale=0.5),
        } for _ in range(shape["layers"])]
        angle = (context - 1) * 10000.0 ** (-torch.arange(0, HEAD, 2, device=device) / HEAD)
        self.cos = torch.cat((angle.cos(), angle.cos())).bfloat16()
        self.sin = torch.cat((-angle.sin(), angle.sin())).bfloat16()  # with the sign of the rotation

    def weight(self, *size, scale=0.02):
        return torch.empty(size, dtype=torch.bfloat16, device=self.device).normal_(0, scale)

    def attend(self, x, layer, attention):
        batch = x.shape[0]
        heads, kv = self.shape["heads"], self.shape["kv_heads"]
        qkv = F.linear(x, layer["qkv"]).view(batch, heads + 2 * kv, HEAD)
        qk = qkv[:, :heads + kv]
        qk = torch.addcmul(qk * self.cos, qk.roll(HEAD // 2, dims=2), self.sin)  # rotary positions
        keys, values = layer["cache"][0, :batch], layer["cache"][1, :batch]
        keys[:, :, -1] = qk[:, heads:]
        values[:, :, -1] = qkv[:, heads + kv:]
        q = qk[:, :heads].reshape(batch, kv, heads // kv, HEAD)  # the heads that share keys, as queries
        out = F.scaled_dot_product_attention(q, keys, values) if attention else q
        return out.reshape(batch, heads * HEAD)

    def step(self, ids, attention=True, head=True):
        """The logits, in bf16, of one more token of each sequence."""
        x = self.embedding[ids]
        size = (self.shape["hidden"],)
        for layer in self.layers:
            a = self.attend(F.rms_norm(x, size, self.norm), layer, attention)
            x = torch.addmm(x, a, layer["out"].t())
            gate, up = F.linear(F.rms_norm(x, size, self.norm), layer["gate_up"]).chunk(2, dim=1)
            x = torch.addmm(x, F.silu(gate).mul_(up), layer["down"].t())
        x = F.rms_norm(x, size, self.norm)
        return F.linear(x, self.head) if head else x


def time_steps(steps):
    """Microseconds of each of {label: step}, as CUDA graphs that are replayed in turns: so a change of the clocks
    meets all of them. And how far a turn's time is off the median, as the median of all turns and steps."""
    graphs, times = {}, {label: [] for label in steps}
    for label, step in steps.items():
        step()
        torch.cuda.synchronize()
        graphs[label] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[label]):
            step()
    for turn in range(WARM_UP + TURNS):
        for label, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()  # so that the next ones are launched while it runs
            start.record()
            for _ in range(REPLAYS):
                graph.replay()
            end.record()
            torch.cuda.synchronize()
            if turn >= WARM_UP:
                times[label].append(start.elapsed_time(end) * 1000 / REPLAYS)
    for graph in graphs.values():
        graph.reset()
    medians = {label: statistics.median(t) for label, t in times.items()}
    off = statistics.median(abs(t / medians[label] - 1) for label in times for t in times[label])
    return medians, off


def samplers(tombola, flashinfer):
    """{label: function of f32 logits that returns tokens}, all of them top-k 50 and top-p 0.9."""
    import peers

    def ours(name):
        def sample(logits):
            tombola.run(name, logits, 0, 0)
            return tombola.tokens[:logits.shape[0]]
        return sample
    found = {"torch sort": peers.torch_sort}
    if flashinfer:
        found["flashinfer joint"] = flashinfer.joint
        found["flashinfer top_k_first"] = flashinfer.top_k_first
    found["tombola dual-pivot"] = ours("k50_p0.9 dual-pivot")
    found["tombola exact"] = ours("k50_p0.9")
    return found


def measure(name, batches, contestants, done):
    import inputs
    shape = MODELS[name]
    model = Model(shape, max(batches), CONTEXT, "cuda")
    rows = inputs.make("zipf", max(batches), shape["vocab"], torch.bfloat16)
    for batch in batches:
        ids = torch.zeros(batch, dtype=torch.int64, device="cuda")
        logits = torch.empty(batch, shape["vocab"], device="cuda")

        def step(sampler=None, attention=True, head=True):
            model.step(ids, attention, head)
            if head:
                logits.copy_(rows[:batch])  # where an engine converts the model's logits to f32
            if sampler:
                ids.copy_(sampler(logits))
        times, off = time_steps({"without_sampler": step, "without_head": lambda: step(head=False),
                                 "without_attention": lambda: step(attention=False),
                                 **{label: lambda f=f: step(f) for label, f in contestants.items()}})
        figure = {"model": name, "batch": batch, "context": CONTEXT, "vocab_size": shape["vocab"],
                  "turns": TURNS, "turns_off_median": off, **{k: t for k, t in times.items() if k not in contestants},
                  "step": {k: t for k, t in times.items() if k in contestants}}
        print(name, batch, *(f"{k} {v:.0f}" for k, v in figure.items() if k.startswith("without")),
              *(f"| {k} {v:.0f}" for k, v in figure["step"].items()), flush=True)
        done(figure)


def tiny():
    torch.manual_seed(1)
    for batch in 1, 3:
        model = Model(TINY, batch, 16, "cpu")
        logits = model.step(torch.arange(batch))
        assert logits.shape == (batch, TINY["vocab"]) and logits.isfinite().all()
        assert not torch.equal(logits, model.step(torch.arange(batch) + 1))
        assert not torch.equal(logits, model.step(torch.arange(batch), attention=False))
    print("the model runs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--harness")
    parser.add_argument("--flashinfer", nargs=2, metavar=("LIB", "VERSION"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("output", nargs="?")
    arguments = parser.parse_args()
    if arguments.tiny:
        tiny()
        return
    import bench
    import latency
    import peers
    torch.manual_seed(1)
    tombola = bench.Tombola(arguments.harness)
    flashinfer = peers.FlashInfer(*arguments.flashinfer) if arguments.flashinfer else None
    latency.warm_up()
    result = {"device": torch.cuda.get_device_name(), "driver": latency.driver(),
              "date": datetime.date.today().isoformat(), "torch": torch.__version__, "sources_sha256": bench.sources_sha256(),
              "flashinfer": flashinfer.version if flashinfer else None, "chain": "top-k 50 and top-p 0.9",
              "method": __doc__.split("\n\n")[1].replace("\n", " "), "figures": []}

    def done(figure):
        result["figures"].append(figure)
        latency.save(result, arguments.output)
    with torch.inference_mode():
        for name in list(MODELS)[:1] if arguments.quick else MODELS:
            measure(name, (1, 64) if arguments.quick else BATCHES, samplers(tombola, flashinfer), done)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
