"""The test vectors through every function of the package: every parameter and every output, to the bit."""

import json

import numpy as np
import pytest
from arrays import ROOT

import tombola

WIDTHS = {"f32": 8, "f16": 4, "bf16": 4}
STEPS = {
    "temperature": (tombola.Temperature, ("value",)),
    "top_k": (tombola.TopK, ("k",)),
    "top_p": (tombola.TopP, ("value",)),
    "min_p": (tombola.MinP, ("value",)),
    "top_k_top_p": (tombola.TopKTopP, ("k", "value")),
}
FILES = sorted((ROOT / "tests" / "vectors").glob("*.jsonl"))


def words(text, width):
    dtype = {8: np.uint32, 4: np.uint16}[width]
    return np.array([int(text[i : i + width], 16) for i in range(0, len(text), width)], dtype)


def f32(text):
    return np.array([int(text, 16)], np.uint32).view(np.float32)


def chain_of(lib, steps, per_row):
    """The chain with scalars, or with one value per row; what only a row can have (NaN) always is the latter."""
    made = []
    for step in steps:
        kind, fields = STEPS[step["step"]]
        values = []
        for field in fields:
            if field == "k":
                value = np.array([step["k"]], np.int32)
                scalar = int(step["k"])
            else:
                value = f32(step["value"])
                scalar = float(value[0])
            refused = np.isnan(value[0]) or (kind is tombola.Temperature and value[0] < 0)
            values.append(lib.array(value) if per_row or refused else scalar)
        made.append(kind(*values))
    return tombola.Chain(made)


def draw_of(lib, call, per_row):
    if call["random"] is not None:
        return {"random": lib.array(np.array([call["random"]], np.uint64))}
    seed, offset = int(call["seed"]), int(call["offset"])
    draw = {"streams": lib.array(np.array([call["stream"]], np.uint32))}
    if per_row:
        return {**draw, "seed": lib.array(np.array([seed], np.uint64)), "offset": lib.array(np.array([offset], np.uint64))}
    return {**draw, "seed": seed, "offset": offset}


def check(lib, call, per_row):
    expect = call["expect"]
    x = lib.rows(words(call["row"], WIDTHS[call["dtype"]])[None, :], call["dtype"])
    how = {"chain": chain_of(lib, call["chain"], per_row), "kind": call["kind"], "ties": call["ties"]}

    def ints(array):
        return lib.numpy(array)[0].tolist()

    def hexes(array):
        return [f"{bits:08x}" for bits in lib.bits(array)[0].tolist()]

    result = tombola.sample(
        x,
        **how,
        **draw_of(lib, call, per_row),
        method=call["method"],
        num_samples=call["draws"],
        return_logprobs=True,
        return_raw_logprobs=True,
        return_ranks=True,
        return_rounds=True,
        return_kept=call["kept_capacity"],
        return_status=True,
    )
    assert ints(result.tokens) == expect["tokens"]
    assert ints(result.ranks) == expect["ranks"]
    assert ints(result.rounds) == expect["rounds"]
    assert hexes(result.logprobs) == expect["logprobs"]
    assert hexes(result.raw_logprobs) == expect["raw_logprobs"]
    assert ints(result.kept_ids) == expect["kept_ids"]
    assert int(result.kept_counts[0]) == expect["kept_count"]
    assert int(result.status[0]) == expect["status"]

    kept = tombola.select(x, **how, capacity=call["kept_capacity"], return_mass=True)
    assert ints(kept.ids) == expect["kept_ids"]
    assert int(kept.counts[0]) == expect["kept_count"]
    assert int(kept.mass[0]) == int(expect["kept_mass"])
    assert int(kept.total_mass[0]) == int(expect["total_mass"])

    assert "".join(hexes(tombola.renorm(x, **how))) == expect["probabilities"]
    width = WIDTHS[call["dtype"]]
    assert "".join(f"{b:0{width}x}" for b in lib.bits(tombola.mask(x, **how))[0].tolist()) == expect["masked"]

    ids = lib.array(np.array([call["given_ids"]], np.int32))
    top = tombola.logprobs(x, ids, top=call["top_n"], raw=call["top_raw"], **how, return_entropy=True)
    assert ints(top.top_ids) == expect["top_ids"]
    assert hexes(top.top_logprobs) == expect["top_logprobs"]
    assert hexes(top.logprobs) == expect["given_raw_logprobs" if call["top_raw"] else "given_logprobs"]
    assert f"{int(lib.bits(top.entropy)[0]):08x}" == expect["entropy"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_vectors(lib, file):
    assert FILES, "the vectors are missing"
    for number, line in enumerate(file.read_text().splitlines()):
        call = json.loads(line)
        try:
            check(lib, call, per_row=number % 2 == 1)
        except AssertionError as error:
            raise AssertionError(f"{call['name']}: {error}") from error
