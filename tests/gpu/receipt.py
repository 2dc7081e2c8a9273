"""Writes tests/gpu/receipt.json: what was tested and measured on a GPU, of which sources.

    receipt.py suites RESULTS.jsonl     the suites' results, one JSON object a line
    receipt.py some RESULTS.jsonl       some suites' results, in place of what there is of them
    receipt.py figures FIGURES.json     the benchmark's figures, beside the suites of the same sources
    receipt.py pending REASON           no GPU was at hand

Results belong to the sources that they were measured on (scripts/receipt_hash.py): those of other sources are
dropped.
"""

import datetime
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import receipt_hash  # noqa: E402

RECEIPT = receipt_hash.RECEIPT


def device():
    """Name and driver version of the first GPU."""
    line = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True, check=True).stdout.splitlines()[0]
    name, driver = (part.strip() for part in line.split(","))
    return name, driver


def previous(sources):
    """The receipt that is there, if it is of these sources."""
    if RECEIPT.exists():
        old = json.loads(RECEIPT.read_text())
        if old.get("sources_sha256") == sources:
            return old
    return {}


def replaced(suites, new):
    """The suites, those of which there are new results with these; a suite's lines share its name."""
    names = {suite["name"] for suite in new}
    return [suite for suite in suites if suite["name"] not in names] + new


def main(what, argument):
    sources = receipt_hash.sources_sha256()
    old = previous(sources)
    receipt = {"sources_sha256": sources}
    name, driver = ("", "") if what == "pending" else device()
    suites, figures = old.get("suites", []), old.get("figures", [])
    if what == "pending":
        receipt["pending"], suites, figures = argument, [], []
    elif what in ("suites", "some"):
        new = [json.loads(line) for line in pathlib.Path(argument).read_text().splitlines() if line]
        suites = new if what == "suites" else replaced(suites, new)
        if what == "some" and not old.get("suites"):
            receipt["pending"] = "only some of the tests have run on these sources"
        if what == "some" and "pending" in old:
            receipt["pending"] = old["pending"]
    elif what == "figures":
        figures = json.loads(pathlib.Path(argument).read_text())
        if not suites:
            receipt["pending"] = "the tests have not run on these sources"
    else:
        sys.exit(__doc__)
    receipt.update(device=name, driver=driver, date=datetime.date.today().isoformat(), suites=suites, figures=figures)
    lines = [f'  {json.dumps(key)}: {json.dumps(value)}' for key, value in receipt.items() if key not in ("suites", "figures")]
    for key in ("suites", "figures"):
        entries = ",\n".join("    " + json.dumps(entry) for entry in receipt[key])
        lines.append(f'  "{key}": [\n{entries}\n  ]' if entries else f'  "{key}": []')
    RECEIPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    subprocess.run([sys.executable, ROOT / "bench/gpu/table.py"], check=False)  # the pages that tell of the receipt


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
