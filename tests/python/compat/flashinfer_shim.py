"""A pytest plugin under which `import flashinfer` finds tombola.compat.flashinfer, so that FlashInfer's own
tests run as they are:

    python -m pytest -p flashinfer_shim [--flashinfer-report FILE] FOLDER/test_sampling.py
    python flashinfer_shim.py FILE    prints the report's counts as one line

flashinfer_left_out.txt beside it lists what is left out, and why. After FLASHINFER_TEST_SECONDS (without it, never) the
tests that are left are skipped. The report is written as the run goes on, so that there is one of a run that is
killed. scripts/flashinfer_tests.sh calls it.
"""

import collections
import fnmatch
import gc
import json
import os
import pathlib
import sys
import time
import traceback
import types

import pytest
import torch

SECONDS_BETWEEN_REPORTS = 5
WAITS_FOR_MEMORY, SECONDS_OF_WAIT = 5, 3

LEFT_OUT = pathlib.Path(__file__).with_name("flashinfer_left_out.txt")


def install():
    """Puts tombola's functions where tests look for FlashInfer's."""
    from tombola.compat import flashinfer

    # Two names of flashinfer.utils that tests use and that have nothing to do with sampling.
    utils = types.ModuleType("flashinfer.utils")
    utils.get_compute_capability = lambda device: torch.cuda.get_device_capability(device)
    utils._cache_buf = {}
    flashinfer.utils = utils
    for name in ("sampling", "topk", "utils"):
        sys.modules[f"flashinfer.{name}"] = getattr(flashinfer, name)
    sys.modules["flashinfer"] = flashinfer


def read_left_out(path=LEFT_OUT):
    """[(pattern, reason)] from lines `pattern: reason`; a pattern is matched with "file::test[parameters]"."""
    rules = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, reason = line.split(": ", 1)
            rules.append((pattern.strip(), reason.strip()))
    return rules


def _matches(pattern, name):
    # fnmatch gives [] a meaning that test names do not
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


class Report:
    """Counts of a run. With pytest-xdist workers collect and the controller counts outcomes."""

    def __init__(self, config):
        self.config = config
        self.rules = read_left_out()
        self.start = self.written = time.time()
        self.collected = 0
        self.left_out = collections.Counter()
        self.outcomes = collections.Counter()
        self.skips = collections.Counter()
        self.failed = []
        self.slowest = []

    def pytest_collection_modifyitems(self, config, items):
        kept, left = [], []
        for item in items:
            name = f"{item.path.name}::{item.name}"
            rule = next((rule for rule in self.rules if _matches(rule[0], name)), None)
            if rule:
                self.left_out[": ".join(rule)] += 1
            (left if rule else kept).append(item)
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept
        if hasattr(config, "workeroutput"):
            config.workeroutput["left_out"] = dict(self.left_out)

    def pytest_collection_finish(self, session):
        self.collected = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.collected = len(ids)

    def pytest_runtest_setup(self):
        if time.time() > float(os.environ.get("FLASHINFER_TEST_END", "inf")):
            pytest.skip("the time was over")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """Calls the test; one that finds the device's memory taken by the other processes waits, and begins again."""
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for attempt in range(WAITS_FOR_MEMORY + 1):
            try:
                pyfuncitem.obj(**arguments)
                return True
            except torch.OutOfMemoryError as error:
                if attempt == WAITS_FOR_MEMORY:
                    raise
                traceback.clear_frames(error.__traceback__)  # they hold tensors
            gc.collect()
            torch.cuda.empty_cache()
            time.sleep(SECONDS_OF_WAIT)

    def pytest_runtest_teardown(self):
        # Many processes share the device's memory: none keeps much that it does not use.
        if torch.cuda.is_available() and torch.cuda.memory_reserved() > 4 << 30:
            torch.cuda.empty_cache()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.left_out = collections.Counter(getattr(node, "workeroutput", {}).get("left_out", self.left_out))

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
            if report.skipped and isinstance(report.longrepr, tuple):
                self.skips[report.longrepr[2].removeprefix("Skipped: ")] += 1
            if report.failed:
                self.failed.append(report.nodeid.split("/")[-1])
        if report.when == "call":
            self.slowest.append((round(report.duration, 2), report.nodeid.split("/")[-1]))
        if time.time() > self.written + SECONDS_BETWEEN_REPORTS:
            self.write()

    def pytest_sessionfinish(self):
        self.write()

    def write(self):
        path = self.config.getoption("--flashinfer-report")
        if not path or hasattr(self.config, "workeroutput"):
            return
        self.written = time.time()
        skips = collections.Counter(self.skips)
        missing = self.collected - sum(self.outcomes.values())
        if missing > 0:
            skips["not reached"] = missing
        result = {
            "name": "flashinfer",
            "passed": self.outcomes["passed"],
            "failed": self.outcomes["failed"],
            "skipped": self.outcomes["skipped"] + missing,
            "reason": "; ".join(f"{reason} ({count})" for reason, count in skips.most_common()),
            "left_out": dict(self.left_out),
            "failures": sorted(self.failed),
            "seconds": round(time.time() - self.start),
            "slowest": sorted(self.slowest, reverse=True)[:20],
        }
        pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n")


def pytest_addoption(parser):
    parser.addoption("--flashinfer-report", help="write the counts of this run to a file, as JSON")


def pytest_configure(config):
    install()
    if not hasattr(config, "workerinput") and "FLASHINFER_TEST_SECONDS" in os.environ:
        # workers inherit it
        os.environ["FLASHINFER_TEST_END"] = str(time.time() + float(os.environ["FLASHINFER_TEST_SECONDS"]))
    config.pluginmanager.register(Report(config), "flashinfer-report")


if __name__ == "__main__":
    counts = json.loads(pathlib.Path(sys.argv[1]).read_text())
    print(json.dumps({k: counts[k] for k in ("name", "passed", "failed", "skipped", "reason", "left_out")}))
