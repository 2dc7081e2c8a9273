"""Checks of the oracle itself: against published numbers, exact arithmetic and results worked out by hand."""

import json
import math
import pathlib
import random
import struct
import sys
from fractions import Fraction

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import floats as fl
import methods
import oracle
import rows
from chain import State, apply_step, parse_step
from philox import philox4x32_10, random64
from vector_parts import min_p, temperature, top_k, top_k_top_p, top_p
from weights import LOG2E, ONE, Row, exp_and_weight

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
INF, NAN = fl.INF, fl.NAN


def call(values, chain=(), **fields):
    """A call on a row of numbers; `expect` comes from oracle.run."""
    dtype = fields.get("dtype", "f32")
    base = {"kind": "logits", "dtype": dtype, "row": rows.hex_row(values, dtype),
            "chain": list(chain), "ties": "all", "method": "exact", "draws": 1, "seed": "7",
            "offset": "0", "stream": 0, "random": None, "kept_capacity": len(values), "top_n": 2,
            "top_raw": False, "given_ids": []}
    return {**base, **fields}


def kept(values, chain=(), **fields):
    result = oracle.run(call(values, chain, **fields))
    return [i for i in result["kept_ids"] if i >= 0]


def f32s(texts):
    return [fl.f32_from_bits(int(text, 16)) for text in texts]


# ---------------------------------------------------------------- floats

def test_round32_is_the_conversion_of_the_machine():
    r = random.Random(1)
    for _ in range(20000):
        value = math.ldexp(r.getrandbits(53) - (1 << 52), r.randrange(-220, 70))
        try:
            expected = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            expected = math.copysign(INF, value)
        assert fl.round32(value) == expected
    assert fl.round32(Fraction(1, 1 << 150)) == 0.0                  # a tie goes to even
    assert fl.round32(Fraction(3, 1 << 150)) == math.ldexp(2, -149)
    assert fl.round32(Fraction((1 << 25) - 1) * 2 ** 103) == INF     # halfway past the largest


def test_round64_is_exact_division():
    r = random.Random(2)
    for _ in range(5000):
        n, d = r.getrandbits(120) + 1, r.getrandbits(100) + 1
        assert fl.round64(Fraction(n, d)) == n / d
        assert fl.round64(n) == float(n)


def test_f32_operations():
    r = random.Random(3)

    def some():
        return fl.f32_from_bits(r.getrandbits(32) & 0xBFFFFFFF)

    for _ in range(5000):
        a, b = some(), some()
        assert fl.mul32(a, b) == fl.round32(a * b)                   # 48 bits fit binary64
        assert fl.add32(a, b) == fl.round32(Fraction(a) + Fraction(b))
    assert fl.fma32(1 + 2.0 ** -23, 1 - 2.0 ** -23, -1.0) == -2.0 ** -46
    assert fl.fma64(1 + 2.0 ** -52, 1 - 2.0 ** -52, -1.0) == -2.0 ** -104
    assert [fl.rint(v) for v in (-0.5, -1.5, -2.5, 0.5, -0.75)] == [0, -2, -2, 0, -1]


def test_halves():
    for bits in range(1 << 16):
        x, expected = fl.widen(bits, "f16"), struct.unpack("<e", struct.pack("<H", bits))[0]
        assert x == expected or (math.isnan(x) and math.isnan(expected))
        if not math.isnan(x):
            assert rows.to_bits(x, "f16") == bits
            assert math.copysign(1, x) == math.copysign(1, expected)
        x = fl.widen(bits, "bf16")
        if not math.isnan(x):
            assert rows.to_bits(x, "bf16") == bits


def test_key_keeps_order():
    r = random.Random(4)
    values = sorted(x for x in (fl.f32_from_bits(r.getrandbits(32)) for _ in range(2000)) if x == x)
    keys = [fl.key(x + 0.0) for x in values]
    assert keys == sorted(keys)
    assert [fl.key_decode(k) for k in keys] == values
    assert fl.key(-0.0 + 0.0) == fl.key(0.0) == 0x80000000


def test_log2d_accuracy():
    mp = pytest.importorskip("mpmath")
    mp.mp.prec = 200
    exact = [Fraction(int(mp.floor(mp.ldexp(2 / mp.log(2) / (2 * k + 1), 190))), 1 << 190)
             for k in range(10)]
    assert [float(c) for c in exact] == list(fl.LOG2D_C)
    r, worst = random.Random(5), mp.mpf(0)
    ulps = [1 + n * 2.0 ** -52 for n in range(1, 200)] + [1 - n * 2.0 ** -53 for n in range(1, 200)]
    near = [1 + math.ldexp(r.random() - 0.5, -r.randrange(52)) for _ in range(6000)]
    edge = [fl.SQRT2D * 2.0 ** e * (1 + n * 2.0 ** -52) for e in (-1, 0) for n in range(-100, 100)]
    far = [math.ldexp(1 + r.random(), r.randrange(-64, 64)) for _ in range(6000)]
    for x in ulps + near + edge + far:
        if x != 1:
            truth = mp.log(mp.mpf(x), 2)
            worst = max(worst, abs((fl.log2d(x) - truth) / truth))
    print("worst relative error of log2d: 2^", mp.nstr(mp.log(worst, 2), 6))
    assert worst <= mp.mpf(2) ** -46
    assert fl.log2d(1.0) == 0 and fl.log2d(0.0) == -INF
    assert all(fl.log2d(2.0 ** e) == e for e in range(-64, 65))


# ---------------------------------------------------------------- Philox

def test_philox_known_answers():
    """From the kat_vectors of Random123 (philox4x32, 10 rounds)."""
    ones = 0xFFFFFFFF
    assert philox4x32_10((0, 0, 0, 0), (0, 0)) == (
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox4x32_10((ones,) * 4, (ones,) * 2) == (
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    assert philox4x32_10((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
                         (0xA4093822, 0x299F31D0)) == (
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def test_random64_words():
    out = philox4x32_10((0x55667788, 0x11223344, 9, 1 << 28 | 5 << 16 | 3), (0xDDEEFF00, 0x99AABBCC))
    r = random64(0x99AABBCCDDEEFF00, 0x1122334455667788, 9, 1, 5, 3)
    assert r == out[1] << 32 | out[0]
    assert random64(1, 2, 3, 1, 0, 1 << 16) == random64(1, 2, 3, 1, 0, 0)


# ---------------------------------------------------------------- weights

def test_weight_properties():
    mp = pytest.importorskip("mpmath")
    mp.mp.prec = 120
    assert exp_and_weight(0.0) == exp_and_weight(-0.0) == (1.0, ONE)
    assert exp_and_weight(-64.5) == exp_and_weight(-INF) == (0.0, 0)
    r = random.Random(6)
    ts = {0x42800000}
    for _ in range(1500):                             # pairs of neighbours at random places
        bits = r.choice((0x30000000 + r.getrandbits(28) % 0x12800000,
                         0x3C000000 + r.getrandbits(27) % 0x06800000))
        ts |= {bits, bits + 1}
    for n in range(1, 129):                           # around multiples of one half
        bits = fl.f32_bits(n / 2)
        ts |= {bits - 1, bits, bits + 1}
    previous, worst = ONE, mp.mpf(0)
    for bits in sorted(ts):                           # |t| ascending
        t = -fl.f32_from_bits(bits)
        e, w = exp_and_weight(t)
        assert w <= previous, t
        previous = w
        assert (e == 0) == (w == 0)
        assert e == fl.round32(e) and (w == 0 or w == math.floor(Fraction(e) * ONE))
        y = mp.mpf(2) ** (mp.mpf(t) + 40)
        assert abs(w - y) <= 1 + y / 2 ** 22, t
        if w:
            worst = max(worst, abs(mp.mpf(e) * 2 ** 40 / y - 1))
    assert worst > mp.mpf(2) ** -25                   # the check looks at real errors


def test_weights_by_hand():
    row = Row("logits", "f32", [fl.f32_bits(v) for v in (0.0, -1.0)])
    t = row.t_of(-1.0, 1.0)
    assert t == -LOG2E
    assert row.weights(INF) == {0: ONE, 1: ONE}
    assert exp_and_weight(-1.0) == (0.5, ONE // 2)
    assert exp_and_weight(-40.0) == (2.0 ** -40, 1)
    assert exp_and_weight(-41.0) == (0.0, 0)


def test_probability_weights():
    values = [0.75, 1.5, 3.0, 2.0 ** -41, 2.0 ** -39, 0.0, -0.0]
    row = Row("probabilities", "f32", [rows.to_bits(v, "f32") for v in values])
    assert row.weights(1.0) == {0: ONE * 3 // 8, 1: ONE * 3 // 4, 2: ONE * 3 // 2, 3: 0, 4: 1}
    assert row.status == 0
    tiny = Row("probabilities", "f32", [3, 1, 0])
    assert tiny.weights(1.0) == {0: ONE * 3 // 2, 1: ONE // 2}


# ---------------------------------------------------------------- chain, by hand

HALVES = [0.5, 1.0, 0.25, 0.25, 1.0]                  # as weights: Z = 3


def test_top_k():
    assert kept([3.0, 1.0, 2.0, 2.0, 0.0], [top_k(2)]) == [0, 2, 3]
    assert kept([3.0, 1.0, 2.0, 2.0, 0.0], [top_k(2)], ties="index") == [0, 2]
    for k in (0, -5, 5, 6):
        assert kept([3.0, 1.0, 2.0, 2.0, 0.0], [top_k(k)]) == [0, 1, 2, 3, 4]
    assert kept([-0.0, 0.0, -1.0], [top_k(1)]) == [0, 1]
    assert kept([0.0, -0.0, -1.0], [top_k(1)], ties="index") == [0]


def test_top_p():
    source = {"kind": "probabilities"}
    assert kept(HALVES, [top_p(0.5)], **source) == [1, 4]
    assert kept(HALVES, [top_p(0.25)], ties="index", **source) == [1]
    third = fl.round32(Fraction(1, 3))                # a little above 1/3: the second one is needed
    assert third > Fraction(1, 3)
    assert kept(HALVES, [top_p(third)], ties="index", **source) == [1, 4]
    below = fl.f32_from_bits(fl.f32_bits(third) - 1)
    assert kept(HALVES, [top_p(below)], ties="index", **source) == [1]
    for p in (0.0, -0.0, -1.0, math.ldexp(1, -149), -INF):
        assert kept(HALVES, [top_p(p)], **source) == [1, 4]
        assert kept(HALVES, [top_p(p)], ties="index", **source) == [1]
    for p in (1.0, 1.5, INF):
        assert kept(HALVES, [top_p(p)], **source) == [0, 1, 2, 3, 4]
    assert kept([1.0, 1.0, 1.0, 1.0], [top_p(0.5)], ties="index", **source) == [0, 1]


def test_off_top_p_keeps_tokens_without_mass():
    values = [0.0, -100.0]
    assert kept(values, [top_p(1.0)]) == [0, 1]
    assert kept(values, [top_p(1 - 2.0 ** -24)]) == [0]
    assert kept(values, [min_p(0.0)]) == [0, 1]
    assert kept(values, [min_p(math.ldexp(1, -149))]) == [0]


def test_min_p():
    source = {"kind": "probabilities"}
    assert kept(HALVES, [min_p(0.5)], **source) == [0, 1, 4]
    assert kept(HALVES, [min_p(0.5 + 2.0 ** -24)], **source) == [1, 4]
    for q in (1.0, 2.0, INF):
        assert kept(HALVES, [min_p(q)], **source) == [1, 4]


def test_joint_differs_from_a_sequence():
    values, source = [4.0, 3.0, 2.0, 1.0], {"kind": "probabilities"}     # Z = 10
    p = 0.6875                                        # 6.875 of 10, but 4.8 of 7
    assert kept(values, [top_k_top_p(2, p)], **source) == [0, 1]
    assert kept(values, [top_k(2), top_p(p)], **source) == [0, 1]
    assert kept(values, [top_k(2), top_p(0.5)], **source) == [0]
    assert kept(values, [top_k_top_p(2, 0.5)], **source) == [0, 1]
    assert kept(values, [top_p(0.5), top_k(1)], **source) == [0]


def test_temperature():
    values = [1.0, 0.0, 1.0]
    assert kept(values, [temperature(0.0)]) == [0]
    assert kept(values, [temperature(-0.0), temperature(2.0)]) == [0]
    assert kept(values, [temperature(1e-45)]) == [0]
    assert kept(values, [temperature(1e-38)]) == [0, 1, 2]
    result = oracle.run(call(values, [temperature(INF)]))
    assert result["kept_mass"] == str(3 * ONE)
    assert f32s(result["probabilities"][n:n + 8] for n in (0, 8, 16)) == [fl.round32(Fraction(1, 3))] * 3
    assert result["entropy"] == f"{fl.f32_bits(fl.round32(math.log(3))):08x}"
    again = oracle.run(call(values, [temperature(5.0), temperature(0.5)]))
    assert again == oracle.run(call(values, [temperature(0.5)]))         # replaces, never multiplies


def test_masses():
    values = [0.0, 0.0, -INF, 0.0]
    result = oracle.run(call(values, [temperature(0.5), top_k(0), top_k(1)], ties="index"))
    assert (result["total_mass"], result["kept_mass"]) == (str(3 * ONE), str(ONE))
    assert result["kept_ids"] == [0, -1, -1, -1]
    assert result["masked"] == "00000000" + "ff800000" * 3
    greedy = oracle.run(call(values, [temperature(0.0), top_k(2)]))
    assert (greedy["total_mass"], greedy["kept_mass"]) == (str(ONE), str(ONE))


# ---------------------------------------------------------------- status

@pytest.mark.parametrize("values, kind, status", [
    ([NAN, 1.0], "logits", 1), ([INF, 1.0], "logits", 2), ([-INF, -1.0], "logits", 0),
    ([NAN, NAN], "logits", 9), ([-INF], "logits", 8), ([NAN, INF], "logits", 3),
    ([-1.0, 1.0], "probabilities", 4), ([-0.0, 1.0], "probabilities", 0),
    ([-INF, NAN], "probabilities", 13), ([0.0, -0.0], "probabilities", 8),
    ([INF, -1.0, NAN], "probabilities", 7)])
def test_status(values, kind, status):
    result = oracle.run(call(values, kind=kind))
    assert result["status"] == status
    assert (result["tokens"] == [-1]) == bool(status & 8)
    assert oracle.run(call(values, [top_p(NAN)], kind=kind))["status"] == 16


def test_failed_row():
    result = oracle.run(call([NAN, -INF], [], draws=2, given_ids=[0, 9], kept_capacity=3, dtype="f16"))
    nan = "7fc00000"
    assert result == {
        "status": 9, "tokens": [-1, -1], "rounds": [0, 0], "logprobs": [nan] * 2,
        "raw_logprobs": [nan] * 2, "ranks": [0, 0], "kept_count": 0, "kept_ids": [-1] * 3,
        "kept_mass": "0", "total_mass": "0", "probabilities": "0" * 16, "masked": "fc00fc00",
        "top_ids": [-1, -1], "top_logprobs": [nan] * 2, "given_logprobs": [nan] * 2,
        "given_raw_logprobs": [nan] * 2, "entropy": nan}


def test_infinite_rows():
    result = oracle.run(call([INF, NAN, 3.0, INF], [temperature(0.1)], given_ids=[0, 2, 4]))
    assert result["kept_ids"] == [0, 3, -1, -1]
    assert result["kept_mass"] == str(2 * ONE)
    assert f32s(result["given_logprobs"])[:2] == [-fl.round32(fl.LN2D), -INF]
    assert result["given_logprobs"][2] == "7fc00000"


# ---------------------------------------------------------------- draws and outputs

def test_supplied_numbers():
    numbers = ["0", str((1 << 62) - 1), str(1 << 62), str((1 << 63) - 1), str(1 << 63),
               str((1 << 64) - 1)]
    result = oracle.run(call([0.0, -INF, 0.0, 0.0, 0.0], draws=6, random=numbers))
    assert result["tokens"] == [0, 0, 2, 2, 3, 4]
    assert result["ranks"] == [4] * 6 and result["rounds"] == [0] * 6
    top = 1 << 64
    thirds = [top // 3, top // 3 + 1]                 # floor(r * 3 * 2^40 / 2^64) just below 2^40, at it
    result = oracle.run(call([0.0, 0.0, 0.0], draws=2, random=[str(r) for r in thirds]))
    assert result["tokens"] == [0, 1]


def test_log_probabilities():
    values = [math.log(4), math.log(2), 0.0, 0.0]
    result = oracle.run(call(values, [top_k(2)], top_n=4, top_raw=True, given_ids=[0, 1, 2, 3, 4, -1]))
    logprobs, raw = f32s(result["given_logprobs"]), f32s(result["given_raw_logprobs"])
    for got, p in zip(logprobs, (2 / 3, 1 / 3)):
        assert abs(got - math.log(p)) < 1e-6
    assert logprobs[2:4] == [-INF, -INF]
    assert result["given_logprobs"][4:] == result["given_raw_logprobs"][4:] == ["7fc00000"] * 2
    for got, p in zip(raw, (1 / 2, 1 / 4, 1 / 8, 1 / 8)):
        assert abs(got - math.log(p)) < 1e-6
    assert result["top_ids"] == [0, 1, 2, 3]
    assert result["top_logprobs"] == result["given_raw_logprobs"][:4]
    entropy = fl.f32_from_bits(int(result["entropy"], 16))
    assert abs(entropy - (math.log(3) - 2 / 3 * math.log(2))) < 1e-6
    single = oracle.run(call([-5.0], top_n=2))
    assert (single["logprobs"], single["entropy"]) == (["00000000"], "00000000")
    assert (single["top_ids"], single["top_logprobs"]) == ([0, -1], ["00000000", "ff800000"])


def test_refused_calls():
    with pytest.raises(oracle.Refused):
        oracle.run(call([1.0], [temperature(1.0)], kind="probabilities"))
    with pytest.raises(oracle.Refused):
        oracle.run(call([1.0], [top_k(1), temperature(1.0)], method="rejection"))
    with pytest.raises(oracle.Refused):
        oracle.run(call([1.0], method="dual_pivot", random=["1"]))
    assert oracle.run(call([1.0], [temperature(1.0)], method="dual_pivot"))["rounds"] == [1]


# ---------------------------------------------------------------- methods

@pytest.mark.parametrize("ties, bound", [("all", 73), ("index", 95)])
def test_methods_stay_in_the_kept_set(ties, bound):
    s = rows.Source("methods")
    for kind in ("normal", "quantised", "near_equal", "wide", "equal"):
        for chain in ([top_k(3)], [top_p(0.3)], [min_p(0.6)], [top_k_top_p(4, 0.4)],
                      [temperature(9.0), min_p(0.1), top_k(2)]):
            values = rows.LOGITS[kind](s, 60)
            exact = oracle.run(call(values, chain, ties=ties))
            for method in ("rejection", "dual_pivot"):
                got = oracle.run(call(values, chain, ties=ties, method=method, draws=20))
                assert got["kept_ids"] == exact["kept_ids"]
                assert set(got["tokens"]) <= set(exact["kept_ids"]) - {-1}
                assert all(1 <= n <= bound for n in got["rounds"])


@pytest.mark.parametrize("method", ["rejection", "dual_pivot"])
def test_methods_draw_the_same_distribution(method):
    values, draws = [math.log(n) for n in (1, 2, 3, 4, 6, 8)], 4000
    result = oracle.run(call(values, [top_k(3)], method=method, draws=draws))
    for token, share in ((3, 4 / 18), (4, 6 / 18), (5, 8 / 18)):
        count = result["tokens"].count(token)
        assert abs(count - draws * share) < 5 * math.sqrt(draws * share * (1 - share))


@pytest.mark.parametrize("chain, ties", [
    ([top_k(2)], "all"), ([top_k(2)], "index"), ([top_p(0.02)], "all"),
    ([temperature(100.0), min_p(0.999999)], "all"), ([temperature(100.0), min_p(0.999999)], "index")])
def test_dual_pivot_on_order_keys(chain, ties):
    """The order keys must agree with the tokens they stand for: f at a token's own key is f of it."""
    values = [-math.ldexp(n * 37 % 64, -16) for n in range(64)]
    steps = [parse_step(step) for step in chain]
    state = State(Row("logits", "f32", [fl.f32_bits(v) for v in values]), ties)
    for step in steps[:-1]:
        apply_step(state, step)
    sampler = methods.Rejection(state, steps[-1], call(values))
    verdicts = set()
    for i in state.kept:
        verdict = sampler.accepts_position(sampler.p_of(i), sampler.p_of, sampler.p_weight)
        assert verdict == sampler.accepts_token(i)
        verdicts.add(verdict)
    assert verdicts == {True, False}


# ---------------------------------------------------------------- the distance to softmax

def lambert_w(mp, x):
    return mp.lambertw(x).real


def tv_bound(mp, v):
    """The bound of docs/law.md for rows of v tokens."""
    eta = (1 + mp.mpf(2) ** -24) ** 3 * (1 + mp.mpf(2) ** -26) - 1
    w = lambert_w(mp, 2 * (v - 1) / mp.e ** 2) if v > 1 else mp.mpf(0)
    rounding_of_t = eta / (2 * (1 - eta)) * mp.sqrt(w * (w + 2))
    epsilon = mp.mpf(2) ** -22
    weights = epsilon / (2 * (1 - epsilon)) + mp.mpf(v - 1) / 2 ** 40
    return rounding_of_t + weights + mp.mpf(v) / 2 ** 65 + mp.mpf(2) ** -149


def test_tv_bound():
    mp = pytest.importorskip("mpmath")
    mp.mp.prec = 160
    assert tv_bound(mp, 128256) < mp.mpf("1.14e-6") and tv_bound(mp, 262144) < mp.mpf("1.33e-6")
    s, worst = rows.Source("distance"), 0
    for kind in ("normal", "zipf", "wide", "ascending"):
        for v, t in ((2, 1.0), (40, 0.7), (600, 1.3), (600, 0.7)):
            bits = [rows.to_bits(x, "f32") for x in rows.LOGITS[kind](s, v)]
            state = State(Row("logits", "f32", bits), "all")
            apply_step(state, parse_step(temperature(t)))
            t32, m = mp.mpf(state.temperature), mp.mpf(state.row.max)
            real = [mp.exp((mp.mpf(x) - m) / t32) for x in state.row.x]
            total, prefix, first, distance = mp.fsum(real), 0, 0, mp.mpf(0)
            for i in range(v):
                prefix += state.w[i]
                after = -(-(prefix << 64) // state.mass)     # the first r that draws a later token
                distance += abs(mp.mpf(after - first) / 2 ** 64 - real[i] / total)
                first = after
            assert first == 1 << 64
            assert 0 < distance / 2 <= tv_bound(mp, v), (kind, v, t)
            worst = max(worst, distance / 2 / tv_bound(mp, v))
    print("largest share of the bound:", mp.nstr(worst, 4))


# ---------------------------------------------------------------- the written vectors

@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_vectors_are_what_the_oracle_says(path):
    names, lines = set(), path.read_text().splitlines()
    for n, line in enumerate(lines):
        vector = json.loads(line)
        names.add(vector["name"])
        if n % 10 == 0:
            assert oracle.run(vector) == vector["expect"], vector["name"]
    assert lines and len(names) == len(lines)
