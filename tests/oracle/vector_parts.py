"""Parts of test vectors: steps, parameter values, and the Maker that names and collects calls."""

import math

import floats as fl
import methods
import rows
from chain import State, apply_step, parse_step
from weights import Row

TINY = math.ldexp(1, -149)
P_VALUES = (0.0, -0.0, -1.0, TINY, 1e-10, 0.1, 0.5, 0.9, 0.999, 1 - 2.0 ** -24, 1.0, 2.0, fl.INF,
            -fl.INF, fl.NAN)
Q_VALUES = P_VALUES + (2.0 ** -40, 0.02)
T_VALUES = (0.0, -0.0, 1e-45, 1e-39, 1e-38, 0.1, 0.7, 1.0, 1.3, 2.0, 100.0, 1e30, 3e38, fl.INF, fl.NAN,
            -1.0)


def k_values(v):
    return sorted({-2147483648, -1, 0, 1, 2, v - 1, v, v + 1, 2147483647})


# ---------------------------------------------------------------- steps

def _value(x):
    return f"{fl.f32_bits(fl.round32(float(x))):08x}"


def temperature(t):
    return {"step": "temperature", "value": _value(t)}


def top_k(k):
    return {"step": "top_k", "k": k}


def top_p(p):
    return {"step": "top_p", "value": _value(p)}


def min_p(q):
    return {"step": "min_p", "value": _value(q)}


def top_k_top_p(k, p):
    return {"step": "top_k_top_p", "k": k, "value": _value(p)}


def some_temperature(s, v):
    return temperature(s.choice((0.1, 0.7, 1.0, 1.3, 2.0, 2.0 * s.uniform(), 2.0 * s.uniform())))


def some_top_k(s, v):
    return top_k(s.choice((0, 1, 2, 1 + s.below(v), 1 + s.below(v), 1 + s.below(v), v)))


def some_top_p(s, v):
    return top_p(s.choice((1.0, 0.5, 0.9, s.uniform(), s.uniform(), s.uniform())))


def some_min_p(s, v):
    return min_p(s.choice((0.0, 1.0, 0.02, 0.2, s.uniform(), s.uniform())))


def some_joint(s, v):
    return top_k_top_p(some_top_k(s, v)["k"], fl.f32_from_bits(int(some_top_p(s, v)["value"], 16)))


def some_filter(s, v):
    return s.choice((some_top_k, some_top_p, some_min_p, some_joint))(s, v)


def some_chain(s, v):
    """A temperature and one to three filters."""
    return [some_temperature(s, v)] + [some_filter(s, v) for _ in range(1 + s.below(3))]


# ---------------------------------------------------------------- looking into a call

def edges(call):
    """The largest r that draws each token of the final K, and the next one: where draws change."""
    state = _final_state(call)
    if state is None:
        return []
    result, prefix, mass = [0, (1 << 64) - 1], 0, state.mass
    for i in state.kept:
        prefix += state.w[i]
        first = -(-(prefix << 64) // mass)           # the smallest r with floor(r Z / 2^64) >= prefix
        if state.w[i]:
            result += [r for r in (first - 1, first) if 0 < r < 1 << 64]
    return result


def _final_state(call):
    row = Row(call["kind"], call["dtype"], oracle_row(call))
    if not row.k0:
        return None
    state = State(row, call["ties"])
    for step in call["chain"]:
        apply_step(state, parse_step(step))
    return state


def oracle_row(call):
    digits = fl.HEX_DIGITS[call["dtype"]]
    text = call["row"]
    return [int(text[n:n + digits], 16) for n in range(0, len(text), digits)]


def reaches_keys_late(call):
    """Whether a dual-pivot call comes to order keys after its high end has left the greatest weight."""
    steps = [parse_step(step) for step in call["chain"]]
    state = State(Row(call["kind"], call["dtype"], oracle_row(call)), call["ties"])
    for step in steps[:-1]:
        apply_step(state, step)
    sampler = methods.Rejection(state, steps[-1], call)
    asked = []
    plain = sampler.accepts_position

    def watched(position, place_of, weight_at):
        asked.append(place_of == sampler.p_of)
        return plain(position, place_of, weight_at)

    sampler.accepts_position = watched
    for draw in range(call["draws"]):
        asked.clear()
        sampler.draw_dual_pivot(draw)
        if any(asked) and not asked[0]:
            return True
    return False


# ---------------------------------------------------------------- collecting calls

class Maker:
    """Builds the calls of one theme. Whatever a call does not say is drawn from the theme's stream."""

    def __init__(self, theme):
        self.theme = theme
        self.s = rows.Source(f"tombola vectors: {theme}")
        self.calls = []

    def bits_of(self, kind, v, dtype="f32", source="logits"):
        table = rows.LOGITS if source == "logits" else rows.PROBABILITIES
        return [rows.to_bits(x, dtype) for x in table[kind](self.s, v)]

    def call(self, bits, chain, kind="logits", dtype="f32", ties="all", method="exact", draws=1,
             seed=None, offset=None, stream=None, random=None, capacity=None, top_n=None,
             top_raw=None, given=None):
        s, v = self.s, len(bits)
        if capacity is None:
            capacity = s.choice((v, v, v, v + 1, 1 + s.below(v), 0)) if v < 50 else v
        if given is None:
            given = [s.choice((s.below(v), s.below(v), s.below(v), -1, v)) for _ in range(s.below(4))]
        return {
            "name": "", "kind": kind, "dtype": dtype, "row": rows.hex_bits(bits, dtype),
            "chain": chain, "ties": ties, "method": method, "draws": draws,
            "seed": str(s.bits(64) if seed is None else seed),
            "offset": str(s.choice((0, 1, s.bits(16), s.bits(64))) if offset is None else offset),
            "stream": s.choice((0, 0, 1, s.bits(32))) if stream is None else stream,
            "random": random, "kept_capacity": capacity,
            "top_n": s.choice((0, 1, 2, 3, 5, v + 2 if v < 8 else 4)) if top_n is None else top_n,
            "top_raw": bool(s.below(2)) if top_raw is None else top_raw, "given_ids": given,
        }

    def keep(self, name, call):
        self.calls.append(dict(call, name=f"{self.theme}/{len(self.calls)}/{name}"))

    def add_bits(self, name, bits, chain, **fields):
        self.keep(name, self.call(bits, chain, **fields))

    def add(self, name, values, chain, **fields):
        self.add_bits(name, [rows.to_bits(x, fields.get("dtype", "f32")) for x in values], chain,
                      **fields)

    def logits(self, kind, v, chain, dtype="f32", **fields):
        self.add_bits(kind, self.bits_of(kind, v, dtype), chain, dtype=dtype, **fields)

    def probabilities(self, kind, v, chain, dtype="f32", **fields):
        self.add_bits(kind, self.bits_of(kind, v, dtype, "probabilities"), chain,
                      kind="probabilities", dtype=dtype, **fields)
