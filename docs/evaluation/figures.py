"""The data of this folder's tables and plots.

Latencies come from two runs. bench/results/gpu.json is of today's kernels and has EXACT, FlashInfer and the plain read of the
logits for all inputs, and torch's sort for zipf. data/latency.json was measured earlier the same day; it has REJECTION and
DUAL_PIVOT, whose kernel has not been measured since, and torch's sort for N(0,1). Its figures of EXACT are of kernels that are gone,
and are not used."""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
EARLIER = {"zipf": ("tombola rejection", "tombola dual-pivot"),
           "n01": ("tombola rejection", "tombola dual-pivot", "torch sort")}


def load(name):
    with open(HERE / "data" / name, encoding="utf-8") as file:
        return json.load(file)


def benchmark():
    with open(HERE.parents[1] / "bench" / "results" / "gpu.json", encoding="utf-8") as file:
        return json.load(file)


def latencies():
    """[{chain, distribution, rows, microseconds: {label: time}}], the floor among the labels. A cell that one run did not
    measure has the other's labels only."""
    cells = {}
    for f in load("latency.json")["figures"]:
        cells[f["chain"], f["distribution"], f["rows"]] = {k: f["microseconds"][k] for k in EARLIER[f["distribution"]]}
    of_interest = {cell[:2] for cell in cells}
    for f in benchmark()["figures"]:
        if f["dtype"] == "f32" and f["vocab_size"] == 128256 and (f["name"], f["distribution"]) in of_interest:
            cells.setdefault((f["name"], f["distribution"], f["rows"]), {}).update(
                f["peers"] | {"tombola exact": f["microseconds"], "floor": f["floor_microseconds"]})
    return [{"chain": chain, "distribution": distribution, "rows": rows, "microseconds": times}
            for (chain, distribution, rows), times in sorted(cells.items())]
