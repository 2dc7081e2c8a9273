"""Counts for the GPU tests' receipt, kept up to date while pytest runs, so that a run that is cut reports what it did. Where
pytest-xdist spreads the tests over processes, the one that leads them counts.

TOMBOLA_TEST_REPORT names the file; receipt.py SUITE FILE EXIT_CODE prints its line for the receipt.
"""

import collections
import json
import pathlib
import sys

import pytest

OUT_OF_TIME = (124, 137)  # timeout's exit codes


class Receipt:
    """A pytest plugin that writes counts to a file after every test."""

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()
        self.collected, self.ended = 0, False
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        self.write()

    def write(self):
        state = {
            "collected": self.collected, "ended": self.ended, "counts": self.counts, "reasons": self.reasons,
        }  # fmt: skip
        self.path.write_text(json.dumps(state))

    def pytest_collection_finish(self, session):
        self.collected = max(self.collected, len(session.items))
        self.write()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.collected = len(ids)
        self.write()

    def pytest_collectreport(self, report):
        if report.failed:
            self.counts["failed"] += 1
        elif report.skipped:
            self.skip(report)

    def pytest_runtest_logreport(self, report):
        if report.failed:  # in the test itself, or in what it needs before or after
            self.counts["failed"] += 1
        elif report.skipped:
            self.skip(report)
        elif report.when == "call":
            self.counts["passed"] += 1
        if report.when == "teardown":
            self.counts["done"] += 1
            self.write()

    def skip(self, report):
        self.counts["skipped"] += 1
        self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self):
        self.ended = True
        self.write()


def line(name, path, code):
    if not path.exists():
        return {"name": name, "passed": 0, "failed": 1, "skipped": 0, "reason": f"pytest ended with code {code}"}
    state = json.loads(path.read_text())
    counts = collections.Counter(state["counts"])
    reasons = [f"{text} ({count})" for text, count in collections.Counter(state["reasons"]).most_common()]
    left = state["collected"] - counts["done"]
    if code in OUT_OF_TIME:
        counts["skipped"] += max(left, 1)
        reasons.insert(0, f"the time limit came before {left} tests of {state['collected']}")
    elif not state["ended"] or code not in (0, 1):
        counts["failed"] += 1
        reasons.insert(0, f"pytest ended with code {code} before {left} tests of {state['collected']}")
    result = {"name": name, **{key: counts[key] for key in ("passed", "failed", "skipped")}}
    if reasons:
        result["reason"] = "; ".join(reasons)[:400]
    return result


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(json.dumps(line(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))))
