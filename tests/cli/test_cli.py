"""The command line's options and outputs."""

import functools
import json
import math
import re

import numpy as np
import pytest
from conftest import GEMMA, on_terminal, output, refusal, rows, run, without_colours

# ---- options ----


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ([], "which command"),
        (["draw"], "unknown command 'draw'"),
        (["--frobnicate"], "unknown option"),
        (["sample"], "which FILE.npy"),
        (["sample", "a.npy", "b.npy"], "one FILE.npy at a time"),
        (["sample", "--", "a.npy", "b.npy"], "one FILE.npy at a time"),
        (["info", "a.npy"], "unexpected argument"),
        (["sample", "FILE", "--frobnicate"], "unknown option --frobnicate"),
        (["sample", "FILE", "--temp", "1"], "unknown option --temp"),  # no abbreviations
        (["sample", "FILE", "--top", "3"], "unknown option --top"),  # another command's
        (["sample", "FILE", "-t"], "unknown option -t"),
        (["sample", "FILE", "--top-k"], "needs an argument"),
        (["sample", "FILE", "--json=yes"], "takes no argument"),
        (["sample", "FILE", "--temperature", "warm"], "not a number"),
        (["sample", "FILE", "--temperature", ""], "not a number"),
        (["sample", "FILE", "--temperature", " 1"], "not a number"),
        (["sample", "FILE", "--temperature", "1,5"], "not a number"),
        (["sample", "FILE", "--temperature", "1.5x"], "not a number"),
        (["sample", "FILE", "--temperature", "1e39"], "too great"),
        (["sample", "FILE", "--top-k", "1.5"], "not an integer"),
        (["sample", "FILE", "--top-k", "2147483648"], "not within"),
        (["sample", "FILE", "--top-k", "99999999999999999999"], "not within"),
        (["sample", "FILE", "--seed", "-1"], "at least 0"),
        (["sample", "FILE", "--seed", "18446744073709551616"], "2^64"),
        (["sample", "FILE", "--seed", "0xg"], "at least 0"),
        (["sample", "FILE", "--draws", "0"], "not within 1 .. 4096"),
        (["sample", "FILE", "--draws", "4097"], "not within 1 .. 4096"),
        (["sample", "FILE", "--row", "5"], "rows 0 to 4"),
        (["sample", "FILE", "--row", "-1"], "not within"),
        (["sample", "FILE", "--row", "some"], "not an integer"),
        (["show", "FILE", "--row", "all"], "not an integer"),
        (["sample", "FILE", "--ties", "some"], "all or index"),
        (["sample", "FILE", "--method", "best"], "exact, rejection or dual-pivot"),
        (["bench", "--method", "best"], "exact, rejection, dual-pivot or all"),
        (["sample", "FILE", "--method", "all"], "exact, rejection or dual-pivot"),
        (["sample", "FILE", "--trace", "/nonexistent/trials"], "No such file"),
        (["sample", "FILE", "--trace", "/"], "directory"),
        (["sample", "FILE", "--trace", "/dev/full"], "--trace /dev/full: it cannot be written"),
        (["sample", "FILE", "--trace", "/dev/full", "--method", "rejection"], "it cannot be written"),
        (["sample", "FILE", "--trace", "-"], "standard output"),
        (["sample", "FILE", "--trace", ""], "name of a file"),
        (["sample", "FILE", "--trace", "FILE"], "file which this command reads"),
        (["sample", "FILE", "--backend", "gpu"], "auto, cpu, cuda or reference"),
        (["sample", "FILE", "--isa", "sse"], "auto, portable, avx2 or avx512"),
        (["sample", "FILE", "--threads", "-1"], "not within"),
        (["sample", "FILE", "--vocab", "/nonexistent"], "No such file"),
        (["sample", "FILE", "--vocab", "/"], "regular file"),
        (["sample", "FILE", "--joint"], "--joint needs"),
        (["sample", "FILE", "--joint", "--top-k", "3"], "--joint needs"),
        (["sample", "FILE", "--joint", "--top-k", "3", "--top-p", "1", "--top-k", "2"], "--joint needs"),
        (["sample", "FILE"] + ["--top-k", "3"] * 17, "more than 16 steps"),
        (["sample", "FILE", "--kind", "probabilities", "--temperature", "1"], "--temperature"),
        (["sample", "FILE", "--method", "rejection", "--top-k", "3", "--temperature", "1"], "temperature"),
        (["bench", "--vocab-size", "0"], "not within 1 .. 4194304"),
        (["bench", "--distribution", "flat"], "zipf"),
        (["bench", "--repeats", "0"], "not within"),
    ],
)
def test_bad_options(logits, arguments, reason):
    assert reason in refusal(*[logits if a == "FILE" else a for a in arguments])


def test_help_and_version():
    assert re.fullmatch(r"tombola \d+\.\d+\.\d+\n", output("--version"))
    assert "tombola sample FILE.npy" in output("--help")
    for command in "sample", "show", "bench", "info":
        text = output(command, "--help")
        assert text.startswith(f"Usage: tombola {command} ") and "--temperature T" in text
        assert text == output(command, "-h")
    assert "--probs" in output("sample", "--help") and "--probs" not in output("show", "--help")


@pytest.mark.parametrize("what", ["sample", "help"])
def test_standard_output_full(logits, what):
    with open("/dev/full", "w") as full:
        done = run("sample", logits if what == "sample" else "--help", stdout=full)
    assert done.returncode == 2 and done.stderr.startswith(b"tombola: ") and done.stderr.count(b"\n") == 1


def test_numbers_are_rounded_once(save):
    """A decimal just below the midpoint of two floats: through a double it would go to the upper one."""
    path = save(np.array([1, 0.5 + 2**-24], np.float32))
    below_midpoint = "0.5000000894069671630859374999999999"
    [row] = rows(path, "--kind", "probabilities", "--min-p", below_midpoint)
    assert row["kept_count"] == 2
    [row] = rows(path, "--kind", "probabilities", "--min-p", "0.50000012")
    assert row["kept_count"] == 1


def test_seeds(logits):
    drawn = {
        seed: [r["tokens"] for r in rows(logits, "--seed", seed)]
        for seed in ("0", "18446744073709551615", "0xffffffffffffffff", "4294967296", "7")
    }
    assert drawn["18446744073709551615"] == drawn["0xffffffffffffffff"]
    assert len({str(v) for v in drawn.values()}) == 4
    assert drawn["0"] == [r["tokens"] for r in rows(logits)]
    assert drawn["7"] != [r["tokens"] for r in rows(logits, "--seed", 7, "--offset", 1)]


# ---- the chain ----


def kept_by(row, steps):
    """What a chain keeps of a row without ties: the count, and the fraction of the mass, in binary64."""
    x = np.sort(row.astype(np.float64))[::-1]
    temperature, n, fraction = 1.0, len(x), 1.0
    for kind, value in steps:
        if kind == "temperature":
            temperature = value
            continue
        w = np.exp((x[:n] - x[0]) / temperature)
        by_k = value[0] if kind == "joint" else value if kind == "top-k" else n
        by_p = value[1] if kind == "joint" else value if kind == "top-p" else 1
        keep = np.arange(n) < by_k
        if by_p < 1:
            keep &= np.cumsum(w) - w < by_p * w.sum()
        if kind == "min-p":
            keep &= w >= value
        fraction *= w[keep].sum() / w.sum()
        n = int(keep.sum())
    return n, fraction


CHAINS = [
    [("top-k", 50), ("top-p", 0.5)],
    [("top-p", 0.5), ("top-k", 50)],
    [("temperature", 3), ("top-k", 50), ("top-p", 0.5)],
    [("top-k", 50), ("temperature", 3), ("top-p", 0.5)],
    [("top-k", 50), ("top-p", 0.5), ("temperature", 3)],
    [("top-p", 0.9), ("temperature", 0.3), ("top-p", 0.9), ("min-p", 0.1)],
    [("min-p", 0.05), ("top-p", 0.5), ("temperature", 0.5), ("top-p", 0.5)],
]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: " ".join(f"{k}={v}" for k, v in c))
def test_order_of_the_chain(logits, chain):
    arguments = [word for kind, value in chain for word in (f"--{kind}", value)]
    data = np.load(logits)
    for row in rows(logits, *arguments):
        count, fraction = kept_by(data[row["row"]], chain)
        assert row["kept_count"] == count
        assert math.isclose(row["kept_mass"], fraction, rel_tol=1e-5)


def test_chains_of_these_tests_differ(logits):
    """The tests above could not fail if the orders kept the same tokens."""
    data = np.load(logits)
    kept = {str([kept_by(row, chain) for row in data]) for chain in CHAINS}
    assert len(kept) == len(CHAINS) - 1  # a temperature at the end changes neither count nor fraction


@pytest.mark.parametrize(
    "arguments, chain",
    [
        (["--top-k", 50, "--top-p", 0.5, "--joint"], [("joint", (50, 0.5))]),
        (["--joint", "--top-k", 20, "--top-p", 0.4], [("joint", (20, 0.4))]),
        (
            ["--temperature", 2, "--top-k", 50, "--min-p", 0.1, "--joint", "--top-p", 0.5],
            [("temperature", 2), ("joint", (50, 0.5)), ("min-p", 0.1)],
        ),
        (
            ["--top-p", 0.5, "--temperature", 4, "--top-p", 0.9, "--top-k", 40],
            [("top-p", 0.5), ("temperature", 4), ("top-p", 0.9), ("top-k", 40)],
        ),
        (
            ["--top-k", 30, "--temperature", 4, "--top-p", 0.5, "--joint"],
            [("joint", (30, 0.5)), ("temperature", 4)],
        ),
    ],
)
def test_joint(logits, arguments, chain):
    data = np.load(logits)
    joined = rows(logits, *arguments)
    for row in joined:
        count, fraction = kept_by(data[row["row"]], chain)
        assert row["kept_count"] == count
        assert math.isclose(row["kept_mass"], fraction, rel_tol=1e-5)
    if "--joint" in arguments:  # which then makes a difference
        apart = rows(logits, *[a for a in arguments if a != "--joint"])
        assert [r["kept_count"] for r in apart] != [r["kept_count"] for r in joined]


def test_ties(save):
    path = save(np.array([2, 1, 1, 1, 0], np.float32))
    assert rows(path, "--top-k", 2)[0]["kept_count"] == 4
    assert rows(path, "--top-k", 2, "--ties", "index")[0]["kept_count"] == 2


# ---- sample ----

KEYS = ["row", "tokens", "logprobs", "raw_logprobs", "ranks", "status", "kept_count", "kept_mass", "entropy"]


def test_json(save):
    array = np.random.default_rng(3).normal(0, 2, (6, 50)).astype(np.float32)
    array[1, 7] = np.nan
    array[2, [3, 4]] = np.inf
    array[3] = -np.inf
    array[4] = np.nan
    objects = rows(save(array), "--top-k", 5, "--draws", 3, "--rounds", "--probs")
    assert [o["row"] for o in objects] == list(range(6))
    for o in objects:
        assert list(o) == KEYS + ["rounds", "probs", "seconds"]
        for key in "tokens", "logprobs", "raw_logprobs", "ranks", "rounds":
            assert len(o[key]) == 3
        assert len(o["probs"]) == o["kept_count"]
        assert o["seconds"] > 0 and o["rounds"] == [0, 0, 0]
    assert [o["status"] for o in objects] == [[], ["nan"], ["pos_inf"], ["empty"], ["nan", "empty"], []]
    for o in objects[3:5]:
        assert o["tokens"] == [-1] * 3 and o["ranks"] == [0] * 3 and o["kept_count"] == 0
        assert o["logprobs"] == o["raw_logprobs"] == [None] * 3
        assert o["kept_mass"] is None and o["entropy"] is None
    infinite = objects[2]
    assert set(infinite["tokens"]) <= {3, 4} and infinite["kept_count"] == 2
    assert math.isclose(infinite["logprobs"][0], math.log(0.5), rel_tol=1e-6)


def test_json_values(logits):
    """Log-probabilities, ranks and entropy against binary64."""
    data = np.load(logits).astype(np.float64)
    for o in rows(logits, "--temperature", 0.7, "--top-k", 30, "--seed", 11, "--draws", 4):
        x = data[o["row"]]
        p = np.exp(x - x.max())
        kept = np.argsort(-x)[:30]
        q = np.exp((x[kept] - x.max()) / 0.7)
        q /= q.sum()
        assert math.isclose(o["entropy"], -(q * np.log(q)).sum(), rel_tol=1e-5)
        for token, logprob, raw, rank in zip(o["tokens"], o["logprobs"], o["raw_logprobs"], o["ranks"]):
            [place] = np.flatnonzero(kept == token)
            assert rank == place + 1
            assert math.isclose(logprob, math.log(q[place]), rel_tol=1e-4, abs_tol=1e-5)
            assert math.isclose(raw, math.log(p[token] / p.sum()), rel_tol=1e-4, abs_tol=1e-5)


def test_probs(logits):
    for o in rows(logits, "--top-p", 0.8, "--probs"):
        probs = [t["prob"] for t in o["probs"]]
        assert len(probs) == o["kept_count"] == len({t["id"] for t in o["probs"]})
        assert probs == sorted(probs, reverse=True) and math.isclose(sum(probs), 1, rel_tol=1e-4)
        assert all(list(t) == ["id", "prob"] for t in o["probs"])
        [drawn] = [t["prob"] for t in o["probs"] if t["id"] == o["tokens"][0]]
        assert math.isclose(math.log(drawn), o["logprobs"][0], rel_tol=1e-4, abs_tol=1e-6)


def test_probabilities(save):
    path = save(np.array([[0.1, 0.2, 0.7], [3, 0, -1], [0, 0, 0]], np.float32))
    first, second, third = rows(path, "--kind", "probabilities", "--probs")
    assert [t["id"] for t in first["probs"]] == [2, 1, 0]
    assert first["entropy"] is None and first["status"] == []
    assert second["tokens"] == [0] and second["status"] == ["negative"]
    assert third["status"] == ["empty"]


def test_parameters_that_make_a_row_void(logits):
    for parameter in ["--temperature", "nan"], ["--temperature", "-1"], ["--min-p", "NAN"]:
        assert all(r["status"] == ["bad_param"] and r["tokens"] == [-1] for r in rows(logits, *parameter))
    assert all(r["logprobs"][0] == pytest.approx(-math.log(1000)) for r in rows(logits, "--temperature", "inf"))
    assert all(r["ranks"] == [1] for r in rows(logits, "--temperature", "0"))


def test_methods(logits):
    for method in "rejection", "dual-pivot":
        chain = ["--temperature", 2, "--top-k", 10, "--method", method, "--draws", 50, "--rounds"]
        for row in rows(logits, *chain):
            assert min(row["rounds"]) >= 1 and max(row["rounds"]) > 1
            assert max(row["ranks"]) <= 10


def test_trace(logits, tmp_path):
    """Every trial is written, and the accepted ones are the tokens. tests/proof compares what they hold."""
    path = tmp_path / "trials.jsonl"
    for method in "exact", "rejection", "dual-pivot":
        chain = ["--top-k", 10, "--method", method, "--draws", 20, "--rounds"]
        plain, traced = rows(logits, *chain), rows(logits, *chain, "--trace", path)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for a, b in zip(plain, traced, strict=True):
            a["seconds"] = b["seconds"] = None
            assert a == b
            mine = [line for line in lines if line["row"] == a["row"]]
            assert mine[0]["event"] == "row" and mine[0]["method"] == method
            assert len(mine[0]["tokens"]) == mine[0]["count"] == (10 if method == "exact" else 1000)
            trials = mine[1:]
            ends = [t for t in trials if t["event"] == "draw" or t["verdict"] == "accept"]
            assert [t["token"] for t in ends] == a["tokens"]
            assert len(trials) == max(sum(a["rounds"]), 20)


def test_trace_spares_files(logits, save, tmp_path):
    """The trace's file is not touched when the command is wrong, or reads it, by whatever name."""
    path = tmp_path / "trials.jsonl"
    path.write_text("what was there")
    wrong = [["--method", "rejection", "--top-k", 3, "--temperature", 1],
             ["--row", 5], ["--seed", "x"]]
    for options in wrong:
        refusal("sample", logits, "--trace", path, *options)
        assert path.read_text() == "what was there"
        refusal("sample", logits, "--trace", tmp_path / "new", *options)
        assert not (tmp_path / "new").exists()
    vocab = save(b"a\n" * 1000, "vocab.txt")  # found beside the rows
    other = save(b"b\n" * 1000, "other.txt")
    (tmp_path / "soft").symlink_to(logits)
    (tmp_path / "hard").hardlink_to(logits)
    before = [p.read_bytes() for p in (logits, vocab, other)]
    for trace, *options in ([logits], [tmp_path / "soft"], [tmp_path / "hard"], [vocab], [other, "--vocab", other]):
        assert "file which this command reads" in refusal("sample", logits, "--trace", trace, *options)
    assert [p.read_bytes() for p in (logits, vocab, other)] == before
    # a longer file is emptied first, and what is no regular file is written to
    path.write_text("\n".join(["old"] * 10000))
    rows(logits, "--row", 0, "--trace", path)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    rows(logits, "--row", 0, "--trace", "/dev/null")


def test_row_streams(logits):
    """A row's tokens do not depend on whether its neighbours are drawn too."""
    for more in ["--draws", 5], ["--draws", 5, "--method", "rejection"], ["--draws", 2, "--probs", "--threads", 2]:
        together = rows(logits, "--top-p", 0.95, "--seed", 9, *more)
        for expected in together:
            [alone] = rows(logits, "--top-p", 0.95, "--seed", 9, "--row", expected["row"], *more)
            expected["seconds"] = alone["seconds"] = None
            assert alone == expected
    # equal rows of logits get different tokens: the stream is the row's number
    assert len({tuple(r["tokens"]) for r in together}) == len(together)


def test_rows_of_several_calls(save):
    """So many rows that one call does not hold them."""
    array = np.random.default_rng(4).normal(0, 1, (48, 1 << 18)).astype(np.float16)
    path = save(array)
    chain = ["--temperature", 0.2, "--top-k", 20, "--seed", 5]
    many = rows(path, *chain, "--probs")  # 2 + 8 bytes per logit: three calls
    few = rows(path, *chain)
    assert [r["row"] for r in many] == list(range(48))
    assert [r["tokens"] for r in many] == [r["tokens"] for r in few]
    assert [r["tokens"] for r in rows(path, *chain, "--row", 40)] == [few[40]["tokens"]]


def test_table(save, tmp_path):
    array = np.full((3, 4), -np.inf, np.float32)
    array[0, 2] = 0
    array[1, 3] = 0
    (tmp_path / "vocab.txt").write_text('a\nb\n 日本"\n\\x1b[31m\\xff\\n\n', encoding="utf-8")
    heading, first, second, third = output("sample", save(array)).splitlines()
    assert heading.split() == ["row", "token", "text", "logprob", "rank", "kept", "mass"]
    assert first.split()[:2] == ["0", "2"] and '" 日本\\""' in first and first.endswith("100.00 %")
    assert '"\\x1B[31m\\xFF\\n"' in second  # no control character reaches the terminal
    assert third.split() == ["2", "-", "-", "-", "-", "0", "-", "empty"]


# ---- backends ----

BACKENDS = [
    ("auto", "auto"),
    ("cpu", "portable"),
    ("cpu", "avx2"),
    ("cpu", "avx512"),
    ("cuda", "auto"),
]


@functools.cache
def rows_of_chains(path, backend, isa):
    """All that several chains give, but the seconds."""
    chains = [
        [],
        ["--temperature", 0.8, "--top-k", 50, "--top-p", 0.9],
        ["--top-k", 50, "--top-p", 0.9, "--joint", "--method", "dual-pivot", "--rounds"],
        ["--min-p", 0.05, "--temperature", 1.5, "--ties", "index", "--draws", 3],
    ]
    execution = ["--backend", backend, "--isa", isa, "--seed", 7]
    return [{**row, "seconds": None} for chain in chains for row in rows(path, *chain, *execution)]


@pytest.mark.parametrize("backend, isa", BACKENDS, ids=lambda v: v)
def test_same_results_everywhere(logits, backend, isa):
    """On real logits where they are at hand."""
    info = output("info")
    if backend == "cuda" and re.search(r"cuda +-\n", info):
        pytest.skip("this machine or build has no CUDA")
    if isa != "auto" and not re.search(rf"{isa} +(in use|available)\n", info):
        pytest.skip(f"this machine or build lacks {isa}")
    path = GEMMA if GEMMA.is_file() else logits
    assert rows_of_chains(path, backend, isa) == rows_of_chains(path, "reference", "auto")


def test_missing_backend_and_isa(logits):
    info = output("info")
    if re.search(r"cuda +-\n", info):
        assert "CUDA" in refusal("sample", logits, "--backend", "cuda")
    lacking = re.findall(r"(avx2|avx512) +not on this machine", info)
    for isa in lacking:
        assert isa in refusal("sample", logits, "--isa", isa)
    assert "TOMBOLA_ISA" in refusal("sample", logits, env={"TOMBOLA_ISA": "sse"})


# ---- vocabularies ----


def test_vocab_escapes(save, tmp_path):
    path = save(np.eye(7, dtype=np.float32) * 100)
    vocab = tmp_path / "texts"
    vocab.write_bytes(b"\\n\\r\\t\n\\\\n\n\\xe6\\x97\\xA5\n\\xff\\x41\n\n\xe6\x9c\xac\n\\x00")
    texts = [r["texts"] for r in rows(path, "--vocab", vocab, "--temperature", 0)]
    assert texts == [["\n\r\t"], ["\\n"], ["日"], ["\ufffdA"], [""], ["本"], ["\0"]]
    [row] = rows(path, "--vocab", vocab, "--row", 2, "--top-k", 1, "--probs")
    assert row["probs"] == [{"id": 2, "text": "日", "prob": 1}]


@pytest.mark.parametrize("line", ["\\", "\\q", "\\x", "\\x4", "\\xg0", "a\\"])
def test_bad_vocab_escapes(save, tmp_path, line):
    (tmp_path / "texts").write_text(f"good\n{line}\nmore\n")
    message = refusal("sample", save(np.zeros(3, np.float32)), "--vocab", tmp_path / "texts")
    assert "line 2" in message
    # found beside the file it is no error, only not used
    (tmp_path / "vocab.txt").write_text(f"good\n{line}\nmore\n")
    assert "texts" not in rows(save(np.zeros(3, np.float32)))[0]


def test_vocab_sizes(save, tmp_path):
    path = save(np.array([0, 0, 9], np.float32))
    for lines, beside, given in (2, None, [None]), (3, ["c"], ["c"]), (4, None, "more than"), (0, None, "0 lines"):
        text = "".join(f"{c}\n" for c in "abcd"[:lines])
        (tmp_path / "vocab.txt").write_text(text)
        (tmp_path / "texts").write_text(text)
        assert rows(path, "--temperature", 0)[0].get("texts") == beside
        if isinstance(given, str):
            assert given in refusal("sample", path, "--vocab", tmp_path / "texts")
        else:
            assert rows(path, "--temperature", 0, "--vocab", tmp_path / "texts")[0]["texts"] == given


def test_vocab_beside_a_file_in_this_folder(save, tmp_path):
    save(np.array([0, 9], np.float32))
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    assert rows("logits.npy", "--temperature", 0, cwd=tmp_path)[0]["texts"] == ["b"]


# ---- show ----


@pytest.fixture
def staircase(save, tmp_path):
    """Probabilities 1/2, 1/4, 1/8 ..., whose cuts can be counted by hand."""
    (tmp_path / "vocab.txt").write_text("".join(f"word{i}\n" for i in range(40)))
    return save(-np.arange(40, dtype=np.float32)[None] * np.float32(math.log(2)))


def test_show(staircase):
    text = output("show", staircase, "--top-k", 9, "--min-p", 0.03, "--top-p", 0.9)
    lines = text.splitlines()
    assert lines[0].startswith("row 0 of ") and lines[0].endswith(", 40 tokens")

    def line(start):
        [found] = [l for l in lines if re.match(start, l)]
        return found

    assert line(r" *before the chain").split()[3:] == ["40", "1.386", "100.0", "%", "█" * 16]
    assert line(r" *1 top-k 9 ").split()[3:5] == ["9", "99.80"]
    assert line(r" *2 min-p 0.03 ").split()[3:5] == ["6", "98.63"]
    assert line(r" *3 top-p 0.9 ").split()[3:5] == ["4", "95.24"]
    assert re.search(r' 1 +0  "word0" +50.00 % +53.33 % +50.79 % +█+▓+', text)
    # each cut token stands under the step that cuts it, with the reason
    rules = [i for i, l in enumerate(lines) if l.startswith("──")]
    assert [re.match(r"── cut by (\d) (\S+ \S+): (\d+) token", lines[i]).groups() for i in rules] == [
        ("3", "top-p 0.9", "2"),
        ("2", "min-p 0.03", "3"),
        ("1", "top-k 9", "31"),
    ]
    cut = [[l for l in lines[a:b] if '"word' in l] for a, b in zip(rules, rules[1:] + [len(lines)])]
    assert [len(c) for c in cut] == [2, 3, 3]
    assert '"word4"' in cut[0][0] and "95.24 % above it" in cut[0][0]
    assert '"word6"' in cut[1][0] and "0.01562 of the greatest" in cut[1][0]
    assert '"word9"' in cut[2][0] and "9 are greater" in cut[2][0]
    assert "28 more" in text


def test_show_greedy_and_top(staircase):
    text = output("show", staircase, "--temperature", 0)
    assert "cut by 1 temperature 0: 39 tokens" in text and "greedy" in text
    text = output("show", staircase, "--top", 3)
    assert '"word2"' in text and '"word3"' not in text and "37 more" in text and "cut by" not in text


def test_show_void_and_odd_rows(save):
    path = save(np.array([[-np.inf] * 4, [0, np.nan, -np.inf, 1], [0, np.inf, np.inf, 1]], np.float32))
    assert "nothing can be drawn" in output("show", path)
    text = output("show", path, "--row", 1)
    assert "2 of them out from the start" in text and "nan" in text
    text = output("show", path, "--row", 2)
    assert "pos_inf" in text and text.count("50.00 %") >= 4
    assert "bad_param" in output("show", path, "--row", 1, "--top-p", "nan")
    path = save(np.array([0.5, 0, 0.25, -1], np.float32))
    assert "66.67 %" in output("show", path, "--kind", "probabilities", "--top-p", 0.5)


@pytest.mark.parametrize("columns", [20, 52, 60, 80, 132])
def test_show_fits_the_terminal(staircase, columns):
    coloured = on_terminal(columns, "show", staircase, "--top-k", 9, "--min-p", 0.03, "--top-p", 0.9, "--temperature", 2)
    assert "\x1b[" in coloured
    body = without_colours(coloured).splitlines()[1:]  # the first line holds a path of any length
    assert max(map(len, body)) <= max(columns, 52)
    bars = [len(re.sub(r"[^▏▎▍▌▋▊▉█▓░]", "", l)) for l in body if '"word0"' in l]
    assert bars[0] >= 8


def test_colours_only_where_wanted(staircase):
    assert "\x1b" not in output("show", staircase)
    assert "\x1b" not in on_terminal(80, "show", staircase, env={"NO_COLOR": "1"})
    assert "\x1b" not in on_terminal(80, "show", staircase, env={"TERM": "dumb"})
    assert "\x1b" in on_terminal(80, "show", staircase, env={"NO_COLOR": ""})


# ---- bench and info ----


@pytest.mark.parametrize("distribution", ["zipf", "n01", "n05", "equal", "ascending", "descending", "two", "masked", "three"])
def test_bench(distribution):
    """Every chain on every kind of row: the baseline, another program, draws the same tokens."""
    for more in ["--batch", 3], ["--dtype", "f16", "--ties", "index"], ["--dtype", "bf16", "--temperature", 0.7, "--top-k", 9, "--top-p", 0.8, "--joint"]:
        text = output("bench", "--vocab-size", 2000, "--repeats", 3, "--distribution", distribution, *more)
        counts = re.findall(r" (\d+)/(\d+)$", text, re.M)
        assert len(counts) == (1 if "--joint" in more else 6)
        assert all(same == of and int(of) >= 3 for same, of in counts), text
        assert all(float(ratio) > 0 for ratio in re.findall(r"([\d.]+)x ", text))


def test_bench_methods():
    text = output("bench", "--vocab-size", 2000, "--repeats", 3, "--method", "all", "--top-k", 5, "--top-p", 0.5)
    heading, line = text.splitlines()[-2:]
    assert heading.split()[3:] == ["exact", "rejection", "rounds", "most", "dual-pivot", "rounds", "most"]
    exact, *others = map(float, re.split(" {2,}", line)[1:])
    for microseconds, rounds, most in others[:3], others[3:]:
        assert microseconds > 0 and 1 <= rounds <= most
    assert exact > 0
    text = output("bench", "--vocab-size", 2000, "--repeats", 1, "--method", "dual-pivot")
    assert "refused" in text.splitlines()[3] and "rejection" not in text  # a temperature after the filters
    assert "temperature after the last filter" in text.splitlines()[4]
    done = run("bench", "--vocab-size", 2000, "--repeats", 1, "--method", "all", "--top-k", 5, "--temperature", 2)
    assert done.returncode == 2 and b"temperature after the last filter" in done.stdout


def test_info():
    text = output("info", "--vocab-size", 1000, "--batch", 4, "--top-k", 5, "--threads", 2, "--isa", "portable")
    assert re.search(r"^tombola +\d+\.\d+\.\d+$", text, re.M)
    assert re.search(r"portable +in use", text) and "cuda" in text and "reference" in text
    assert re.search(r"^plan +4 x 1000 f32, top-k 5: cpu portable, 2 threads", text, re.M)
    assert json.dumps(output("info", "--backend", "reference")).count("plan") == 1
