"""The library by name, as TVM programs load it, without the package's functions."""

import numpy as np
import pytest
import tvm_ffi

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
