#!/usr/bin/env python3
"""What a call from Python costs beside the work itself: microseconds of the calling thread per eager call.

    python bench/python_overhead.py [--device cuda|cpu] [--json FILE] [--write docs/python.md]
    python bench/python_overhead.py --from FILE --write docs/python.md    tables of a run that was made elsewhere

Calls are made in bursts that a CUDA stream's queue holds, and the thread's time for a burst is taken before the device
is waited for. The calls take turns, a burst each, so that what moves on the host moves for all of them. "no rows" is a
call that returns before it launches anything: Python, tvm-ffi and the bridge alone. FlashInfer is measured where
flashinfer.sampling can be imported. --write puts the tables between the marks <!-- overhead --> and <!-- end --> of a
page.
"""

import argparse
import functools
import gc
import json
import pathlib
import platform
import statistics
import sys
import time

VOCABS = (1000, 128256)
BURST, BURSTS = 20, 200  # twenty calls of at most ten launches each: a stream's queue holds about a thousand


# ---- what is called ----


def torch_cases(torch, x, probabilities):
    same = torch.empty_like(x)
    wide = torch.empty(1, dtype=torch.int64, device=x.device)
    return {
        "torch.add(x, 1, out=)": lambda: torch.add(x, 1, out=same),
        "torch.softmax(x, -1)": lambda: torch.softmax(x, -1),
        "torch.argmax(x, -1, out=)": lambda: torch.argmax(x, -1, out=wide),
        "torch.multinomial(p, 1)": lambda: torch.multinomial(probabilities, 1),
        "torch.empty": lambda: torch.empty((1,), dtype=torch.int32, device=x.device),
    }


def tombola_cases(torch, x, probabilities):
    import tombola
    from tombola import _library as lib

    none, no_tokens = x[:0], torch.empty(0, dtype=torch.int32, device=x.device)
    tokens = torch.empty(1, dtype=torch.int32, device=x.device)
    same = torch.empty_like(x)
    temperature = torch.ones(1, device=x.device)
    seeds = torch.arange(1, device=x.device)
    offsets = torch.zeros(1, dtype=torch.int64, device=x.device)
    fields = (lib.TEMPERATURE, 0.8, lib.TOP_K, 50, lib.TOP_P, 0.9, lib.SEED, 7, lib.TOKENS)
    sample = tombola.sample
    return {
        "tombola.sample(T, k, p, seed, out=), no rows": lambda: sample(
            none, temperature=0.8, top_k=50, top_p=0.9, seed=7, out=no_tokens
        ),
        "the bridge's run, no rows": lambda: lib.run(none, *fields, no_tokens),
        "the bridge's run, same call": lambda: lib.run(x, *fields, tokens),
        "tombola.sample(T, k, p, seed, out=)": lambda: sample(
            x, temperature=0.8, top_k=50, top_p=0.9, seed=7, out=tokens
        ),
        "tombola.sample(T, k, p, seed)": lambda: sample(x, temperature=0.8, top_k=50, top_p=0.9, seed=7),
        "tombola.sample(T, k, p)": lambda: sample(x, temperature=0.8, top_k=50, top_p=0.9),
        "tombola.sample(T, seeds, p per row, out=)": lambda: sample(
            x, temperature=temperature, top_p=0.9, seed=seeds, out=tokens
        ),
        "tombola.sample(p, seeds, offsets, advance, out=)": lambda: sample(
            x, top_p=0.9, seed=seeds, offset=offsets, advance=True, out=tokens
        ),
        "tombola.sample(T, k, p, seed, return_logprobs)": lambda: sample(
            x, temperature=0.8, top_k=50, top_p=0.9, seed=7, return_logprobs=True
        ),
        "tombola.sample(seed, out=)": lambda: sample(x, seed=7, out=tokens),
        "tombola.softmax(x, out=)": lambda: tombola.softmax(x, out=same),
        "tombola.mask(x, top_k, out=)": lambda: tombola.mask(x, top_k=50, out=same),
    }


def sampling_cases(name, torch, sampling, x, p):
    """The same calls of FlashInfer's functions, or of those in their place."""
    seed = torch.ones(1, dtype=torch.int64, device=x.device)
    offset = torch.ones(1, dtype=torch.int64, device=x.device)
    ints, tensors = {"seed": 1, "offset": 1}, {"seed": seed, "offset": offset}
    cases = {}
    for how, more in ("generator", {}), ("ints", ints), ("tensors", tensors):
        cases |= {
            f"sampling_from_logits, {how}": functools.partial(sampling.sampling_from_logits, x, **more),
            f"sampling_from_probs, {how}": functools.partial(sampling.sampling_from_probs, p, **more),
            f"top_p_sampling_from_probs, {how}": functools.partial(
                sampling.top_p_sampling_from_probs, p, 0.9, **more
            ),
            f"top_k_top_p_sampling_from_probs, joint, {how}": functools.partial(
                sampling.top_k_top_p_sampling_from_probs, p, 50, 0.9, filter_apply_order="joint", **more
            ),
            f"top_k_top_p_sampling_from_logits, {how}": functools.partial(
                sampling.top_k_top_p_sampling_from_logits, x, 50, 0.9, **more
            ),
        }
    cases |= {
        "softmax": functools.partial(sampling.softmax, x),
        "softmax, temperature": functools.partial(sampling.softmax, x, 0.8),
        "top_p_renorm_probs": functools.partial(sampling.top_p_renorm_probs, p, 0.9),
        "top_k_mask_logits": functools.partial(sampling.top_k_mask_logits, x, 50),
    }
    return {f"{name}.{label}": case for label, case in cases.items()}


def cases(torch, device, vocab):
    """[(kind, label, call)], with FlashInfer's own functions where they can be imported."""
    from tombola.compat.flashinfer import sampling as compat

    x = torch.randn(1, vocab, device=device)
    p = torch.softmax(x, -1)
    found = torch_cases(torch, x, p) | tombola_cases(torch, x, p) | sampling_cases("compat", torch, compat, x, p)
    if device != "cpu":
        try:
            from flashinfer import sampling
        except ImportError as error:
            print(f"flashinfer: cannot be imported here ({error})")
        else:
            found |= sampling_cases("flashinfer", torch, sampling, x, p)
    return found


# ---- measuring ----


def measure(calls, synchronize):
    """Microseconds per call: of the median burst, and of the fastest. Calls that fail are left out, and said."""
    times = {}
    for label, call in list(calls.items()):
        try:
            for _ in range(BURST):
                call()
            synchronize()
            times[label] = []
        except Exception as error:  # whatever a peer raises
            print(f"{label}: {type(error).__name__}: {str(error)[:300]}")
            del calls[label]
    for _ in range(BURSTS):
        for label, call in calls.items():
            synchronize()
            call()  # wakes what the wait has put to sleep
            start = time.perf_counter()
            for _ in range(BURST):
                call()
            times[label].append((time.perf_counter() - start) / BURST * 1e6)
    synchronize()
    return {label: (round(statistics.median(t), 2), round(min(t), 2)) for label, t in times.items()}


def run(device):
    import torch
    import tombola
    import tvm_ffi

    versions = {"python": platform.python_version(), "tombola": tombola.__version__, "torch": torch.__version__,
                "tvm-ffi": tvm_ffi.__version__}  # fmt: skip
    gc.disable()
    synchronize = (lambda: None) if device == "cpu" else torch.cuda.synchronize
    results = {}
    for vocab in VOCABS:
        results[vocab] = measure(cases(torch, device, vocab), synchronize)
    try:
        import flashinfer

        versions["flashinfer"] = flashinfer.__version__
    except ImportError:
        pass
    plan = tombola._library.plan(
        torch.zeros(1, VOCABS[-1], device=device), "temperature", 0.8, "top_k", 50, "top_p", 0.9, "seed", 7,
        "tokens", torch.zeros(1, dtype=torch.int32, device=device),
    )  # fmt: skip
    name = tombola.info() if device == "cpu" else torch.cuda.get_device_name()
    return {"device": name, "versions": versions, "plan": plan,
            "microseconds_median_and_least": {str(v): r for v, r in results.items()}}  # fmt: skip


# ---- the page ----


def tables(data):
    results = data["microseconds_median_and_least"]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    lines = [f"{data['device']}; {versions}. Microseconds of the calling thread, the median burst's, and in brackets the fastest burst's.", ""]

    def table(title, rows, columns):
        lines.extend([f"| {title} | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)])
        lines.extend("| " + " | ".join(row) + " |" for row in rows)
        lines.append("")

    def cell(vocab, label):
        pair = results[vocab].get(label)
        return f"{pair[0]:.1f} ({pair[1]:.1f})" if pair else ""

    vocabs = list(results)
    last = results[vocabs[-1]]
    whole, bare, bridge = (
        last[label][0]
        for label in ("tombola.sample(T, k, p, seed, out=)", "tombola.sample(T, k, p, seed, out=), no rows", "the bridge's run, no rows")
    )
    launches = data["plan"].count(" threads")
    lines += [
        f"`tombola.sample(T, k, p, seed, out=)` at V = {vocabs[-1]} takes {whole:.1f}: {bare - bridge:.1f} in Python, {bridge:.1f} in tvm-ffi "
        f"and the bridge (both as a call without rows takes them), {whole - bare:.1f} for the rest, {launches} launch{'es' if launches > 1 else ''} "
        "among it.",
        "",
    ]  # fmt: skip
    columns = [f"V = {v}" for v in vocabs]
    plain = [label for label in results[vocabs[0]] if not label.startswith(("compat.", "flashinfer."))]
    table("call", [[f"`{label}`", *(cell(v, label) for v in vocabs)] for label in plain], columns)
    peers = [label.removeprefix("compat.") for label in results[vocabs[0]] if label.startswith("compat.")]
    table(
        "`sampling.`",
        [[f"`{p}`", *(cell(v, f"{kind}.{p}") for v in vocabs for kind in ("compat", "flashinfer"))] for p in peers],
        [f"{kind}, {column}" for column in columns for kind in ("here", "FlashInfer")],
    )
    return "\n".join(lines)


def filled(page, text):
    before, rest = pathlib.Path(page).read_text().split("<!-- overhead -->\n", 1)
    after = rest.split("<!-- end -->", 1)[1]
    return f"{before}<!-- overhead -->\n{text}<!-- end -->{after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--from", dest="source", metavar="FILE")
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--check", metavar="PAGE", help="fail where its tables are not the data's")
    options = parser.parse_args()
    if options.source:
        data = json.loads(pathlib.Path(options.source).read_text())
    else:
        import torch

        data = run(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    text = tables(data)
    if options.check:
        if filled(options.check, text) != pathlib.Path(options.check).read_text():
            sys.exit(f"{options.check} is not what {options.source} says: run this with --write instead of --check")
        return
    print(text)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
    if options.write:
        page = filled(options.write, text)
        pathlib.Path(options.write).write_text(page)


if __name__ == "__main__":
    main()
