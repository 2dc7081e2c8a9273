"""Prints a pytest run as one line for the GPU tests' receipt:  junit.py SUITE RESULTS.xml"""

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def counts(name, path):
    if not path.exists():
        return {"name": name, "passed": 0, "failed": 1, "skipped": 0, "reason": "pytest did not get to its end"}
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    reasons = collections.Counter()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for key in total:
            total[key] += int(suite.get(key, 0))
        reasons.update(skip.get("message", "") for skip in suite.iter("skipped"))
    failed = total["failures"] + total["errors"]
    line = {
        "name": name,
        "passed": total["tests"] - failed - total["skipped"],
        "failed": failed,
        "skipped": total["skipped"],
    }
    if reasons:
        line["reason"] = "; ".join(f"{text} ({count})" for text, count in reasons.most_common())[:400]
    return line


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(json.dumps(counts(sys.argv[1], pathlib.Path(sys.argv[2]))))
