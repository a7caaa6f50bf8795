#!/usr/bin/env python3
"""bench/results/latest.json (or the file named) as a table for figures.md."""
import json
import os
import sys

path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "results",
    "latest.json")
with open(path, encoding="utf-8") as f:
    rows = json.load(f)
print("| figure | value | least to most | how |\n|---|---|---|---|")
for r in rows:
    d = r["detail"]
    value = "not measured" if r["value"] is None else f"{r['value']:.4g} {r['unit']}".strip()
    spread = f"{d['low']:.4g} to {d['high']:.4g}" if "low" in d else ""
    print(f"| `{r['name']}` | {value} | {spread} | {d['text'].replace('|', '/')} |")
