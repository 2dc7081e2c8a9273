"""The article's three animations, from traces of our own runs: writes docs/images/{inverse_transform,top_p_rejection,
dual_pivot}.gif, and a still of each as .png.

    python docs/evaluation/animations.py       needs numpy, matplotlib, pillow, and build/cli/tombola (or TOMBOLA_BIN)

Every number in a picture is from `tombola sample --trace`: weights, u, pivots, masses, verdicts."""

import io
import json
import os
import pathlib
import subprocess
import tempfile

import matplotlib
import numpy as np
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE.parent / "images"
BINARY = os.environ.get("TOMBOLA_BIN", HERE.parents[1] / "build" / "cli" / "tombola")
VOCAB, BLOCK = 32, 8
IDLE, OUT, LIVE, DRAWN, ABOVE, KEPT = "#aec7e8", "#e6e6e6", "#4c84bd", "#d62728", "#ff9f1c", "#2ca02c"
SECOND, RANGE = "#8e44ad", "#fff3c4"
plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})


def trace(logits, *options):
    """(tokens as {id: weight}, the row's line, the lines of each draw) of one row."""
    with tempfile.TemporaryDirectory() as folder:
        rows, path = pathlib.Path(folder) / "row.npy", pathlib.Path(folder) / "trace.jsonl"
        np.save(rows, logits.astype(np.float32))
        subprocess.run([BINARY, "sample", rows, "--trace", path, *map(str, options)], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    draws = {}
    for line in lines[1:]:
        draws.setdefault(line["draw"], []).append(line)
    return {token: weight for token, _, weight in lines[0]["tokens"]}, lines[0], list(draws.values())


def palette():
    """One for all frames, so that only what changes is stored: each colour, thinned towards white at edges, and greys."""
    def thinned(colour, share):
        return [round(255 - share * (255 - 255 * c)) for c in matplotlib.colors.to_rgb(colour)]
    table = [thinned(c, share) for c in (IDLE, OUT, LIVE, DRAWN, ABOVE, KEPT, SECOND, RANGE)
             for share in (1, 0.75, 0.5, 0.25)] + [[g] * 3 for g in range(0, 256, 15)]
    table = [entry for entry in table if min(entry) < 190 or entry in (thinned(OUT, 1), thinned(RANGE, 1), [255] * 3)]
    image = Image.new("P", (1, 1))  # (without what is nearly white, which would replace it)
    image.putpalette([v for entry in table for v in entry])
    return image


class Film:
    """Frames of one figure, and how long each stands."""

    def __init__(self, name, height=4.6):
        self.name, self.height, self.frames, self.seconds = name, height, [], []

    def picture(self, draw):
        figure = plt.figure(figsize=(8.4, self.height), dpi=90)
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, facecolor="white")
        plt.close(figure)
        return Image.open(buffer).convert("RGB")

    def frame(self, seconds, draw, still=False):
        image = self.picture(draw)
        self.frames.append(image)
        self.seconds.append(seconds)
        if still:
            image.quantize(palette=palette(), dither=Image.Dither.NONE).save(IMAGES / f"{self.name}.png", optimize=True)

    def save(self):
        frames = [f.quantize(palette=palette(), dither=Image.Dither.NONE) for f in self.frames]
        path = IMAGES / f"{self.name}.gif"
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=[int(1000 * s) for s in self.seconds],
                       loop=0, optimize=True)
        print(f"{path.name}: {len(frames)} frames, {path.stat().st_size / 1024:.0f} KiB")


def bars(axes, weights, colours, top=None):
    top = top or max(weights)
    axes.bar(range(len(weights)), [w / top for w in weights], color=colours, width=0.8)
    axes.set(xlim=(-0.7, len(weights) - 0.3), ylim=(0, 1.12), xlabel="token", ylabel="weight / greatest weight")


def caption(figure, title, *lines):
    figure.text(0.07, 0.945, title, fontsize=14, weight="bold", va="center")
    for i, line in enumerate(lines):
        figure.text(0.07, 0.885 - 0.055 * i, line, fontsize=11.5, va="center")


# ---- inverse transform by blocks ----

def inverse_transform():
    r = np.random.default_rng(3)
    weights, _, draws = trace(r.normal(0, 0.7, VOCAB), "--draws", 60, "--seed", 2)
    draw = next(d[0] for d in draws if 2 * BLOCK + 2 <= d[0]["token"] < 3 * BLOCK and d[0]["token"] % BLOCK >= 3)
    w = [weights[i] for i in range(VOCAB)]
    total, u = draw["mass"], draw["u"]
    assert total == sum(w)
    sums = [sum(w[b:b + BLOCK]) for b in range(0, VOCAB, BLOCK)]
    film = Film("inverse_transform")

    def paint(block, inside, title, *lines, drawn=True):
        """Blocks before `block` are passed; in it, `inside` tokens have been added (None: not looked into). Without
        `drawn`, u is not known yet."""
        def draw_frame(figure):
            axes = figure.add_axes((0.085, 0.30, 0.89, 0.44))
            colours = [OUT if i // BLOCK < block else IDLE for i in range(VOCAB)]
            if block * BLOCK < VOCAB and block >= 0:
                for i in range(block * BLOCK, (block + 1) * BLOCK):
                    colours[i] = LIVE
                if inside is not None:
                    for i in range(block * BLOCK, block * BLOCK + inside):
                        colours[i] = ABOVE
                    if block * BLOCK + inside == draw["token"] + 1:
                        colours[draw["token"]] = DRAWN
            bars(axes, w, colours)
            for b in range(1, VOCAB // BLOCK):
                axes.axvline(b * BLOCK - 0.5, color="#999999", linewidth=0.8, linestyle=":")
            for b, s in enumerate(sums):
                axes.text(b * BLOCK + 3.5, 1.06, f"{s / total:.3f}", ha="center", color="black" if b <= block or block < 0
                          else "#888888")
            line = figure.add_axes((0.085, 0.08, 0.89, 0.08))
            at = 0
            for b, s in enumerate(sums):
                line.barh(0, s / total, left=at / total, color=OUT if b < block else LIVE if b == block else IDLE,
                          edgecolor="white")
                if b == block and inside is not None:
                    end = at
                    for i in range(inside):
                        token = b * BLOCK + i
                        line.barh(0, w[token] / total, left=end / total, edgecolor="white", linewidth=0.4,
                                  color=DRAWN if token == draw["token"] else ABOVE)
                        end += w[token]
                at += s
            if drawn:
                line.axvline(u / total, color="black", linewidth=2)
                line.text(u / total, 0.62, f"u = {u / total:.4f}", ha="center")
            line.set(xlim=(0, 1), ylim=(-0.5, 0.55), yticks=[], xticks=[0, 0.25, 0.5, 0.75, 1])
            line.spines["left"].set_visible(False)
            caption(figure, title, *lines)
        return draw_frame
    film.frame(2.4, paint(-1, None, "Inverse transform sampling, by blocks",
                          "First the sums of all blocks (above them), and of these Z, the whole mass (here: 1).",
                          "They are exact: weights are integers, so sums do not depend on their order.", drawn=False))
    film.frame(2.0, paint(-1, None, "One random number u in [0, Z)",
                          "u = floor(r · Z / 2^64) with 64 random bits r: it needs Z, so every block's sum.",
                          "Which token holds it?"))
    at, block = 0, 0
    while at + sums[block] <= u:
        film.frame(1.6, paint(block, None, f"Search: block {block}",
                              f"{at / total:.4f} + {sums[block] / total:.4f} = {(at + sums[block]) / total:.4f}, not above u:"
                              " go on. No prefix sum is needed here."))
        at += sums[block]
        block += 1
    film.frame(2.0, paint(block, None, f"Search: block {block}",
                          f"{at / total:.4f} + {sums[block] / total:.4f} = {(at + sums[block]) / total:.4f}, above u:"
                          " the token is in this block.", "Early stop: the search goes no further, and prefix sums are taken in this block alone."))
    assert draw["token"] // BLOCK == block
    inside, before = draw["token"] % BLOCK, at
    for i in range(inside + 1):
        token = block * BLOCK + i
        found = before + w[token] > u
        film.frame(2.8 if found else 0.55, paint(
            block, i + 1, f"Prefix sums inside block {block}",
            f"... + w({token}) = {(before + w[token]) / total:.4f}" + (f", the first above u: token {token}." if found else ""),
            ""), still=found)
        before += w[token]
    film.save()


# ---- rejection ----

def shares(trial, total):
    return f"{100 * trial['above_token']['mass'] / total:.1f} %"


def above(weights, place):
    """The tokens above a place of the trace, and its height in weights; keys do not occur in these rows."""
    if place is None:
        return set(weights), 0
    kind, at = place
    height = weights[at] if kind == "token" else at
    return {i for i, w in weights.items() if w > height}, height


def top_p_rejection():
    p = 0.5
    r = np.random.default_rng(12)
    weights, row, draws = trace(r.normal(0, 0.8, VOCAB), "--top-p", p, "--method", "rejection", "--draws", 400,
                                "--seed", 5)
    trials = next(d for d in draws if len(d) == 4)
    w, top, total = [weights[i] for i in range(VOCAB)], max(weights.values()), sum(weights.values())
    film = Film("top_p_rejection")

    def paint(trial, phase, title, *lines):
        def draw_frame(figure):
            axes = figure.add_axes((0.085, 0.12, 0.89, 0.62))
            candidates, height = above(weights, trial["low"])
            token = trial["token"]
            colours = [IDLE if i in candidates else OUT for i in range(VOCAB)]
            if phase >= 1:
                colours[token] = DRAWN
            if phase >= 2:
                for i in above(weights, ["token", token])[0]:
                    colours[i] = ABOVE
            if phase == 3:
                colours[token] = KEPT
            bars(axes, w, colours)
            axes.axhline(height / top, color="black", linewidth=1.4)
            axes.text(VOCAB - 0.4, height / top + 0.015, "pivot", ha="right")
            if phase >= 2 and phase != 3:
                axes.axhline(weights[token] / top, color=DRAWN, linewidth=1.2, linestyle="--")
            caption(figure, title, *lines)
        return draw_frame
    film.frame(2.0, paint({**trials[0]}, 0, f"Top-p rejection sampling, p = {p}",
                          "The pivot starts at 0: every token can be drawn. No sorting.",
                          "A token is kept if the mass above it is less than p."))
    for trial in trials:
        n, token = trial["round"], trial["token"]
        left = f"{trial['count']} tokens above the pivot, {100 * trial['mass'] / total:.1f} % of the mass"
        film.frame(1.1, paint(trial, 0, f"Round {n}", left))
        film.frame(1.3, paint(trial, 1, f"Round {n}: token {token} is drawn", left))
        q = shares(trial, total)
        if trial["verdict"] == "accept":
            film.frame(3.0, paint(trial, 3, f"Round {n}: token {token} is accepted",
                                  f"{q} of the mass above it: less than {100 * p:.0f} %. Done.",
                                  "It has been drawn with the same probability as if the rejected tokens had never been there."))
        else:
            film.frame(2.0, paint(trial, 2, f"Round {n}: token {token} is rejected",
                                  f"{q} of the mass above it (orange): not less than {100 * p:.0f} %.",
                                  "The pivot rises to it."), still=n == 2)
    film.save()


# ---- dual pivot ----

def case_of(trial):
    return {"accept": 1, "low = token, high = middle": 2, "low = middle": 3}[trial["verdict"]]


def dual_pivot():
    k = 4
    for seed in range(200):  # the first row with a draw that shows all three cases, among weights
        r = np.random.default_rng(seed)
        weights, row, draws = trace(r.normal(0, 0.7, VOCAB), "--top-k", k, "--method", "dual-pivot", "--draws", 400)
        shown = [d for d in draws if sorted(map(case_of, d)) == [1, 2, 3]
                 and all(t["high"][0] == "weight" for t in d) and case_of(d[0]) == 3]
        if shown:
            trials = shown[0]
            break
    w, top = [weights[i] for i in range(VOCAB)], max(weights.values())
    film = Film("dual_pivot", 5.0)

    def paint(trial, phase, title, *lines):
        """phase 0: the range; 1: drawn; 2: both pivots judged."""
        def draw_frame(figure):
            axes = figure.add_axes((0.085, 0.115, 0.72, 0.62))
            candidates, height = above(weights, trial["low"])
            token, high = trial["token"], trial["high"][1]
            colours = [IDLE if i in candidates else OUT for i in range(VOCAB)]
            if phase >= 1:
                colours[token] = DRAWN
            if phase >= 2 and trial["verdict"] == "accept":
                colours[token] = KEPT
            bars(axes, w, colours, top)
            axes.axhspan(height / top, high / top, color=RANGE, zorder=0)
            marks = [(height, "low", "black"), (high, "high", "black")]
            if phase >= 2:
                marks.append((weights[token], "pivot 1: " + ("passes" if trial["above_token"]["passes"] else "fails"), DRAWN))
                if trial["middle"]:
                    marks.append((trial["middle"][1], "pivot 2: " + ("passes" if trial["above_middle"]["passes"] else "fails"),
                                  SECOND))
            last = -1.0
            for at, label, colour in sorted(marks):
                axes.axhline(at / top, color=colour, linewidth=1.4, linestyle="-" if colour == "black" else "--")
                last = max(at / top, last + 0.065)  # labels do not overlap
                axes.text(VOCAB, last, label, color=colour, va="center")
            caption(figure, title, *lines)
        return draw_frame

    def wanted(trial):
        a, b = trial["above_token"]["count"], trial["above_middle"]["count"] if trial["middle"] else None
        return a, b
    film.frame(2.2, paint(trials[0], 0, f"Dual-pivot rejection sampling, top-k {k}",
                          f"f(v): fewer than {k} tokens are above v. f(low) = 0 and f(high) = 1 at all times.",
                          "The cut lies somewhere in the yellow range."))
    for trial in trials:
        n, token, case = trial["round"], trial["token"], case_of(trial)
        a, b = wanted(trial)
        span = (trial["high"][1] - above(weights, trial["low"])[1]) / top
        film.frame(1.4, paint(trial, 0, f"Round {n}: the range is {span:.3f} wide",
                              f"{trial['count']} tokens above low can be drawn."))
        film.frame(1.4, paint(trial, 1, f"Round {n}: token {token} is drawn", "Pivot 1 is its weight" + (
            ", pivot 2 halfway from it to high." if trial["middle"] else
            ", above high: no second pivot is needed." if w[token] > trial["high"][1] else "; it passes, so there is no second.")))
        if case == 1:
            film.frame(3.2, paint(trial, 2, f"Round {n}, case 1: pivot 1 passes",
                                  f"{a} tokens above token {token}: fewer than {k}. Accepted."))
        elif case == 2:
            film.frame(3.0, paint(trial, 2, f"Round {n}, case 2: pivot 1 fails, pivot 2 passes",
                                  f"{a} tokens above pivot 1, {b} above pivot 2: the cut is between them.",
                                  "low becomes pivot 1, high becomes pivot 2: less than half of the range is left."))
        else:
            film.frame(3.0, paint(trial, 2, f"Round {n}, case 3: both fail",
                                  f"{a} tokens above pivot 1, {b} above pivot 2: the cut is above both.",
                                  "low becomes pivot 2: less than half of the range is left."), still=True)
    film.save()


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    inverse_transform()
    top_p_rejection()
    dual_pivot()
