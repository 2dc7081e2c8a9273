"""Packs tests/vectors/*.jsonl into one flat file that a C program reads without a parser.

    python3 pack_vectors.py OUTPUT INPUT.jsonl ...

Little-endian. The file is b"tombolav", the count of vectors, and the vectors. A vector is its name and the
fields below, each an array: the count of elements (u64), the elements, zeros up to a multiple of 8 bytes.
tests/support/vector.c reads it.
"""

import json
import pathlib
import struct
import sys

KINDS = {"logits": 0, "probabilities": 1}
DTYPES = {"f32": 0, "f16": 1, "bf16": 2}
TIES = {"all": 0, "index": 1}
METHODS = {"exact": 0, "rejection": 1, "dual_pivot": 2}
STEPS = {"temperature": 1, "top_k": 2, "top_p": 3, "min_p": 4, "top_k_top_p": 5}


def array(code, values):
    data = struct.pack(f"<{len(values)}{code}", *values)
    return struct.pack("<Q", len(values)) + data + bytes(-len(data) % 8)


def hex_array(texts):
    return array("I", [int(text, 16) for text in texts])


def elements(text, dtype):
    digits, code = (8, "I") if dtype == "f32" else (4, "H")
    return array(code, [int(text[i:i + digits], 16) for i in range(0, len(text), digits)])


def steps(chain):
    """kind, k and the bits of value, of each step."""
    words = [(STEPS[step["step"]], step.get("k", 0) & 0xFFFFFFFF, int(step.get("value", "0"), 16))
             for step in chain]
    return array("I", [word for triple in words for word in triple])


def vector(call):
    expect, dtype = call["expect"], call["dtype"]
    numbers = [KINDS[call["kind"]], DTYPES[dtype], TIES[call["ties"]], METHODS[call["method"]],
               call["draws"], int(call["seed"]), int(call["offset"]), call["stream"],
               call["kept_capacity"], call["top_n"], int(call["top_raw"])]
    return [
        array("B", call["name"].encode() + b"\0"),
        array("Q", numbers),
        elements(call["row"], dtype),
        steps(call["chain"]),
        array("Q", [int(r) for r in call["random"] or []]),
        array("i", call["given_ids"]),
        # what it returns, in the order of `enum output`
        array("i", expect["tokens"]),
        array("I", [expect["status"]]),
        array("i", expect["rounds"]),
        hex_array(expect["logprobs"]),
        hex_array(expect["raw_logprobs"]),
        array("i", expect["ranks"]),
        array("i", [expect["kept_count"]]),
        array("i", expect["kept_ids"]),
        array("Q", [int(expect["kept_mass"])]),
        array("Q", [int(expect["total_mass"])]),
        elements(expect["probabilities"], "f32"),
        elements(expect["masked"], dtype),
        array("i", expect["top_ids"]),
        hex_array(expect["top_logprobs"]),
        hex_array(expect["given_logprobs"]),
        hex_array(expect["given_raw_logprobs"]),
        hex_array([expect["entropy"]]),
    ]


def main(output, inputs):
    lines = [line for path in inputs for line in pathlib.Path(path).read_text().splitlines()]
    parts = [b"tombolav", struct.pack("<Q", len(lines))]
    for line in lines:
        parts += vector(json.loads(line))
    pathlib.Path(output).write_bytes(b"".join(parts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
