"""The README's examples run, and the NumPy one draws the tokens that the command line draws."""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from arrays import ROOT, has_cuda, torch

README = (ROOT / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def example(word):
    found = [text for text in EXAMPLES if f"import {word}" in text]
    assert len(found) == 1, f"the README has {len(found)} examples with {word}"
    return found[0]


def binary():
    named = os.environ.get("TOMBOLA_BIN")
    path = pathlib.Path(named) if named else ROOT / "build" / "run" / "cli" / "tombola"
    if not path.exists():
        pytest.skip("there is no command line: `make run` builds it, or TOMBOLA_BIN names it")
    return str(path)


def test_numpy_example_equals_the_command_line(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(compile(example("numpy"), "README.md", "exec"), names)
    tokens = names["tokens"]
    assert isinstance(tokens, np.ndarray) and tokens.ndim == 1 and len(tokens) > 1

    command = re.search(r"^ +tombola (sample data/\S+ .*)$", README, re.MULTILINE)
    assert command, "the README has no `tombola sample data/...`"
    done = subprocess.run([binary(), *command[1].split(), "--json"], capture_output=True, text=True, check=True)
    drawn = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["tokens"] for row in drawn] == [[t] for t in tokens.tolist()]


def test_torch_example():
    if torch is None or not has_cuda:
        pytest.skip("torch or a CUDA device is missing")
    names = {}
    exec(compile(example("torch"), "README.md", "exec"), names)
    assert names["tokens"].is_cuda
