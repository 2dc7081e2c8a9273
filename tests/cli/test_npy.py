"""The .npy files that the command line reads, and those that it refuses with one line."""

import os
import random
import struct

import numpy as np
import pytest
from conftest import refusal, rows, run

ROW = np.arange(12, dtype=np.float32).reshape(3, 4) / 4
GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"


def npy(header=GOOD, data=ROW.tobytes(), version=(1, 0), length=None, pad=True, magic=b"\x93NUMPY"):
    """A .npy file from its parts, however wrong."""
    literal = header.encode() if isinstance(header, str) else header
    prefix = 10 if version[0] == 1 else 12
    if pad:
        literal += b" " * (-(prefix + len(literal) + 1) % 64) + b"\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", len(literal) if length is None else length)
    return magic + bytes(version) + size + literal + data


def with_shape(shape):
    return npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}")


def with_descr(descr):
    return npy(f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': (3, 4), }}")


REFUSED = {
    "empty": (b"", "is empty"),
    "one byte": (b"\x93", "wrong magic"),
    "text": (b"0.5 0.25 0.125\n", "wrong magic"),
    "wrong magic": (npy(magic=b"\x93NUMPZ"), "wrong magic"),
    "archive": (b"PK\x03\x04" + bytes(100), "archive"),
    "magic only": (b"\x93NUMPY", "truncated"),
    "no length": (b"\x93NUMPY\x01\x00", "truncated"),
    "half a length": (b"\x93NUMPY\x02\x00\x10\x00", "truncated"),
    "version 0": (npy(version=(0, 0)), "version 0.0"),
    "version 4": (npy(version=(4, 0)), "version 4.0"),
    "version 1.1": (npy(version=(1, 1)), "version 1.1"),
    "truncated header": (npy()[:40], "truncated"),
    "header longer than the file": (npy(length=60000), "truncated"),
    "header of 4 GB": (npy(version=(2, 0), length=2**32 - 1), "truncated"),
    "header of 1 MB": (npy(version=(2, 0), header=GOOD + " " * 2**20), "at most 65536"),
    "header that ends in the literal": (npy(length=30), "malformed header"),
    "empty header": (npy("", pad=False), "malformed header"),
    "no dictionary": (npy("('<f4', False, (3, 4))"), "malformed header"),
    "no end": (npy(GOOD[:-1]), "malformed header"),
    "two dictionaries": (npy(GOOD + GOOD), "malformed header"),
    "unknown key": (npy(GOOD.replace("}", "'more': 1}")), "unknown key 'more'"),
    "key twice": (npy(GOOD.replace("}", "'shape': (3, 4)}")), "twice"),
    "no descr": (npy("{'fortran_order': False, 'shape': (3, 4)}"), "'descr' is missing"),
    "no order": (npy("{'descr': '<f4', 'shape': (3, 4)}"), "'fortran_order' is missing"),
    "no shape": (npy("{'descr': '<f4', 'fortran_order': False}"), "'shape' is missing"),
    "bytes of no text": (npy(b"{'descr': '\xff\x00\x01'"), "malformed header"),
    "long descr": (with_descr("<f4" * 1000), "malformed header"),
    "shape of words": (with_shape("(three, 4)"), "malformed header"),
    "negative shape": (with_shape("(-3, 4)"), "malformed header"),
    "shape of a number": (with_shape("(12)"), "malformed header"),
    "shape without end": (with_shape("(3, 4"), "malformed header"),
    "1000 dimensions": (with_shape("(" + "1, " * 1000 + ")"), "malformed header"),
    "no dimensions": (with_shape("()"), "0 dimensions"),
    "three dimensions": (with_shape("(1, 3, 4)"), "3 dimensions"),
    "zero rows": (with_shape("(0, 4)"), "no rows"),
    "zero columns": (with_shape("(3, 0)"), "no elements"),
    "no elements": (with_shape("(0,)"), "no elements"),
    "row too long": (with_shape(f"(1, {2**22 + 1})"), "at most 4194304"),
    "too many rows": (with_shape(f"({2**31}, 4)"), "at most 2147483647"),
    "product over 2^64": (with_shape(f"({2**62}, {2**62})"), "at most"),
    "length over 2^64": (with_shape(f"(1, {2**64 + 4})"), "at most"),
    "absurd length": (with_shape("(3, " + "9" * 500 + ")"), "at most"),
    "huge claim": (with_shape(f"({2**31 - 1}, {2**22})"), "truncated"),
    "truncated data": (npy()[:-1], "truncated"),
    "no data": (npy(data=b""), "truncated"),
    "more data": (npy() + b"\0", "1 bytes follow"),
    "two arrays": (npy() + npy(), "bytes follow"),
    "Fortran order": (npy(GOOD.replace("False", "True")), "Fortran order"),
    "big endian": (with_descr(">f4"), "big endian"),
    "float64": (with_descr("<f8"), "'<f8'"),
    "int32": (with_descr("<i4"), "'<i4'"),
    "objects": (with_descr("|O"), "'|O'"),
    "structured": (with_descr([("a", "<f4")]), "structured"),
    "two bytes": (npy(GOOD.replace("<f4", "|V2"), data=bytes(24)), "--dtype-in bf16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(save, name):
    content, reason = REFUSED[name]
    path = save(content)
    for command in "sample", "show":
        message = refusal(command, path)
        assert str(path) in message
        assert reason in message


@pytest.mark.parametrize("kind", ["folder", "device", "pipe", "missing", "socket name"])
def test_no_regular_file(tmp_path, kind):
    path = tmp_path / "input"
    if kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = "/dev/null"
    elif kind == "pipe":
        os.mkfifo(path)  # without a writer: opening it must not wait for one
    elif kind == "socket name":
        path = tmp_path / ("x" * 300)
    message = refusal("sample", path)
    assert ("regular file" if kind in ("folder", "device", "pipe") else "name" if kind == "socket name" else "No such") in message


def test_file_name_with_a_newline(tmp_path):
    assert "two?lines" in refusal("sample", tmp_path / "two\nlines")


ACCEPTED = {
    "version 2": npy(version=(2, 0)),
    "version 3": npy(version=(3, 0)),
    "double quotes": npy(GOOD.replace("'", '"')),
    "other order and no spaces": npy("{'shape':(3,4),'fortran_order':False,'descr':'<f4'}"),
    "Python 2's long integers": npy(GOOD.replace("(3, 4)", "(3L, 4L)")),
    "data at an odd address": npy(GOOD, pad=False) if len(GOOD) % 2 else npy(GOOD + " ", pad=False),
    "long header": npy(GOOD + " " * 60000),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(save, name):
    def drop(objects):
        return [{k: v for k, v in o.items() if k != "seconds"} for o in objects]

    expected = drop(rows(save(ROW, "plain.npy"), "--temperature", 0.5, "--seed", 3))
    assert drop(rows(save(ACCEPTED[name]), "--temperature", 0.5, "--seed", 3)) == expected


def test_one_dimension_is_one_row(save):
    [row] = rows(save(ROW[1]), "--temperature", 0)
    assert row["row"] == 0 and row["tokens"] == [3]


def test_dtypes(save):
    """The same values in each dtype, and --dtype-in where it must fit."""
    values = np.random.default_rng(2).normal(0, 2, (4, 300)).astype(np.float32)
    values = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)  # exact as bf16
    half = values.astype(np.float16)
    as_bf16 = (values.view(np.uint32) >> 16).astype(np.uint16)

    def tokens(array, *more):
        return [(r["tokens"], r["raw_logprobs"]) for r in rows(save(array), "--top-p", 0.9, *more)]

    expected = tokens(values)
    assert tokens(values, "--dtype-in", "f32") == expected
    assert tokens(as_bf16, "--dtype-in", "bf16") == expected
    assert tokens(as_bf16.view("V2"), "--dtype-in", "bf16") == expected
    assert tokens(half) == tokens(half.astype(np.float32))
    assert "not f16" in refusal("sample", save(values), "--dtype-in", "f16")
    assert "not bf16" in refusal("sample", save(half), "--dtype-in", "bf16")
    assert "--dtype-in bf16" in refusal("sample", save(as_bf16), "--dtype-in", "f16")


def test_random_damage(save):
    """Bytes of a good file changed, removed and inserted: a result or one line, never a crash."""
    source = random.Random(5)
    whole = npy()
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(min(len(damaged), 80))
            kind = source.randrange(3)
            if kind == 0:
                damaged[at] = source.randrange(256)
            elif kind == 1:
                del damaged[at : at + source.randint(1, 3)]
            else:
                damaged[at:at] = source.choice([b"(", b")", b"'", b",", b"9", b"L", b"{", b"}", b"\\", b"\0"])
        done = run("sample", save(bytes(damaged)), "--json")
        assert done.returncode in (0, 2), (bytes(damaged), done.stderr)
        assert done.stderr.count(b"\n") == (done.returncode == 2), bytes(damaged)
