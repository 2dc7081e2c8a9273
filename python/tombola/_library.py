"""The compiled library, through tvm-ffi: `run(x, field, value, ...)` and the numbers of its fields."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import tvm_ffi

_PATH = pathlib.Path(__file__).with_name("libtombola_ffi.so")
if not _PATH.exists():
    raise ImportError(f"tombola was not installed with its library: there is no {_PATH.name} beside {__file__}")

tvm_ffi.error.register_error("NotImplementedError", NotImplementedError)
_module = tvm_ffi.load_module(str(_PATH))

run: Callable[..., None] = _module["run"]
plan: Callable[..., str] = _module["plan"]
info: Callable[..., str] = _module["info"]
VERSION: int = _module["version"]()

# Programs that look functions up by name in tvm-ffi's registry find them there.
for _name in ("run", "plan", "info", "fields", "version"):
    tvm_ffi.register_global_func(f"tombola.{_name}", _module[_name], override=True)

FIELDS: dict[str, int] = {name: number for number, name in enumerate(_module["fields"]().split())}
NAMES: list[str] = list(FIELDS)

TEMPERATURE = FIELDS["temperature"]
TOP_K = FIELDS["top_k"]
TOP_P = FIELDS["top_p"]
MIN_P = FIELDS["min_p"]
JOINT_TOP_K = FIELDS["joint_top_k"]
JOINT_TOP_P = FIELDS["joint_top_p"]
KIND = FIELDS["kind"]
TIES = FIELDS["ties"]
METHOD = FIELDS["method"]
NUM_SAMPLES = FIELDS["num_samples"]
THREADS = FIELDS["threads"]
BACKEND = FIELDS["backend"]
TOP_RAW = FIELDS["top_raw"]
ADVANCE = FIELDS["advance"]
SEED = FIELDS["seed"]
OFFSET = FIELDS["offset"]
ROWS = FIELDS["rows"]
SLOTS = FIELDS["slots"]
LENGTHS = FIELDS["lengths"]
STREAMS = FIELDS["streams"]
RANDOM = FIELDS["random"]
IDS = FIELDS["ids"]
TOKENS = FIELDS["tokens"]
STATUS = FIELDS["status"]
ROUNDS = FIELDS["rounds"]
LOGPROBS = FIELDS["logprobs"]
RAW_LOGPROBS = FIELDS["raw_logprobs"]
RANKS = FIELDS["ranks"]
KEPT_COUNTS = FIELDS["kept_counts"]
KEPT_IDS = FIELDS["kept_ids"]
KEPT_MASS = FIELDS["kept_mass"]
TOTAL_MASS = FIELDS["total_mass"]
PROBABILITIES = FIELDS["probabilities"]
MASKED = FIELDS["masked"]
TOP_IDS = FIELDS["top_ids"]
TOP_LOGPROBS = FIELDS["top_logprobs"]
LOGPROBS_OF_IDS = FIELDS["logprobs_of_ids"]
RAW_LOGPROBS_OF_IDS = FIELDS["raw_logprobs_of_ids"]
ENTROPY = FIELDS["entropy"]
BFLOAT16 = FIELDS["bfloat16"]
STREAM = FIELDS["stream"]
WORKSPACE = FIELDS["workspace"]
NOT_CAPTURED = FIELDS["not_captured"]

#: The fields that a call writes (an offset too, where the call advances it).
OUTPUTS = frozenset(range(TOKENS, BFLOAT16))


def value_of(names: dict[str, int], argument: str, name: Any) -> int:
    """The number of a choice, or an error that names the argument."""
    try:
        return names[name]
    except (KeyError, TypeError):
        known = ", ".join(repr(n) for n in names)
        raise ValueError(f"{argument}: is {name!r}; it must be one of {known}") from None


KINDS = {"logits": 0, "probabilities": 1}
ALL_TIES = {"all": 0, "index": 1}
METHODS = {"exact": 0, "rejection": 1, "dual_pivot": 2}
BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2, "reference": 3}
