#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints where the current Python environment keeps libllama and the version of llama-cpp-python.

    python scripts/find_llama.py              two lines: the path, the version
    python scripts/find_llama.py --path       the path only
    python scripts/find_llama.py --version    the version only

Exits with 1 and a message when the package or its library is missing. The library is not loaded.
"""

import importlib.metadata
import importlib.util
import pathlib
import sys

PACKAGE = "llama-cpp-python"


def find():
    """The path of libllama and the version of the package that brought it."""
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"{PACKAGE} is not installed in this Python environment")
    spec = importlib.util.find_spec("llama_cpp")  # does not run the package
    folders = [pathlib.Path(place) for place in spec.submodule_search_locations] if spec else []
    for folder in folders:
        for name in ("libllama.so", "libllama.dylib"):
            for path in (folder / "lib" / name, folder / name):
                if path.is_file():
                    return path, version
    raise SystemExit(f"{PACKAGE} {version} has no libllama")


def main():
    if sys.argv[1:] not in ([], ["--path"], ["--version"]):
        raise SystemExit("usage: find_llama.py [--path | --version]")
    path, version = find()
    if sys.argv[1:] != ["--version"]:
        print(path)
    if sys.argv[1:] != ["--path"]:
        print(version)


if __name__ == "__main__":
    main()
