"""The law as a slow program: one call on one row, in exact integers and fractions.

run(call) takes a call in the format of tests/vectors/README.md and returns its "expect".
Written from docs/law.md alone; it shares nothing with the library.
"""

import floats as fl
from chain import State, apply_step, is_bad, parse_step
from methods import Rejection, draw_exact
from outputs import Measure, failed, hex32, masked, pack
from weights import BAD_PARAM_BIT, EMPTY_BIT, Row


class Refused(Exception):
    """The call as a whole is an error; nothing would be written."""


def decode_row(text, dtype):
    digits = fl.HEX_DIGITS[dtype]
    return [int(text[i:i + digits], 16) for i in range(0, len(text), digits)]


def check_call(call, steps):
    """Refuses what the law calls an error of the call."""
    filters = [n for n, step in enumerate(steps) if step["step"] != "temperature"]
    temperatures = [n for n, step in enumerate(steps) if step["step"] == "temperature"]
    if call["kind"] == "probabilities" and temperatures:
        raise Refused("temperature with a probabilities source")
    if call["method"] != "exact":
        if call["random"] is not None:
            raise Refused("supplied random numbers need the exact method")
        if filters and temperatures and temperatures[-1] > filters[-1]:
            raise Refused("a temperature after the last filter needs the exact method")


def draw_tokens(call, row, steps, final):
    """(token, rounds) of each draw."""
    draws = range(call["draws"])
    if call["method"] == "exact":
        return [draw_exact(final, call, d) for d in draws]
    state, last_filter = State(row, call["ties"]), None
    last = max((n for n, s in enumerate(steps) if s["step"] != "temperature"), default=None)
    for step in steps if last is None else steps[:last]:
        apply_step(state, step)
    if last is not None:
        last_filter = steps[last]
    sampler = Rejection(state, last_filter, call)
    one = {"rejection": sampler.draw_single_pivot, "dual_pivot": sampler.draw_dual_pivot}
    return [one[call["method"]](d) for d in draws]


def run(call):
    steps = [parse_step(step) for step in call["chain"]]
    check_call(call, steps)
    row = Row(call["kind"], call["dtype"], decode_row(call["row"], call["dtype"]))
    if any(is_bad(step) for step in steps):
        return failed(row, call, BAD_PARAM_BIT)
    if row.status & EMPTY_BIT:
        return failed(row, call, row.status)

    final, total_mass = State(row, call["ties"]), None
    for step in steps:
        if step["step"] != "temperature" and total_mass is None:
            total_mass = final.mass
        apply_step(final, step)
    if total_mass is None:
        total_mass = final.mass

    now = Measure(row, final.kept, final.w, final.temperature)
    raw = Measure(row, row.k0, row.weights(1.0), 1.0)
    drawn = draw_tokens(call, row, steps, final)
    tokens = [token for token, _ in drawn]
    top_ids, top_logprobs = (raw if call["top_raw"] else now).top(call["top_n"])
    kept_ids = final.kept[:call["kept_capacity"]]
    return {
        "status": row.status,
        "tokens": tokens,
        "rounds": [rounds for _, rounds in drawn],
        "logprobs": hex32(now.logprob(i) for i in tokens),
        "raw_logprobs": hex32(raw.logprob(i) for i in tokens),
        "ranks": [sum(row.x[i] >= row.x[token] for i in row.k0) for token in tokens],
        "kept_count": len(final.kept),
        "kept_ids": kept_ids + [-1] * (call["kept_capacity"] - len(kept_ids)),
        "kept_mass": str(now.mass),
        "total_mass": str(total_mass),
        "probabilities": pack((fl.f32_bits(p) for p in now.probabilities()), 8),
        "masked": masked(row, now.members, call["dtype"]),
        "top_ids": top_ids,
        "top_logprobs": hex32(top_logprobs),
        "given_logprobs": hex32(now.logprob(i) for i in call["given_ids"]),
        "given_raw_logprobs": hex32(raw.logprob(i) for i in call["given_ids"]),
        "entropy": f"{fl.f32_bits(now.entropy()):08x}",
    }
