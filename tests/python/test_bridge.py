"""The library by name, as TVM programs load it, without the package's functions."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi
from arrays import ROOT

import tombola
from tombola import _library


@pytest.fixture
def module():
    return tvm_ffi.load_module(str(_library._PATH))


def test_functions_by_name(module, logits):
    tokens = np.empty(5, np.int32)
    chain = ("temperature", 0.8, "min_p", 0.05, "top_k", 40, "top_p", 0.95)
    module["run"](logits, *chain, "seed", 7, "tokens", tokens)
    assert (tokens == tombola.sample(logits, temperature=0.8, min_p=0.05, top_k=40, top_p=0.95, seed=7)).all()
    assert "cpu" in module["plan"](logits, *chain)
    assert module["version"]() == _library.VERSION
    assert module["info"]() == tombola.info()


def test_functions_in_the_registry(logits):
    probabilities = np.empty_like(logits)
    tvm_ffi.get_global_func("tombola.run")(logits, "joint_top_k", 9, "joint_top_p", 0.5, "probabilities", probabilities)
    assert (probabilities == tombola.renorm(logits, chain=tombola.Chain([tombola.TopKTopP(9, 0.5)]))).all()


def test_a_program_in_cpp(tmp_path):
    """examples/tvm, built as its comment says."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")

    def config(*wanted):
        command = [sys.executable, "-m", "tvm_ffi.config", *wanted]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    program = tmp_path / "sample"
    flags = [flag for wanted in ("--cxxflags", "--ldflags", "--libs") for flag in config(wanted)]
    subprocess.run([compiler, ROOT / "examples/tvm/sample.cc", "-o", program, *flags], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": config("--libdir")[0]}
    done = subprocess.run([program, _library._PATH], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    number = np.arange(4000)
    logits = ((number * 7919 % 1000).astype(np.float32) / np.float32(100)).reshape(4, 1000)
    expected = tombola.sample(logits, temperature=0.8, top_k=40, top_p=0.95, seed=7, return_logprobs=True)
    assert [int(token) for token, _ in printed] == expected.tokens.tolist()
    assert [np.float32(logprob) for _, logprob in printed] == expected.logprobs.tolist()


def test_tensors_of_tvm_ffi(logits):
    tokens = np.empty(5, np.int32)
    tombola.sample(tvm_ffi.from_dlpack(logits), seed=2, out=tokens)
    assert (tokens == tombola.sample(logits, seed=2)).all()
    with pytest.raises(TypeError, match="^out: must be given"):
        tombola.sample(tvm_ffi.from_dlpack(logits), seed=2)


@pytest.mark.parametrize(
    "arguments, kind, reason",
    [
        ((), TypeError, "logits: is missing"),
        ((None,), TypeError, "logits: must be a tensor"),
        (("x", "seed"), TypeError, "pairs"),
        (("x", "sed", 1), ValueError, "'sed'"),
        (("x", 10_000, 1), ValueError, "10000"),
        (("x", -1, 1), ValueError, "-1"),
        (("x", 1.5, 1), TypeError, "named by"),
        (("x", "joint_top_p", 0.5), ValueError, "joint_top_p: must follow"),
        (("x", "joint_top_k", 5, "joint_top_p", 0.5, "joint_top_p", 0.5), ValueError, "joint_top_p: must follow"),
        (("x", "tokens", 1), TypeError, "tokens: must be a tensor"),
        (("x", "ties", 2), ValueError, "ties"),
        (("x", "ties", "all"), TypeError, "ties: must be an integer"),
        (("x", "top_k", "many"), TypeError, "top_k"),
    ],
)
def test_refusals(module, logits, arguments, kind, reason):
    with pytest.raises(kind, match=reason):
        module["run"](*[logits if isinstance(a, str) and a == "x" else a for a in arguments])


def test_fields_are_all_named():
    assert len(set(_library.NAMES)) == len(_library.NAMES) > 40
    constants = {name.lower(): value for name, value in vars(_library).items() if name.isupper() and isinstance(value, int)}
    for name, number in _library.FIELDS.items():
        assert constants[name] == number
