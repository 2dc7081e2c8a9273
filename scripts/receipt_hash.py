#!/usr/bin/env python3
"""The hash of everything that enters the build of the CUDA backend: sha256 over the sorted repository paths
and the contents of the sources, headers and build files, compiler flags included.

    scripts/receipt_hash.py            prints it
    scripts/receipt_hash.py --check    compares it with the one in tests/gpu/receipt.json; 1 when they differ
"""

import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src/api", "src/call", "src/cuda", "src/law")
FILES = ("CMakeLists.txt",)
SUFFIXES = (".h", ".c", ".cu", ".cuh", ".in", ".cmake")
RECEIPT = ROOT / "tests/gpu/receipt.json"


def sources():
    found = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return sorted(found, key=lambda path: path.relative_to(ROOT).as_posix())


def sources_sha256():
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def check():
    if not RECEIPT.exists():
        print("tests/gpu/receipt.json is missing: run scripts/gpu_test.sh on a machine with a GPU, or with --pending")
        return 1
    receipt = json.loads(RECEIPT.read_text())
    if receipt.get("sources_sha256") != sources_sha256():
        print("tests/gpu/receipt.json is not of these sources: run scripts/gpu_test.sh on a machine with a GPU, or "
              "with --pending \"reason\"")
        return 1
    failed = [suite["name"] for suite in receipt["suites"] if suite["failed"]]
    if failed:
        print(f"tests/gpu/receipt.json reports failures: {', '.join(failed)}")
        return 1
    if "pending" in receipt:
        print(f"GPU tests pending: {receipt['pending']}")
    else:
        passed = sum(suite["passed"] for suite in receipt["suites"])
        print(f"GPU tests on {receipt['device']}, {receipt['date']}: {passed} passed, none failed")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    print(sources_sha256())
