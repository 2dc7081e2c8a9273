"""The model of the proof is the library: on real rows it draws the same tokens in the same trials.

`tombola sample --trace` writes every trial of the reference; the model, with weights and random numbers from
tests/oracle (which shares nothing with the library), must give the same pivots, masses and verdicts. The tokens and
rounds of the CPU backend must be the same too."""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]

import floats as fl
import model
from exact import evaluate, most_of_two_pivots
from philox import PURPOSE_REJECTION, random64
from weights import Row

BINARY = pathlib.Path(os.environ.get("TOMBOLA_BIN", HERE.parents[1] / "build" / "cli" / "tombola")).resolve()
INDEX_BITS = 22
SEED, DRAWS = 11, 6
VERDICTS = {(True, False): "low = token, high = middle", (False, False): "low = middle"}


def rows_of(kind, size):
    """Rows that lead everywhere: flat and peaked, ties, neighbouring floats (whose weights are equal), rows with
    what is left out, and weights from 2^40 down to 0."""
    r = np.random.default_rng(5)
    zero_to = np.arange(size, dtype=np.uint32)
    rows = [r.normal(0, scale, size) for scale in (0.01, 1, 5)]
    rows += [np.round(r.normal(0, 2, size)), r.integers(0, 2, size), -27.7 * r.random(size) ** 0.2,
             -np.abs(r.standard_cauchy(size)) * 4]
    rows += [np.float32(1.5).view(np.uint32) + zero_to, r.permutation(np.float32(-3).view(np.uint32) + zero_to // 3)]
    rows = [x.astype(np.uint32).view(np.float32) if x.dtype == np.uint32 else x.astype(np.float32) for x in rows]
    holes = r.normal(0, 3, size).astype(np.float32)
    holes[::5], holes[1], holes[3], holes[4] = -np.inf, np.nan, -0.0, 0.0
    rows.append(holes)
    cliff = np.full(size, -27.6, np.float32) + np.arange(size, dtype=np.float32) * 2**-19  # weights of 1 or so
    cliff[size // 2] = 0
    rows.append(cliff)
    if kind == "probabilities":
        rows = [np.exp(np.nan_to_num(x, neginf=-200).astype(np.float64) - 3).astype(np.float32) for x in rows]
    return np.stack(rows)


CALLS = [(kind, ties, chain)
         for kind, ties in (("logits", "all"), ("logits", "index"), ("probabilities", "all"), ("probabilities", "index"))
         for chain in ([("top-k", 1)], [("top-k", 2)], [("top-k", 9)], [("top-p", 0.0)], [("top-p", 0.3)],
                       [("top-p", 0.9)], [("min-p", 0.5)], [("min-p", 0.97)], [("joint", 5, 0.4)],
                       [("top-k", 12), ("top-p", 0.5)], [("min-p", 0.01), ("top-k", 20), ("top-p", 0.2)],
                       [("temperature", 0.6), ("top-p", 0.05)],
                       [("top-k", 30), ("temperature", 3.0), ("top-k", 2)])
         if kind == "logits" or chain[0][0] != "temperature" and len(chain) < 3]


def options(chain):
    for step in chain:
        if step[0] == "joint":
            yield from ("--joint", "--top-k", str(step[1]), "--top-p", str(step[2]))
        else:
            yield from ("--" + step[0], str(step[1]))


def boundary_rows():
    """Rows on which high - w_j is 1, and 2, at a rejection: where the pivots turn from weights to keys, and where not
    yet. The greatest token weighs 2^40; a crowd far below it is drawn first (now and then), and the middle of the two
    becomes `high`; six tokens of different values (x is nothing beside the maximum, so that x - m is rounded to the
    same number) weigh 1, or 2, less than this middle. A search over floats found the numbers."""
    for gap, greatest, crowd in ((1, "0x1.62e06ap-1", "-0x1.38768ap+3"), (2, "0x1.62dcd2p-1", "-0x1.23059ep+3")):
        greatest, crowd = float.fromhex(greatest), float.fromhex(crowd)
        row = np.array([greatest] + [i * 2.0**-40 for i in range(6)] + [crowd] * 4000, np.float32)
        weight = model_of(row[[0, 1, 6, 7]], "logits", "all", [])[0].weight
        assert weight[0] == 1 << 40 and weight[1] == weight[2] == (weight[0] + weight[3]) // 2 - gap
        yield gap, row


def sample(folder, rows, draws, method, kind, ties, chain, *more):
    path = folder / "rows.npy"
    np.save(path, rows)
    command = [BINARY, "sample", path, "--method", method, "--kind", kind, "--ties", ties, "--seed", str(SEED),
               "--draws", str(draws), "--rounds", "--json", *options(chain), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def model_of(x, kind, ties, chain):
    """(what the chain keeps, the two samplers) with weights from the oracle."""
    bits = [struct.unpack("<I", struct.pack("<f", v))[0] for v in x]
    row = Row(kind, "f32", bits)
    by_index = ties == "index"
    position = [fl.key(v + 0.0) if i in row.k0 else 0 for i, v in enumerate(row.x)]
    if by_index:
        position = [p << INDEX_BITS | (1 << INDEX_BITS) - 1 - i for i, p in enumerate(position)]

    def weighed(temperature, tokens):
        weight = [row.weight_of(row.x[i], temperature) if i in row.k0 else 0 for i in range(len(row.x))]
        return model.Set(weight, position, lambda p: row.weight_of(
            fl.key_decode(p >> INDEX_BITS if by_index else p), temperature), tokens)
    k_set, steps = weighed(1.0, row.k0), []
    for step in chain:
        value = fl.round32(float(step[-1]))
        if step[0] == "temperature":
            for done in steps:
                k_set = model.keep(k_set, done)
            k_set, steps = weighed(value, k_set.tokens), []
        elif step[0] == "top-k":
            steps.append(("top_k", step[1]))
        elif step[0] == "joint":
            steps.append(("top_k_top_p", step[1], value))
        else:
            steps.append((step[0].replace("-", "_"), None, value))
    return k_set, steps


def place(p):
    return None if p is None or p == model.BELOW_ALL else list(p)


def replay(sampler, stream, draw):
    """The trials of one draw, in the form of the trace."""
    state = sampler.start()
    for round_ in range(1, 200):
        bits = random64(SEED, 0, stream, PURPOSE_REJECTION, draw, round_ - 1)
        tokens = sampler.candidates(state)
        token, u = model.draw(sampler.set, tokens, bits)
        trial = {"draw": draw, "round": round_, "random": f"0x{bits:016x}", "count": len(tokens),
                 "mass": sampler.set.mass(tokens), "u": u, "token": token, "low": place(state[0]),
                 "high": place(state[1]), "weight": sampler.set.weight[token],
                 "position": sampler.set.position[token]}
        following = sampler.next(state, token)
        if following is None:
            yield trial | {"middle": None, "verdict": "accept"}
            return
        if not sampler.dual:
            yield trial | {"middle": None, "verdict": "low = token"}
        else:
            _, middle = sampler.middle(state[1], token)
            verdict = "low = token, high = middle" if sampler.passes(middle) else "low = middle"
            yield trial | {"middle": place(middle), "verdict": verdict}
        state = following
    raise AssertionError("it does not end")


def compare(folder, kind, ties, chain, make=model.Sampler, rows=None, draws=DRAWS):
    """Runs a call with both methods and compares it with the model; returns the trials."""
    rows, trials = rows_of(kind, 40) if rows is None else rows, []
    for method in "rejection", "dual-pivot":
        path = folder / "trials.jsonl"
        reference = sample(folder, rows, draws, method, kind, ties, chain, "--backend", "reference", "--trace", path)
        cpu = sample(folder, rows, draws, method, kind, ties, chain)
        for a, b in zip(reference, cpu, strict=True):
            assert (a["tokens"], a["rounds"]) == (b["tokens"], b["rounds"])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        heads = {line["row"]: line for line in lines if line["event"] == "row"}
        assert sorted(heads) == list(range(len(rows)))
        traced = [line for line in lines if line["event"] == "trial"]
        for number, x in enumerate(rows):
            k_set, steps = model_of(x, kind, ties, chain)
            kept, single, dual = model.samplers(k_set, steps, make)
            sampler = dual if method == "dual-pivot" else single
            tokens = {t[0]: t[2] for t in heads[number]["tokens"]}
            assert tokens == {i: k_set.weight[i] for i in sampler.set.tokens}
            assert len(kept.tokens) == reference[number]["kept_count"]
            mine = [t for draw in range(draws) for t in replay(sampler, number, draw)]
            real = [line for line in traced if line["row"] == number]
            assert len(mine) == len(real)
            for m, r in zip(mine, real):
                assert m == {key: r[key] for key in m}, (number, m, r)
            ends = [m for m in mine if m["verdict"] == "accept"]
            assert reference[number]["tokens"] == [m["token"] for m in ends]
            assert reference[number]["rounds"] == [m["round"] for m in ends]
            trials += mine
    return trials


def test_replay(tmp_path):
    trials = [t for kind, ties, chain in CALLS for t in compare(tmp_path, kind, ties, chain)]
    assert len(trials) > 10000
    verdicts = {t["verdict"] for t in trials}
    assert verdicts == {"accept", "low = token", "low = token, high = middle", "low = middle"}
    assert {t["middle"][0] for t in trials if t["middle"]} == {"weight", "key"}
    assert {t["low"][0] for t in trials if t["low"]} == {"token", "weight", "key"}


def compare_at_boundary(folder, make=model.Sampler):
    """Both rows of the boundary; {the gap: how often a rejection had it}."""
    seen = {}
    for gap, row in boundary_rows():
        trials = compare(folder, "logits", "all", [("top-k", 2)], make, row[None], 200)
        seen[gap] = sum(t["high"] is not None and t["high"][0] == "weight" and t["high"][1] - t["weight"] == gap
                        and t["verdict"] != "accept" for t in trials)
    return seen


def test_replay_at_the_boundary(tmp_path):
    seen = compare_at_boundary(tmp_path)
    assert seen[1] > 0 and seen[2] > 0


def test_replay_of_long_draws(tmp_path):
    """A crowd of neighbouring values and one token of twice their weight: the middle lies above the whole crowd time
    after time, so that the second pivot removes nothing, and two pivots take as many trials as one."""
    x = np.sort(np.float32(-1).view(np.uint32) - 8 * np.arange(3000, dtype=np.uint32)).view(np.float32)
    row = np.append(np.random.default_rng(3).permutation(x), np.float32(-0.25))
    trials = compare(tmp_path, "logits", "all", [("top-k", 2)], rows=row[None], draws=100)
    most = {dual: max(t["round"] for t in trials if (t["high"] is not None) == dual) for dual in (False, True)}
    assert most == {False: 16, True: 16}


# ---- the comparison can fail ----

class RoundsUp(model.Sampler):
    """The middle rounded up: the probabilities are right all the same, as docs/proof.md says of any pivot."""

    def middle(self, high, token):
        high, (kind, at) = super().middle(high, token)
        low = self.set.weight[token] if kind == "weight" else self.set.position[token]
        return high, (kind, low + (high[1] - low + 1) // 2)


class NeverTurns(model.Sampler):
    """Stays among the weights where they no longer tell the two apart."""

    def middle(self, high, token):
        weight = self.set.weight[token]
        if high[0] == "weight" and high[1] - weight < 2:
            return high, ("weight", weight)
        return super().middle(high, token)


class DrawsAtLow(model.Sampler):
    """Draws the rejected token, too, once more."""

    def candidates(self, state):
        tokens = super().candidates(state)
        return sorted(tokens + [state[0][1]]) if state[0][0] == "token" else tokens


@pytest.mark.parametrize("mutant", [RoundsUp, NeverTurns, DrawsAtLow])
def test_wrong_models_are_caught(tmp_path, mutant):
    caught = 0
    for kind, ties, chain in CALLS[::2]:
        try:
            compare(tmp_path, kind, ties, chain, mutant)
        except AssertionError:
            caught += 1
    assert caught > 0


def turns_below(limit):
    class Turns(model.Sampler):
        """Turns from weights to keys where high - w_j < limit, which is not 2."""

        def middle(self, high, token):
            if high[0] == "weight" and high[1] - self.set.weight[token] < limit:
                high = "key", self.set.position[self.set.greatest]
            at = self.set.weight[token] if high[0] == "weight" else self.set.position[token]
            return high, (high[0], at + (high[1] - at) // 2)
    return Turns


@pytest.mark.parametrize("limit", [1, 3])
def test_wrong_boundaries_are_caught(tmp_path, limit):
    with pytest.raises(AssertionError):
        compare_at_boundary(tmp_path, turns_below(limit))
    compare_at_boundary(tmp_path, turns_below(2))  # and the right one is not


# ---- the bounds are nearly reached, and the single pivot has none ----

def test_most_trials():
    """Seventy tokens of weight 1 with neighbouring keys, far below the greatest in weight (2^40) and in value: the
    second pivot falls half of the way each time, 39 times among weights and 31 times among keys."""
    low = np.float32(-1.7e38).view(np.uint32)  # keys of negative numbers fall as their bits rise
    x = (low - np.arange(71, dtype=np.uint32)).view(np.float32)
    x = np.append(x, np.float32(1.7e38))
    temperature = 1.243e37
    k_set, steps = model_of(x, "logits", "all", [("temperature", temperature), ("top-k", 2)])
    assert k_set.weight == [1] * 71 + [1 << 40]
    _, single, dual = model.samplers(k_set, steps)
    assert evaluate(dual).most == most_of_two_pivots(dual.set) == 71
    assert evaluate(single).most == 71  # as many as tokens are rejected, and one


def test_one_pivot_has_no_bound_but_the_tokens():
    for size in 50, 100, 200:
        x = np.float32(1).view(np.uint32) + np.arange(size, dtype=np.uint32)
        k_set, steps = model_of(x.view(np.float32), "logits", "all", [("top-k", 1)])
        _, single, dual = model.samplers(k_set, steps)
        assert evaluate(single).most == size
        assert evaluate(dual).most <= size.bit_length() + 1  # their keys are neighbours: the span is `size`
