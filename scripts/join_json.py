"""Joins JSON files that hold lists of cells into one, a cell a line:  join_json.py OUT PART..."""

import json
import sys

cells = [cell for path in sys.argv[2:] for cell in json.load(open(path))]
with open(sys.argv[1], "w") as out:
    out.write("[\n  " + ",\n  ".join(json.dumps(cell) for cell in cells) + "\n]\n")
print(len(cells), "cells in", sys.argv[1])
