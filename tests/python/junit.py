"""Prints a pytest run as one line for the GPU tests' receipt:  junit.py SUITE RESULTS.xml EXIT_CODE

A run that a time limit has cut (timeout -s INT) counts what it has done, and says so.
"""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


OK, FAILED = 0, 1  # pytest's exit codes for a run that got to its end
TIMED_OUT = 124  # timeout's


def counts(name, path, code):
    if not path.exists():
        return {"name": name, "passed": 0, "failed": 1, "skipped": 0, "reason": f"pytest ended with code {code}"}
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    reasons = collections.Counter()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for key in total:
            total[key] += int(suite.get(key, 0))
        reasons.update(skip.get("message", "") for skip in suite.iter("skipped"))
    cut = code == TIMED_OUT
    if cut:
        total["skipped"] += 1
        total["tests"] += 1
        reasons["the time limit cut the run: what was left to do"] += 1
    failed = total["failures"] + total["errors"] + (code not in (OK, FAILED) and not cut)
    line = {
        "name": name,
        "passed": total["tests"] - total["failures"] - total["errors"] - total["skipped"],
        "failed": failed,
        "skipped": total["skipped"],
    }
    if reasons:
        line["reason"] = "; ".join(f"{text} ({count})" for text, count in reasons.most_common())[:400]
    return line


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(json.dumps(counts(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]))))
