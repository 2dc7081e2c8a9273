"""Draws bench/results/gpu.json:  plot.py RESULTS.json OUTPUT.png"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

PANELS = (("k50_p0.9", "zipf"), ("p0.9", "zipf"), ("no_filter", "zipf"), ("k50_p0.9", "n01"), ("p0.9", "n01"), ("softmax", "zipf"))
COLOURS = {"tombola": "#c0392b", "floor": "#7f8c8d"}
OTHERS = ("#2471a3", "#27ae60", "#8e44ad")


def curve(figures, value):
    points = sorted((f["rows"], value(f)) for f in figures if value(f) is not None)
    return [p[0] for p in points], [p[1] for p in points]


def draw(axes, result, name, distribution):
    figures = [f for f in result["figures"] if (f["name"], f["distribution"], f["dtype"], f["vocab_size"]) ==
               (name, distribution, "f32", 128256)]
    axes.plot(*curve(figures, lambda f: f["floor_microseconds"]), "--", color=COLOURS["floor"], label="one read of the logits")
    axes.plot(*curve(figures, lambda f: f.get("microseconds")), "o-", color=COLOURS["tombola"], label="tombola")
    labels = sorted({peer for f in figures for peer in f["peers"]})
    for colour, label in zip(OTHERS, labels):
        axes.plot(*curve(figures, lambda f, p=label: f["peers"].get(p)), "s-", color=colour, label=label, markersize=4)
    axes.set(xscale="log", yscale="log", title=f"{name}, {distribution}", xlabel="rows", ylabel="µs a call")
    ticks = sorted({f["rows"] for f in figures})
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def main(source, output):
    with open(source, encoding="utf-8") as file:
        result = json.load(file)
    panels = [p for p in PANELS if any((f["name"], f["distribution"]) == p for f in result["figures"])]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(5 * columns, 3.8 * rows), squeeze=False)
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    for axes, panel in zip(grid.flat, panels):
        draw(axes, result, *panel)
    figure.suptitle(f"From logits to a token, V = 128256, f32, cold L2: {result['device']}, driver {result['driver']}, "
                    f"FlashInfer {result['flashinfer']}, {result['date']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(output, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
