"""The line of the GPU tests' receipt: whole runs, cut ones, and runs that crashed."""

import json
import subprocess
import sys

import pytest
import receipt
from arrays import ROOT

TESTS = """
import os, pytest

def test_a(): pass
def test_b(): assert False
@pytest.mark.skip(reason="no such thing")
def test_c(): pass
@pytest.fixture
def broken(): raise ValueError
def test_d(broken): pass
def test_e(): END
"""


@pytest.mark.parametrize(
    "end, code, passed, failed, skipped, reason, options",
    [
        ("pass", None, 2, 2, 1, "no such thing (1)", ()),
        ("os._exit(7)", None, 1, 3, 1, "code 7 before 1 tests of 5", ()),
        ("os._exit(7)", 124, 1, 2, 2, "the time limit came before 1 tests of 5", ()),
        ("pass", None, 2, 2, 1, "no such thing (1)", ("-n", "2")),
        ("os._exit(7)", None, 1, 3, 1, "no such thing (1)", ("-n", "2")),  # pytest-xdist reports a process's end as a failure
    ],
)
def test_line(tmp_path, end, code, passed, failed, skipped, reason, options):
    if options:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    (tmp_path / "test_it.py").write_text(TESTS.replace("END", end))
    (tmp_path / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'tests' / 'python')!r})\n"
        "from receipt import Receipt\n"
        "def pytest_configure(config):\n"
        "    if not hasattr(config, 'workerinput'): config.pluginmanager.register(Receipt('report.json'))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True)
    line = receipt.line("python", tmp_path / "report.json", run.returncode if code is None else code)
    assert reason in line.pop("reason")
    assert line == {"name": "python", "passed": passed, "failed": failed, "skipped": skipped}
    json.dumps(line)


def test_no_report(tmp_path):
    assert receipt.line("python", tmp_path / "none", 4)["failed"] == 1
