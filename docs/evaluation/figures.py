"""The data of this folder's tables and plots.

Latencies come from two runs: bench/results/gpu.json (scripts/gpu_bench.sh: EXACT, FlashInfer, the plain read, and torch's sort
on zipf rows) and data/latency.json (scripts/gpu_bench.sh --evaluation: these and the article's methods, in one process). Each
says of which sources of the CUDA backend it is. Where both are of the same, data/latency.json is shown. Where it is of
earlier ones, only what the benchmark lacks is taken from it, and the page and the plot say so."""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
NOT_IN_BENCHMARK = {"zipf": ("tombola rejection", "tombola dual-pivot"),
                    "n01": ("tombola rejection", "tombola dual-pivot", "torch sort")}


def load(name):
    with open(HERE / "data" / name, encoding="utf-8") as file:
        return json.load(file)


def benchmark():
    with open(HERE.parents[1] / "bench" / "results" / "gpu.json", encoding="utf-8") as file:
        return json.load(file)


def is_earlier(data):
    """True of a run on other sources than the benchmark's (or on unknown ones, as of the first runs)."""
    return data.get("sources_sha256") is None or data["sources_sha256"] != benchmark().get("sources_sha256")


def latencies():
    """[{chain, distribution, rows, microseconds: {label: time}}], the floor among the labels. A cell that one run did not
    measure has the other's labels only."""
    own, cells = load("latency.json"), {}
    for f in own["figures"]:
        times = f["microseconds"] | {"floor": f["floor"]}
        if is_earlier(own):
            times = {k: times[k] for k in NOT_IN_BENCHMARK[f["distribution"]]}
        cells[f["chain"], f["distribution"], f["rows"]] = times
    of_interest = {cell[:2] for cell in cells}
    for f in benchmark()["figures"] if is_earlier(own) else ():
        if (f["dtype"] == "f32" and f["vocab_size"] == 128256 and (f["name"], f["distribution"]) in of_interest
                and "microseconds" in f):
            cells.setdefault((f["name"], f["distribution"], f["rows"]), {}).update(
                f["peers"] | {"tombola exact": f["microseconds"], "floor": f["floor_microseconds"]})
    return [{"chain": chain, "distribution": distribution, "rows": rows, "microseconds": times}
            for (chain, distribution, rows), times in sorted(cells.items())]
