"""Draws the plots of docs/evaluation from its data:  python docs/evaluation/plots.py [NAME]...   (needs matplotlib)

Each is a function below and a file images/NAME.png: rounds, tails, latency, breakdown, throughput."""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from figures import benchmark, is_earlier, latencies, load  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE.parent / "images"
RED, BLUE, GREEN, PURPLE, ORANGE, GREY = "#c0392b", "#2471a3", "#27ae60", "#8e44ad", "#e67e22", "#7f8c8d"
NAMES = {"gemma": "Gemma 3 270M, recorded", "zipf": "zipf", "n01": "N(0,1)", "n05": "N(0,5)",
         "crowd": "crowd: all weights within 1 %", "cliff": "cliff: 64 tokens above a crowd"}
plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
                     "grid.alpha": 0.3, "savefig.dpi": 110, "axes.titlesize": 11})


def save(figure, name):
    figure.savefig(IMAGES / f"{name}.png")
    plt.close(figure)
    print(f"docs/images/{name}.png")


def where(data):
    return f"{data['device']}, driver {data['driver']}, torch {data['torch']}, FlashInfer {data['flashinfer']}, {data['date']}"


# ---- rounds ----

def rounds():
    figures = load("rounds.json")["figures"]
    grid, axes = plt.subplots(3, 4, figsize=(14, 9), sharey="row")
    for n, name in enumerate(NAMES):
        for m, (option, label) in enumerate((("top-k", "k"), ("top-p", "p"))):
            a = axes[n // 2][2 * (n % 2) + m]
            for method, colour, title in (("rejection", BLUE, "one pivot"), ("dual-pivot", RED, "two pivots")):
                mine = [f for f in figures if (f["distribution"], f["filter"], f["method"]) == (name, option, method)]
                x = [f["value"] for f in mine]
                a.plot(x, [f["mean"] for f in mine], "o-", color=colour, markersize=4, label=f"{title}, mean")
                a.plot(x, [f["worst"] for f in mine], ":", color=colour, label=f"{title}, worst")
                if method == "rejection":
                    a.plot(x, [f["mean_by_formula"] for f in mine], "k+", markersize=9, label="one pivot, mean by the formula")
            a.set(xlabel=label, ylim=(0, None))
            a.set_title(f"{NAMES[name]}, {option}", fontsize=9)
            if option == "top-k":
                a.set_xscale("log")
            if m == 0 and n % 2 == 0:
                a.set_ylabel("trials per draw")
    grid.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncol=5, frameon=False)
    grid.suptitle("Trials of rejection sampling with one pivot and with two. The bound of two pivots is 73.", fontsize=13)
    grid.tight_layout(rect=(0, 0.03, 1, 1))
    save(grid, "rounds")


def tails():
    data = load("rounds.json")["tails"]
    grid, axes = plt.subplots(1, len(data), figsize=(13, 3.9), sharey=True)
    for a, t in zip(axes, data):
        for method, colour, label in (("rejection", BLUE, "one pivot"), ("dual-pivot", RED, "two pivots")):
            counts = t["counts"][method]
            total = sum(counts)
            a.bar([i + (0.2 if method == "dual-pivot" else -0.2) for i in range(len(counts))],
                  [c / total for c in counts], width=0.4, color=colour, label=label)
        formula = [(i, p) for i, p in enumerate(t["by_formula"]) if p > 1e-9]
        a.plot(*zip(*formula), "k.-", linewidth=0.8, markersize=4, label="one pivot, by the formula")
        a.set(title=f"{NAMES[t['distribution']]}, {t['filter']} {t['value']}", xlabel="trials of a draw", yscale="log",
              ylim=(1e-9, 2))
    axes[0].set_ylabel(f"share of {total:,} draws")
    axes[-1].legend(fontsize=8)
    grid.suptitle("One pivot's tail has no end but the number of tokens; two pivots' is short")
    grid.tight_layout()
    save(grid, "tails")


# ---- latency ----

STYLE = {  # label: names in the data (FlashInfer's kernel for a chain has the chain's name), colour, line
    "tombola exact": (("tombola exact",), RED, "o-"),
    "tombola rejection": (("tombola rejection",), ORANGE, "^--"),
    "tombola dual-pivot": (("tombola dual-pivot",), PURPLE, "v--"),
    "torch sort": (("torch sort",), "black", "s-"),
    "flashinfer joint; top_p, top_k where alone": (("flashinfer joint", "flashinfer top_p", "flashinfer top_k"), BLUE, "D-"),
    "flashinfer top_k_first": (("flashinfer top_k_first",), GREEN, "D-"),
    "one plain read of the logits": (("floor",), GREY, ":")}
EARLIER = {"tombola rejection": " (earlier run)", "tombola dual-pivot": " (earlier run)",
           "torch sort": " (N(0,1): earlier run)"}
CHAINS = {"k50_p0.9": "top-k 50 and top-p 0.9", "p0.9": "top-p 0.9", "k50": "top-k 50"}


def latency():
    data, own = latencies(), load("latency.json")
    notes = EARLIER if is_earlier(own) else {}
    panels = sorted({(f["distribution"] != "zipf", list(CHAINS).index(f["chain"]), f["distribution"], f["chain"])
                     for f in data})
    grid, axes = plt.subplots(2, 3, figsize=(14, 8.4), sharey=True)
    for a, (_, _, distribution, chain) in zip(axes.flat, panels):
        figures = sorted((f for f in data if (f["distribution"], f["chain"]) == (distribution, chain)),
                         key=lambda f: f["rows"])
        for label, (names, colour, line) in STYLE.items():
            mine = [(f["rows"], f["microseconds"][k]) for f in figures for k in names if k in f["microseconds"]]
            if mine:
                a.plot(*zip(*mine), line, color=colour, markersize=4, label=label + notes.get(label, ""))
        a.set(xscale="log", yscale="log", title=f"{CHAINS[chain]}, {NAMES[distribution]}", xlabel="batch")
        ticks = [1, 4, 16, 64, 256]
        a.set_xticks(ticks, [str(t) for t in ticks])
        a.minorticks_off()
    for a in axes[:, 0]:
        a.set_ylabel("µs per call")
    for a in axes.flat[len(panels):]:
        a.axis("off")
    axes.flat[-1].legend(*axes[0][0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=12)
    grid.suptitle(f"From logits to a token, V = 128256, f32, cold L2. {where(benchmark() if notes else own)}", fontsize=11)
    grid.tight_layout()
    save(grid, "latency")


# ---- decode steps ----

SAMPLERS = {"torch sort": "black", "flashinfer joint": BLUE, "flashinfer top_k_first": GREEN, "tombola dual-pivot": PURPLE,
            "tombola exact": RED}

GREYS = "#e8eaed", "#a9b1ba", "#59636e"


def parts(figure, sampler):
    """Milliseconds of a step: layers, attention, output layer, sampler. The last three are differences of two graphs."""
    whole, rest = figure["step"][sampler], figure["without_sampler"]
    head, attention = rest - figure["without_head"], rest - figure["without_attention"]
    return [t / 1000 for t in (rest - max(head, 0) - max(attention, 0), attention, head, whole - rest)]


def breakdown():
    data = load("decode.json")
    models = list(dict.fromkeys(f["model"] for f in data["figures"]))
    grid, axes = plt.subplots(1, len(models), figsize=(14, 4.9))
    for a, model in zip(axes, models):
        figures = [f for f in data["figures"] if f["model"] == model]
        for n, f in enumerate(figures):
            for m, sampler in enumerate(SAMPLERS):
                t = parts(f, sampler)
                left, at, whole = 0, n + (m - 2) * 0.17, sum(max(v, 0) for v in t)
                for value, colour in zip(t, (*GREYS, SAMPLERS[sampler])):
                    share = 100 * max(value, 0) / whole
                    a.bar(at, share, width=0.15, bottom=left, color=colour)
                    left += share
                if min(t) < 0:
                    a.text(at, 101, "noise", rotation=90, ha="center", va="bottom", fontsize=7, color=SAMPLERS[sampler])
        a.set(title=model, xlabel="batch", ylim=(0, 112), yticks=range(0, 101, 20))
        a.set_xticks(range(len(figures)), [str(f["batch"]) for f in figures])
        a.grid(axis="x", visible=False)
    axes[0].set_ylabel("% of a decode step")
    handles = [plt.Rectangle((0, 0), 1, 1, color=c) for c in (*GREYS, *SAMPLERS.values())]
    grid.legend(handles, ["layers", "attention", "output layer and copy", *(f"sampler: {s}" for s in SAMPLERS)],
                loc="lower center", ncol=4, fontsize=9, frameon=False)
    grid.suptitle(f"Where a decode step's time goes (simulated: random weights, zipf logits; context {figures[0]['context']}; "
                  f"{data['chain']}). {data['device']}\nnoise: a part came out negative, and is left out", fontsize=10)
    grid.tight_layout(rect=(0, 0.1, 1, 1))
    save(grid, "breakdown")


def throughput():
    data = load("decode.json")
    models = list(dict.fromkeys(f["model"] for f in data["figures"]))
    grid, axes = plt.subplots(2, len(models), figsize=(14, 7), sharex=True)
    for column, model in enumerate(models):
        figures = [f for f in data["figures"] if f["model"] == model]
        x = [f["batch"] for f in figures]
        for sampler, colour in SAMPLERS.items():
            axes[0][column].plot(x, [1e6 * f["batch"] / f["step"][sampler] for f in figures], "o-", color=colour,
                                 markersize=4, label=sampler)
            axes[1][column].plot(x, [100 * (f["step"]["torch sort"] / f["step"][sampler] - 1) for f in figures], "o-",
                                 color=colour, markersize=4)
        axes[0][column].set(title=model, xscale="log", yscale="log")
        least = min(f["step"]["torch sort"] / f["step"][s] - 1 for f in figures for s in SAMPLERS)
        axes[1][column].set(xlabel="batch", xscale="log", ylim=(105 * least, None))
        axes[1][column].set_xticks(x, [str(b) for b in x])
        axes[1][column].minorticks_off()
    axes[0][0].set_ylabel("tokens/s")
    axes[1][0].set_ylabel("% more tokens/s than with torch sort")
    axes[0][0].legend(fontsize=8)
    grid.suptitle(f"Throughput of decode steps (simulated: random weights, zipf logits; context {figures[0]['context']}; "
                  f"{data['chain']}). {data['device']}", fontsize=11)
    grid.tight_layout()
    save(grid, "throughput")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    known = {f.__name__: f for f in (rounds, tails, latency, breakdown, throughput)}
    for name in sys.argv[1:] or known:
        known[name]()
