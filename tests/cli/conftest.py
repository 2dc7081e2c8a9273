"""What the tests of the command line share.

    TOMBOLA_BIN=build/cli/tombola pytest tests/cli
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("TOMBOLA_BIN", ROOT / "build" / "cli" / "tombola")).resolve()
GEMMA = ROOT / "data" / "gemma3-270m" / "logits.npy"


def pytest_sessionstart(session):
    if not BINARY.is_file():
        pytest.exit(f"there is no command line at {BINARY}: build it, or set TOMBOLA_BIN", returncode=3)


def run(*arguments, env=None, **options):
    """Runs the command line; a hang fails the test."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TOMBOLA_ISA", "NO_COLOR")}
    environment.update(env or {})
    return subprocess.run(
        [str(BINARY), *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env=environment,
        **options,
    )


def output(*arguments, **options):
    """The standard output of a command that must succeed."""
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.decode()


def rows(*arguments, **options):
    """The objects of `sample --json`."""
    return [json.loads(line) for line in output("sample", *arguments, "--json", **options).splitlines()]


def refusal(*arguments, **options):
    """The message of a command that must fail: one line, exit status 2, nothing on standard output."""
    done = run(*arguments, **options)
    message = done.stderr.decode()
    assert done.returncode == 2, (done.returncode, message)
    assert done.stdout == b""
    assert message.startswith("tombola: ") and message.endswith("\n") and message.count("\n") == 1, message
    return message[len("tombola: ") : -1]


def on_terminal(columns, *arguments, env=None):
    """What a command writes to a terminal of so many columns."""
    environment = {"TERM": "xterm", "PATH": os.environ["PATH"], **(env or {})}
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.execve(BINARY, [str(BINARY), *map(str, arguments)], environment)
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def without_colours(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.fixture
def save(tmp_path):
    """Saves an array, or raw bytes, as a file in a folder of its own."""

    def write(array, name="logits.npy"):
        path = tmp_path / name
        if isinstance(array, bytes):
            path.write_bytes(array)
        else:
            np.save(path, array)
        return path

    return write


@pytest.fixture
def logits(save):
    """Five rows of 1000 random logits."""
    return save(np.random.default_rng(1).normal(0, 2, (5, 1000)).astype(np.float32))
