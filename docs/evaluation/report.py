"""Puts the numbers of data/*.json into the tables of README.md, between its markers.

    python docs/evaluation/report.py [--check]        --check writes nothing, and fails where a table is not the data's"""

import pathlib
import re
import sys

from figures import benchmark, is_earlier, latencies, load

HERE = pathlib.Path(__file__).resolve().parent
BEST = ("flashinfer joint", "flashinfer top_k_first")


ROUNDS, LATENCY, DECODE, OWN, TODAY = load("rounds.json"), latencies(), load("decode.json"), load("latency.json"), benchmark()


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


# ---- rounds ----

def rounds_of(distribution, option, value, method):
    [f] = [f for f in ROUNDS["figures"] if (f["distribution"], f["filter"], f["value"], f["method"]) ==
           (distribution, option, value, method)]
    return f


def rounds():
    rows = []
    for d in dict.fromkeys(f["distribution"] for f in ROUNDS["figures"]):
        row = [d]
        for option, value in (("top-k", 1), ("top-k", 50), ("top-k", 1000), ("top-p", 0.1), ("top-p", 0.9)):
            one, two = (rounds_of(d, option, value, m) for m in ("rejection", "dual-pivot"))
            row.append(f"{one['mean']:.2f}, {one['worst']} / {two['mean']:.2f}, {two['worst']}")
        rows.append(row)
    return table(["mean, worst: one pivot / two", "top-k 1", "top-k 50", "top-k 1000", "top-p 0.1", "top-p 0.9"], rows)


def worst(method):
    """The most trials of any draw: of the grid, and of the longer runs for the tails."""
    return max([f["worst"] for f in ROUNDS["figures"] if f["method"] == method]
               + [max(i for i, c in enumerate(t["counts"][method]) if c) for t in ROUNDS["tails"]])


# ---- latency ----

def latency_of(chain, distribution, batch):
    [f] = [f for f in LATENCY if (f["chain"], f["distribution"], f["rows"]) == (chain, distribution, batch)]
    return f["microseconds"]


def batches_of(chain, distribution, label):
    return sorted(f["rows"] for f in LATENCY
                  if (f["chain"], f["distribution"]) == (chain, distribution) and label in f["microseconds"])


def number(value):
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def latency():
    batches = batches_of("k50_p0.9", "zipf", "tombola exact")
    rows = []
    for label in ("tombola exact", "tombola rejection", "tombola dual-pivot", *BEST, "torch sort", "floor"):
        rows.append([label, *(number(latency_of("k50_p0.9", "zipf", b)[label]) for b in batches)])
    return table(["µs per call, batch:", *batches], rows)


def flat():
    batches = batches_of("p0.9", "n01", "tombola exact")
    rows = []
    for chain, labels in (("k50_p0.9", ("tombola exact", "tombola rejection", "tombola dual-pivot", *BEST)),
                          ("p0.9", ("tombola exact", "tombola rejection", "tombola dual-pivot", "flashinfer top_p"))):
        name = {"k50_p0.9": "top-k 50, top-p 0.9", "p0.9": "top-p 0.9"}[chain]
        for label in labels:
            times = [latency_of(chain, "n01", b).get(label) for b in batches]
            rows.append([f"{name}: {label}", *(number(t) if t else "" for t in times)])
    return table(["µs per call on N(0,1), batch:", *batches], rows)


def joined(words):
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def at_batches(batches):
    return "at batch " + joined([str(b) for b in batches])


def behind(chain, distribution, mine, peer):
    """The batches at which a label is slower than another."""
    both = [(b, latency_of(chain, distribution, b)) for b in batches_of(chain, distribution, mine)]
    return [b for b, t in both if peer in t and t[mine] > t[peer]]


def slower():
    """Where EXACT is not the fastest of a cell, and how its rejection methods stand beside FlashInfer's joint filter."""
    found = []
    for chain, distribution in dict.fromkeys((f["chain"], f["distribution"]) for f in LATENCY):
        labels = {label for f in LATENCY if (f["chain"], f["distribution"]) == (chain, distribution) for label in f["microseconds"]}
        for peer in sorted(label for label in labels if label.startswith("flashinfer")):
            batches = behind(chain, distribution, "tombola exact", peer)
            if batches:
                found.append(f"{PEERS[peer]} is faster than it with {CHAINS[chain]} on {ROWS[distribution]} {at_batches(batches)}")
    text = "EXACT is the fast one" + (f", but not everywhere: {joined(found)}." if found else ", in every cell that was measured.")
    faster = []
    for distribution in ("zipf", "n01"):
        batches = behind("k50_p0.9", distribution, "flashinfer joint", "tombola dual-pivot")
        if batches:
            faster.append(f"on {ROWS[distribution]} {at_batches(batches)}")
    text += (" Our DUAL_PIVOT is slower than FlashInfer's joint filter (top-k 50 and top-p 0.9)"
             + (f", but {joined(faster)}." if faster else " everywhere."))
    return text


def runs():
    """What the latencies' two runs mean for the plot."""
    if is_earlier(OWN):
        return ("Two lines of the plot, REJECTION and DUAL_PIVOT, and torch sort on N(0,1), were measured earlier, before the kernels changed; "
                "they have not been measured since. All others are the benchmark's of [gpu_speed.md](../gpu_speed.md). Empty cells were not measured.")
    off = []
    for f in LATENCY:
        [other] = [b["microseconds"] for b in TODAY["figures"] if (b["name"], b["distribution"], b["rows"], b["dtype"], b["vocab_size"])
                   == (f["chain"], f["distribution"], f["rows"], "f32", 128256)] or [None]
        if other:
            off.append(abs(f["microseconds"]["tombola exact"] / other - 1))
    return ("All of these come from one process, another than that of the benchmark of [gpu_speed.md](../gpu_speed.md) and of the README's table; EXACT's "
            f"{len(off)} cells that are in both differ by {100 * sorted(off)[len(off) // 2]:.1f} % in the median and {100 * max(off):.1f} % at most.")


PEERS = {"flashinfer joint": "FlashInfer's joint filter", "flashinfer top_k_first": "FlashInfer's top_k_first",
         "flashinfer top_p": "FlashInfer's top-p", "flashinfer top_k": "FlashInfer's top-k"}
CHAINS = {"k50_p0.9": "top-k 50 and top-p 0.9", "p0.9": "top-p 0.9", "k50": "top-k 50"}
ROWS = {"zipf": "zipf", "n01": "N(0,1)"}


# ---- decode steps ----

STEPS = {"torch sort": "torch sort", "flashinfer joint": "FlashInfer joint",
         "flashinfer top_k_first": "FlashInfer top_k_first", "tombola dual-pivot": "dual pivot", "tombola exact": "EXACT"}
STEPS = {label: name for label, name in STEPS.items() if all(label in f["step"] for f in DECODE["figures"])}


def decode():
    rows = []
    for f in DECODE["figures"]:
        sort = f["step"]["torch sort"]
        rows.append([f["model"], f["batch"], f"{f['without_sampler'] / 1000:.2f}",
                     *(f"{f['step'][s] / 1000:.2f}" for s in STEPS),
                     *(f"{100 * (sort / f['step'][s] - 1):+.0f} %" for s in list(STEPS)[1:])])
    names = list(STEPS.values())
    return table(["model", "batch", "ms per step: without sampler", *names,
                  "tokens/s against torch sort: " + names[1], *names[2:]], rows)


def shares():
    """What each sampler takes of a step, as the difference to the step without one."""
    large = [f for f in DECODE["figures"] if f["batch"] >= 64]
    taken = {s: [100 * (1 - f["without_sampler"] / f["step"][s]) for f in large] for s in STEPS}
    return "At batch 64 to 256: " + ", ".join(
        f"{name} {min(taken[s]):.0f} to {max(taken[s]):.0f} %" for s, name in STEPS.items()) + " of a step."


def sure():
    """How far the steps' differences can be trusted."""
    if not all("turns_off_median" in f for f in DECODE["figures"]):
        text = ("These figures were taken one graph after the other (the median of 3 groups of 5 replays), and something moved meanwhile, "
                "probably the clocks: the step without sampler came first, and is off against the others by up to 8 % (with Qwen2.5-7B at "
                "batch 1 it is even slower than the steps with a sampler). What is small against that, every sampler but the sort, cannot be "
                "read off the difference; the latencies above can be trusted, these steps show the order of magnitude. `decode.py` has since "
                "been changed to replay all graphs of a cell in turns; it has not yet been run again.")
    else:
        off = [100 * f["turns_off_median"] for f in DECODE["figures"]]
        below = [f for f in DECODE["figures"] if min(f["step"].values()) < f["without_sampler"]]
        text = (f"All graphs of a cell are replayed in turns, {DECODE['figures'][0]['turns']} times, so that what moves meanwhile, such as the "
                f"clocks, meets all of them. Half of the turns are within {span(off, lambda v: f'{v:.2f} %')} (by the cell) of their graph's "
                "median, which is what is shown; differences of this size say nothing.")
        if below:
            text += (f" In {len(below)} of the {len(off)} cells a step with a sampler comes out shorter than the one without, by up to "
                     f"{max(100 * (1 - min(f['step'].values()) / f['without_sampler']) for f in below):.1f} %.")
    text += (" In the breakdown, attention and output layer are differences of two graphs too; where one is negative, it is left out and the bar "
             "is marked \"noise\".")
    if is_earlier(DECODE):
        text += " tombola's kernels have changed since these steps, by microseconds of a step of milliseconds."
    return "**How sure it is.** " + text


def span(values, form):
    return f"{form(min(values))} to {form(max(values))}"


# ---- the article, claim by claim ----

def claims():
    large = [f for f in DECODE["figures"] if f["batch"] >= 64]
    gain = {s: [100 * (f["step"]["torch sort"] / f["step"][s] - 1) for f in large] for s in large[0]["step"]}

    def percent(v):
        return f"{v:.0f} %"
    batches = batches_of("k50_p0.9", "zipf", "tombola exact")
    speed = {s: [latency_of("k50_p0.9", "zipf", b)["torch sort"] / latency_of("k50_p0.9", "zipf", b)[s] for b in batches]
             for s in ("tombola exact", "tombola dual-pivot", "flashinfer joint")}

    def times(v):
        return f"{v:.1f}"
    saved = {s: [100 * (1 - 1 / v) for v in speed[s]] for s in speed}
    first, last = batches[0], batches[-1]
    grown = {s: latency_of("k50_p0.9", "zipf", last)[s] / latency_of("k50_p0.9", "zipf", first)[s]
             for s in ("tombola exact", "tombola dual-pivot", "flashinfer joint", "torch sort")}
    harder = {s: [latency_of("k50_p0.9", "n01", b)[s] / latency_of("k50_p0.9", "zipf", b)[s]
                  for b in batches_of("k50_p0.9", "n01", s) if b in batches]
              for s in ("tombola exact", "tombola rejection", "tombola dual-pivot", "flashinfer joint")}
    top_p = [latency_of("p0.9", "n01", b)["tombola exact"] / latency_of("p0.9", "zipf", b)["tombola exact"]
             for b in batches]
    hard = [(b, latency_of("p0.9", "n01", b)) for b in batches]
    hard = [f"at batch {b}: {t['tombola exact']:.0f} against {t['flashinfer top_p']:.0f} µs" for b, t in hard
            if t["tombola exact"] > t["flashinfer top_p"]]
    gemma = [f for f in ROUNDS["figures"] if f["distribution"] == "gemma"]
    usual = [rounds_of("gemma", "top-k", 50, "rejection")["mean"], rounds_of("gemma", "top-p", 0.9, "rejection")["mean"]]
    flat = rounds_of("crowd", "top-k", 1, "rejection"), rounds_of("crowd", "top-k", 1, "dual-pivot")
    return table(["the article says", "the article's algorithms, measured here", "EXACT, measured here"], [
        ["Its kernels cut the sampling time by more than half against PyTorch, on three models",
         f"a sampling call takes {span(saved['flashinfer joint'], percent)} less (FlashInfer joint; zipf, batch 1 to 512)",
         f"{span(saved['tombola exact'], percent)} less"],
        ["Sampling with filters needs no sorting",
         "true: the same distribution as sorting, [proved and checked](../proof.md)",
         "true: the same tokens kept as by the PyTorch code, on 475 random rows without ties (`tests/article`)"],
        ["Inverse transform sampling can stop early: sums of blocks first, prefix sums in one of them",
         "how every method here draws; the sums of all blocks are needed for the total mass, the search among them stops early", "the same"],
        ["Rejection sampling usually takes few rounds",
         f"on recorded logits yes: mean {usual[0]:.2f} (top-k 50) and {usual[1]:.2f} (top-p 0.9), at most "
         f"{max(f['worst'] for f in gemma)} over the whole grid. On flat rows no: {flat[0]['mean']:.1f} in the mean, "
         f"{flat[0]['worst']} at worst (crowd, top-k 1)", "no rounds"],
        ["It is much faster than the naive PyTorch code",
         f"{span(speed['flashinfer joint'], times)} times (FlashInfer joint), {span(speed['tombola dual-pivot'], times)} "
         "times (our dual pivot), zipf, batch 1 to 512", f"{span(speed['tombola exact'], times)} times"],
        ["With one pivot there is no guarantee on the rounds, and latency varies with the distribution",
         f"true: N(0,1) takes {span(harder['tombola rejection'], times)} times as long as zipf (FlashInfer joint "
         f"{span(harder['flashinfer joint'], times)}). But the mean is at most 1 + ln(V / kept), "
         "[whatever the row](../proof.md#what-one-pivot-costs)",
         f"N(0,1) takes {span(harder['tombola exact'], times)} times as long as zipf with top-k 50 and top-p 0.9, "
         f"and {span(top_p, times)} times with top-p 0.9 alone"
         + (f"; there it is slower than FlashInfer's top-p {joined(hard)}" if hard else "")],
        ["Two pivots halve the range: O(log(1/ε)) rounds",
         f"true, with integers: at most 73 (71 for any row there is), [proved](../proof.md#theorem-the-bound-of-two-pivots); at "
         f"worst {worst('dual-pivot')} seen, one pivot {worst('rejection')}. On language models' rows the two pivots save "
         "little, since one needs few rounds", "no rounds"],
        ["The rejection sampler draws token j with probability p_j / Z",
         "true, for every filter and any choice of pivots; exact sums over all draws, and 2.5e7 draws within 5 sigma",
         "the same distribution, checked the same way"],
        ["Latency grows slowly with the batch",
         f"batch {last} takes {grown['flashinfer joint']:.1f} (FlashInfer joint) and {grown['tombola dual-pivot']:.1f} (our "
         f"dual pivot) times batch {first}; torch sort {grown['torch sort']:.0f} times",
         f"{grown['tombola exact']:.1f} times, from {latency_of('k50_p0.9', 'zipf', first)['tombola exact']:.1f} to "
         f"{latency_of('k50_p0.9', 'zipf', last)['tombola exact']:.1f} µs; one read of the logits takes "
         f"{latency_of('k50_p0.9', 'zipf', last)['floor']:.1f}"],
        ["End-to-end throughput rises",
         f"decode steps (simulated), batch 64 to 256: FlashInfer joint {span(gain['flashinfer joint'], percent)} more "
         "tokens/s than torch sort",
         f"{span(gain['tombola exact'], percent)}"],
        ["Parallel prefix sums of floats are not monotone, and may give an invalid token",
         "true: on 200 rows an f32 scan falls 13,282 times (`tests/article`)",
         "sums are integers: it cannot happen, in any method"],
        ["Joint and top-k-first filters", "both, as steps of a chain", "the same"],
        ["The idea serves elsewhere: Twilight's attention, speculative decoding",
         "speculative decoding: not yet",
         "[`examples/top_p_attention`](../../examples/top_p_attention/top_p_attention.c): one call selects for all heads"],
    ])


def where():
    earlier = is_earlier(OWN)
    lines = [f"Latencies: {on(OWN)}, all in one process (`scripts/gpu_bench.sh --evaluation`)."]
    if earlier:
        lines = [f"Latencies of EXACT, FlashInfer, torch sort (zipf) and the plain read: the benchmark of [gpu_speed.md](../gpu_speed.md), {on(TODAY)}.",
                 f"Latencies of REJECTION and DUAL_PIVOT, torch sort on N(0,1): {on(OWN)}, earlier, before tombola's kernels changed."]
    lines.append(f"Decode steps: {on(DECODE)}" + (", before the kernels changed too." if is_earlier(DECODE) else "."))
    return "\n".join("- " + line for line in lines)


def on(data):
    return (f"{data['device']}, driver {data['driver']}, torch {data['torch']}, FlashInfer {data['flashinfer']}, {data['date']}")


def main():
    path = HERE / "README.md"
    old = path.read_text(encoding="utf-8")
    text = old
    for f in (where, claims, slower, rounds, latency, flat, runs, decode, sure, shares):
        name = f.__name__
        text, n = re.subn(f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, f=f: m[1] + f() + "\n" + m[2], text,
                          flags=re.S)
        assert n == 1, f"README.md has no place for {name}"
    if "--check" in sys.argv:
        if text != old:
            sys.exit("docs/evaluation/README.md is not what its data say: run docs/evaluation/report.py")
        return
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
