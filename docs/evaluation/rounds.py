"""Trials of the article's two rejection methods over distributions and filters: writes data/rounds.json.

    python docs/evaluation/rounds.py [--quick]        needs numpy, and build/cli/tombola (or TOMBOLA_BIN)

Computed by the CPU backend; tokens and rounds are the same bits on every backend. For the single pivot the mean
over all random numbers is also computed from the row, by the formula of docs/proof.md, without drawing."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = os.environ.get("TOMBOLA_BIN", ROOT / "build" / "cli" / "tombola")
VOCAB = 128256
K_GRID = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
P_GRID = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
METHODS = ("rejection", "dual-pivot")
TAILS = (("n01", "top-k", 1), ("crowd", "top-k", 1), ("cliff", "top-k", 64))  # whole distributions, of one row
TAIL_OFFSETS, TAIL_DRAWS, TAIL_MOST = 8, 4096, 60


def zipf(generator):
    x = -1.6 * np.log(np.arange(1, VOCAB + 1)) + 0.3 * generator.normal(size=VOCAB)
    return generator.permutation(x)


def crowd(generator):
    """All tokens different, all weights within 1 % of each other: every cut falls among a crowd."""
    return generator.permutation(np.linspace(-0.01, 0, VOCAB))


def cliff(generator):
    """A crowd of half the weight of 64 tokens above it: the second pivot clears it at once, the first climbs."""
    x = np.append(np.linspace(-0.71, -0.70, VOCAB - 64), np.linspace(-0.001, 0, 64))
    return generator.permutation(x)


MADE = {"zipf": zipf, "n01": lambda g: g.normal(size=VOCAB), "n05": lambda g: 5 * g.normal(size=VOCAB),
        "crowd": crowd, "cliff": cliff}


def rows_of(name):
    if name == "gemma":
        return ROOT / "data" / "gemma3-270m" / "logits.npy"
    generator = np.random.default_rng(7)
    path = pathlib.Path(tempfile.gettempdir()) / f"tombola-rounds-{os.getpid()}-{name}.npy"
    np.save(path, np.stack([MADE[name](generator).astype(np.float32) for _ in range(4)]))
    return path


def measure(path, option, value, method, draws, *more):
    command = [BINARY, "sample", path, "--" + option, str(value), "--method", method, "--rounds", "--json", "--draws",
               str(draws), "--seed", "1", *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def single_pivot(x, kept):
    """The probabilities, for each class of equal tokens that is not kept, that it costs a trial."""
    values, counts = np.unique(x.astype(np.float64), return_counts=True)
    mass = np.exp(values - values[-1]) * counts
    not_below = mass[::-1].cumsum()[::-1]
    rejected = counts[::-1].cumsum()[::-1] > kept
    return mass[rejected] / not_below[rejected]


def summary(rounds, theory=None):
    r = np.concatenate(rounds)
    out = {"draws": int(r.size), "mean": float(r.mean()), "worst": int(r.max()),
           "counts": np.bincount(r).tolist()}
    if theory is not None:
        out["mean_by_formula"] = theory
    return out


def tail(name, option, value):
    """Of one row: how often each number of trials occurs, and its probability for one pivot, by the formula."""
    path = rows_of(name)
    out = {"distribution": name, "filter": option, "value": value, "counts": {}}
    for method in METHODS:
        rounds = []
        for offset in range(TAIL_OFFSETS):
            [row] = measure(path, option, value, method, TAIL_DRAWS, "--row", "0", "--offset", str(offset))
            rounds += row["rounds"]
        out["counts"][method] = np.bincount(rounds).tolist()
    probability = np.zeros(TAIL_MOST)
    probability[1] = 1
    for p in single_pivot(np.load(path)[0], row["kept_count"]):
        probability[1:] = probability[1:] * (1 - p) + probability[:-1] * p
    out["by_formula"] = probability.tolist()
    path.unlink()
    print(name, option, value, "tails", {m: len(c) - 1 for m, c in out["counts"].items()}, flush=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    figures = []
    for name in ("gemma", *MADE):
        path = rows_of(name)
        x = np.load(path, mmap_mode="r")
        for option, grid in (("top-k", K_GRID), ("top-p", P_GRID)):
            for value in grid[::4] if arguments.quick else grid:
                draws = max(20, 256 * 14 // len(x) // (16 if arguments.quick else 1))
                for method in METHODS:
                    done = measure(path, option, value, method, draws)
                    theory = None
                    if method == "rejection":
                        theory = float(np.mean([1 + single_pivot(row, o["kept_count"]).sum()
                                                for row, o in zip(x, done)]))
                    figures.append({"distribution": name, "filter": option, "value": value, "method": method,
                                    "rows": len(x), "vocab_size": x.shape[1],
                                    **summary([np.array(o["rounds"]) for o in done], theory)})
                    f = figures[-1]
                    print(name, option, value, method, f"mean {f['mean']:.2f} worst {f['worst']}",
                          f"formula {theory:.2f}" if theory else "", flush=True)
        if name != "gemma":
            path.unlink()
    result = {"date": datetime.date.today().isoformat(), "seed": 1,
              "what": "trials per draw; gemma: 14 recorded rows of 262144 tokens, the others: 4 rows of 128256",
              "figures": figures, "tails": [] if arguments.quick else [tail(*t) for t in TAILS]}
    (HERE / "data").mkdir(exist_ok=True)
    with open(HERE / "data" / "rounds.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(result).replace('{"distribution"', '\n{"distribution"'))
        file.write("\n")


if __name__ == "__main__":
    main()
