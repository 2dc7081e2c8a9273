"""Threads, forked processes and what import costs."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tombola
from tombola import _seeds


def test_threads(logits):
    expected = [tombola.sample(logits, seed=s, top_p=0.9).tolist() for s in range(4)]
    wrong = []

    def work(seed):
        for count in range(300):
            if tombola.sample(logits, seed=seed, top_p=0.9, threads=count % 3).tolist() != expected[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _child(connection, logits):
    connection.send((tombola.sample(logits, seed=5).tolist(), tombola.sample(logits).tolist()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_forked_children_work_and_do_not_repeat_their_parent(monkeypatch):
    monkeypatch.setattr(_seeds, "_chosen", False)  # other tests have called manual_seed
    wide = np.zeros((64, 1000), np.float32)
    tombola.sample(wide)  # the parent's worker threads run
    context = multiprocessing.get_context("fork")
    results = []
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=_child, args=(there, wide))
        child.start()
        assert here.poll(60), "a forked child hangs"
        results.append(here.recv())
        child.join(60)
        assert child.exitcode == 0
    seeded = tombola.sample(wide, seed=5).tolist()
    assert [r[0] for r in results] == [seeded, seeded]
    assert results[0][1] != results[1][1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_forked_children_repeat_a_seed_that_was_chosen():
    wide = np.zeros((64, 1000), np.float32)
    tombola.manual_seed(5)
    context = multiprocessing.get_context("fork")
    results = []
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=_child, args=(there, wide))
        child.start()
        assert here.poll(60), "a forked child hangs"
        results.append(here.recv()[1])
        child.join(60)
    assert results[0] == results[1] == tombola.sample(wide).tolist()


def test_seeds_of_numpy_are_words():
    wide = np.zeros((4, 1000), np.float32)
    tombola.manual_seed(np.uint64((1 << 64) - 1))
    first = tombola.sample(wide).tolist()
    tombola.manual_seed((1 << 64) - 1)
    assert tombola.sample(wide).tolist() == first


def test_a_process_ends_while_worker_threads_live():
    program = "import numpy, tombola; print(tombola.sample(numpy.zeros((50, 9), 'f'), seed=1).shape)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(50,)\n", "")


def test_import_brings_no_array_library_but_those_of_tvm_ffi():
    program = """
import sys, tvm_ffi
before = set(sys.modules)
import tombola
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new & {"numpy", "torch", "jax", "cupy"}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr
