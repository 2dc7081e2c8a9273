"""Fills the tables of README.md, docs/gpu_speed.md and docs/flashinfer.md between <!-- gpu NAME --> and <!-- end --> from
bench/results/gpu.json, and what they say of the tests on a GPU from tests/gpu/receipt.json.

    table.py            writes them
    table.py --check    fails where a page is not what the figures say
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BATCHES = (1, 8, 32, 64, 128, 256, 512)


def load():
    result = json.loads((ROOT / "bench/results/gpu.json").read_text())
    cells = {}
    for figure in result["figures"]:
        cells[figure["name"], figure["distribution"], figure["dtype"], figure["vocab_size"], figure["rows"]] = figure
    return result, cells


def number(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(l) + " |" for l in lines])


def ours(cells, name, distribution, rows, dtype="f32", vocab=128256):
    figure = cells.get((name, distribution, dtype, vocab, rows))
    return figure and figure.get("microseconds")


def peer(cells, name, distribution, rows, start, vocab=128256):
    """The best of the peers whose names begin so."""
    figure = cells.get((name, distribution, "f32", vocab, rows))
    return min((t for p, t in figure["peers"].items() if p.startswith(start)), default=None) if figure else None


def where(result, _):
    line = (f"Measured on one {result['device']}, driver {result['driver']}, torch {result['torch']}, FlashInfer {result['flashinfer']}, "
            f"{result['date']}.")
    if result["sources_sha256"] != receipt()["sources_sha256"]:
        line += " The sources have changed since: docs/gpu_speed.md names the kernels that are newer, and what they take."
    return line


def readme(_, cells):
    lines = []
    for name, distribution, sort in (("k50_p0.9", "zipf", "torch sort"), ("p0.9", "zipf", "torch sort"), ("p0.9", "n01", None),
                                     ("min_p0.05", "zipf", None), ("no_filter", "zipf", "torch softmax"), ("greedy", "zipf", "torch argmax"),
                                     ("softmax", "zipf", "torch softmax"), ("top_p_renorm", "zipf", None), ("top_k_mask", "zipf", None)):
        line = [f"{name}, {'N(0,1)' if distribution == 'n01' else distribution}"]
        for rows in (1, 32, 128, 512):
            fi = peer(cells, name, distribution, rows, "flashinfer")
            torch = peer(cells, name, distribution, rows, sort) if sort else None
            line.append(f"**{number(ours(cells, name, distribution, rows))}** / {number(fi)} / {number(torch)}")
        lines.append(line)
    return table(["tombola / FlashInfer / PyTorch, µs", "1 row", "32", "128", "512"], lines)


def calls(_, cells):
    head = ["B", "read", "greedy", "k50", "k50,p.9", "p.9", "min_p .05", "none", "p.9 gemma", "p.9 N(0,1)", "min_p N(0,1)", "none, bf16", "k50,p.9 bf16"]
    columns = (("greedy", "zipf", "f32"), ("k50", "zipf", "f32"), ("k50_p0.9", "zipf", "f32"), ("p0.9", "zipf", "f32"), ("min_p0.05", "zipf", "f32"),
               ("no_filter", "zipf", "f32"), ("p0.9", "gemma", "f32"), ("p0.9", "n01", "f32"), ("min_p0.05", "n01", "f32"),
               ("no_filter", "zipf", "bf16"), ("k50_p0.9", "zipf", "bf16"))
    lines = []
    for rows in BATCHES:
        floor = cells.get(("k50_p0.9", "zipf", "f32", 128256, rows), {}).get("floor_microseconds")
        lines.append([str(rows), number(floor)] + [number(ours(cells, n, d, rows, t)) for n, d, t in columns])
    return table(head, lines)


def peers(_, cells):
    head = ["times as fast as FlashInfer"] + [f"B = {rows}" for rows in BATCHES]
    lines = []
    for name, distribution in (("k50_p0.9", "zipf"), ("k50_p0.9", "n01"), ("p0.9", "zipf"), ("p0.9", "n01"), ("k50", "zipf"), ("min_p0.05", "zipf"),
                               ("min_p0.05", "n01"), ("no_filter", "zipf"), ("softmax", "zipf"), ("top_p_renorm", "zipf"),
                               ("top_k_renorm", "zipf"), ("top_k_mask", "zipf")):
        line = [f"{name}, {'N(0,1)' if distribution == 'n01' else distribution}"]
        for rows in BATCHES:
            theirs, mine = peer(cells, name, distribution, rows, "flashinfer"), ours(cells, name, distribution, rows)
            line.append(f"{theirs / mine:.1f}" if theirs and mine else "-")
        lines.append(line)
    return table(head, lines)


def hostile(_, cells):
    rows_of = (("equal", "all equal"), ("two", "two values"), ("ascending", "ascending"), ("one_hot", "one-hot"), ("masked", "95 % masked"), ("zipf", "zipf"))
    names = ("k50_p0.9", "p0.9", "min_p0.05", "no_filter", "mixed")
    lines = []
    for distribution, text in rows_of:
        lines.append([text] + [" / ".join(number(ours(cells, name, distribution, rows)) for rows in (1, 32, 256)) for name in names])
    return table(["B = 1 / 32 / 256"] + list(names), lines)


def great_p(_, cells):
    lines = [[text] + [number(ours(cells, name, "gemma", rows, dtype)) for rows in (1, 8, 32, 256)]
             for text, name, dtype in (("a token, f32", "p0.99", "f32"), ("a token, bf16", "p0.99", "bf16"),
                                       ("top_p_renorm", "top_p_renorm_p0.99", "f32"))]
    return table(["gemma, top_p .99, B", "1", "8", "32", "256"], lines)


def ids(_, cells):
    lines = []
    for vocab in (65536, 131072):
        for name, text in (("top_k_ids", "in order of the ids"), ("top_k_ids_sorted", "sorted by value")):
            line = [f"{vocab}, {text}"]
            for rows in (1, 8, 64, 256):
                mine, fi = ours(cells, name, "zipf", rows, vocab=vocab), peer(cells, "top_k_ids", "zipf", rows, "flashinfer", vocab)
                line.append(f"{number(mine)} / {number(fi)}")
            lines.append(line)
    return table(["top_k = 2048: tombola / FlashInfer (sorted by value), V", "1 row", "8", "64", "256"], lines)


def rows_out(_, cells):
    lines = []
    for name in ("softmax", "top_k_mask", "top_k_renorm", "top_p_renorm"):
        lines.append([name] + [f"{number(ours(cells, name, 'zipf', rows))} / {number(peer(cells, name, 'zipf', rows, 'flashinfer'))}"
                               for rows in BATCHES])
    return table(["tombola / FlashInfer, B"] + [str(rows) for rows in BATCHES], lines)


NAMES = {"k50_p0.9": "top-k 50 and top-p 0.9", "p0.9": "top-p 0.9", "k50": "top-k 50", "min_p0.05": "min-p 0.05", "no_filter": "no filter",
         "top_k_ids": "lists of 2048 ids, in order of the ids", "top_k_ids_sorted": "lists of 2048 ids, sorted by value"}


def slower(_, cells):
    """Every cell of the benchmark in which FlashInfer is faster."""
    found = {}
    for (name, distribution, dtype, vocab, rows), figure in sorted(cells.items()):
        mine = figure.get("microseconds")
        theirs = peer(cells, "top_k_ids" if name == "top_k_ids_sorted" else name, distribution, rows, "flashinfer", vocab)
        if dtype == "f32" and mine and theirs and theirs < mine:
            what = NAMES.get(name, name) + (f", V = {vocab}" if "ids" in name else " on N(0,1)" if distribution == "n01" else f" on {distribution}")
            found.setdefault(what, []).append((rows, mine / theirs))
    if not found:
        return "FlashInfer is faster in no cell that was measured."
    cases = []
    for what, where in found.items():
        times = sorted({f"{ratio:.2f}" for _, ratio in where})
        cases.append(f"{what}, at {', '.join(str(rows) for rows, _ in where)} row{'s' if where[-1][0] > 1 else ''} (tombola takes "
                     f"{' to '.join(dict.fromkeys((times[0], times[-1])))} times as long)")
    return "FlashInfer is faster, of all cells that were measured, with " + "; ".join(cases) + "."


# ---- the tests on a GPU ----

BITS = ("vectors", "anomalies", "graphs", "streams", "large", "random", "parts", "invariance", "soak")  # suites that compare bits


def receipt():
    return json.loads((ROOT / "tests/gpu/receipt.json").read_text())


def checks(*_):
    data = receipt()
    passed = sum(s["passed"] for s in data["suites"] if s["name"] in BITS)
    failed = sum(s["failed"] for s in data["suites"])
    if not passed:
        return "The GPU tests have not run on these sources ([`tests/gpu/receipt.json`](tests/gpu/receipt.json); `make gpu-test` does it)."
    pending = f" Not settled: {data['pending']}" if "pending" in data else ""
    return (f"On an {data['device'].removeprefix('NVIDIA ')} {passed / 1e6:.2f} million checks of vectors, random calls, anomalies, graphs, streams, "
            "batches and a soak of a million rows found the bits of the reference or of the CPU backend in every output"
            + (f", but {failed} failed" if failed else "") + f" ([`tests/gpu/receipt.json`](tests/gpu/receipt.json); `make gpu-test` does it).{pending}")


def flashinfer(*_):
    data = receipt()
    suite = next((s for s in data["suites"] if s["name"] == "flashinfer"), None)
    if not suite or not suite["passed"]:
        return "They have not run on these sources."
    line = f"On an {data['device']}, {data['date']}: {suite['passed']} passed, {suite['failed']} failed, {suite['skipped']} were skipped."
    return line + (f" Skipped: {suite['reason']}." if suite.get("reason") else "")


TABLES = {"slower": slower, "checks": checks, "flashinfer": flashinfer, "rows": rows_out, "where": where, "readme": readme, "calls": calls, "peers": peers, "hostile": hostile, "great_p": great_p, "ids": ids}


def fill(text, result, cells):
    out, rest = "", text
    while "<!-- gpu " in rest:
        before, rest = rest.split("<!-- gpu ", 1)
        name, rest = rest.split(" -->", 1)
        _, rest = rest.split("<!-- end -->", 1)
        out += f"{before}<!-- gpu {name} -->\n{TABLES[name](result, cells)}\n<!-- end -->"
    return out + rest


def main(check):
    result, cells = load()
    stale = []
    for page in ("README.md", "docs/gpu_speed.md", "docs/flashinfer.md"):
        path = ROOT / page
        text = path.read_text()
        filled = fill(text, result, cells)
        if filled != text:
            stale.append(page)
            if not check:
                path.write_text(filled)
    if check and stale:
        sys.exit(f"not what bench/results/gpu.json and tests/gpu/receipt.json say: {', '.join(stale)}; run bench/gpu/table.py")


if __name__ == "__main__":
    main(sys.argv[1:] == ["--check"])
