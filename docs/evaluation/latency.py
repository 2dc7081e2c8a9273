"""Latency of one sampling call against the batch size: the article's last figure. On one NVIDIA GPU.

tombola's three methods, FlashInfer's kernels, PyTorch's sort and a plain read of the logits, in one process and on
the same inputs, measured as bench/gpu/bench.py does: calls inside a CUDA graph that take turns over inputs larger
than the L2 cache, the median of 5 replays. scripts/gpu_bench.sh --evaluation builds the libraries and
runs this.

    latency.py --harness LIB --floor LIB [--flashinfer LIB VERSION] [--quick] OUTPUT.json
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"))
import bench  # noqa: E402
import peers  # noqa: E402

GRID = (  # distribution, chains, batches: descending, so that the inputs are made once
    ("zipf", ("k50_p0.9", "p0.9", "k50"), (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)),
    ("n01", ("k50_p0.9", "p0.9"), (512, 256, 128, 64, 32, 16, 8, 4, 2, 1)),
)
QUICK = (("zipf", ("k50_p0.9",), (512, 32, 1)),)
METHODS = {"exact": "", "rejection": " rejection", "dual-pivot": " dual-pivot"}


def driver():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]


def save(result, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def warm_up():
    """Brings the clocks up."""
    spin = torch.randn(8192, 8192, device="cuda")
    for _ in range(20):
        spin = (spin @ spin).tanh()
    torch.cuda.synchronize()


def measure(b, chain, distribution, batch):
    slices = b.input(distribution, batch, bench.VOCAB, "f32", False)
    times = {}
    for method, suffix in METHODS.items():
        try:
            times["tombola " + method] = bench.time_graph(
                [lambda i=i, d=d: b.tombola.run(chain + suffix, d, 0, i) for i, d in enumerate(slices)])
        except bench.Refused as refusal:
            print(f"{chain}{suffix}: {refusal}")
    for peer, function in peers.contestants(b.flashinfer, chain).items():
        times[peer] = bench.time_graph([lambda f=function, d=d: f(d) for d in slices])
    return {"chain": chain, "distribution": distribution, "rows": batch, "vocab_size": bench.VOCAB,
            "floor": b.floor(slices, batch, bench.VOCAB, "f32"), "microseconds": times}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--harness", required=True)
    parser.add_argument("--floor", required=True)
    parser.add_argument("--flashinfer", nargs=2, metavar=("LIB", "VERSION"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("output")
    arguments = parser.parse_args()
    arguments.only, arguments.seconds = None, float("inf")  # all that bench.Bench asks for
    b = bench.Bench(arguments)
    warm_up()
    result = {"device": torch.cuda.get_device_name(), "driver": driver(), "date": datetime.date.today().isoformat(),
              "torch": torch.__version__, "flashinfer": b.flashinfer.version if b.flashinfer else None,
              "sources_sha256": bench.sources_sha256(),
              "method": __doc__.split("\n\n")[1].replace("\n", " "), "figures": []}
    for distribution, chains, batches in QUICK if arguments.quick else GRID:
        for batch in batches:
            for chain in chains:
                figure = measure(b, chain, distribution, batch)
                print(chain, distribution, batch, f"floor {figure['floor']:.1f}",
                      *(f"| {k} {v:.1f}" for k, v in figure["microseconds"].items()), flush=True)
                result["figures"].append(figure)
                save(result, arguments.output)


if __name__ == "__main__":
    main()
