"""Designs that improve themselves: what the model promises for three shapes, and what RANS makes of it.

    python benchmarks/improve.py [SHAPE ...]      # ten minutes of one core; needs OpenFOAM

Each shape is improved as the command does without options, and both it and the better one are solved (--verify). What
was solved with the present model stays in benchmarks/results/improve.json; another model starts anew.

Writes benchmarks/results/improve.json and .md.
"""

import argparse
import hashlib
import json
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import torch

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.improve.improve import improve
from aerosurrogate.predict import MODELS
from aerosurrogate.surrogate import find_model
from aerosurrogate.writing import write_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHAPES = {
    "car": (str(ROOT / "sample_meshes" / "car.stl"), StreamOptions(speed=30.0)),
    "fastback": (str(ROOT / "sample_meshes" / "fastback.stl"), StreamOptions(speed=30.0)),
    "naca2412": ("naca2412", StreamOptions(alpha=4.0, reynolds=3e6)),
}


def model_of(shape: str) -> tuple[str, str]:
    """The model's name, and letters that change with its weights."""
    name = MODELS[2 if shape.startswith("naca") else 3]
    return name, hashlib.sha256(find_model(name).read_bytes()).hexdigest()[:8]


def measure(shape: str, folder: Path) -> dict[str, Any]:
    file, stream = SHAPES[shape]
    out = folder / f"{shape}_better{'.dat' if shape.startswith('naca') else '.stl'}"
    result = improve(file, out, stream, verify=True, device="cpu")
    result.show()
    kept = {"model": model_of(shape), "date": date.today().isoformat()}
    found = {k: v for k, v in result.document().items() if k not in ("designs", "reference", "failed", "written")}
    return kept | found | {"trust": [flow.row()["trust"] for flow in result.flows]}


def page(results: dict[str, Any]) -> str:
    text = """# Designs that improve themselves

`aerosurrogate improve SHAPE --out better --verify` without further options: bodies keep volume, length, wheels and
frontal area, sections volume, thickness and lift; the skin moves by 3 % of the length at most. Predicted: means over
draws of points that no step has seen. Solved: RANS of both on one mesh (bodies), at one lift (sections).

| shape | predicted C_D | change | chance of a gain | solved C_D | change | moved | steps | model, date |
|---|---|---|---|---|---|---|---|---|
"""
    for shape, r in results.items():
        name, digest = r["model"]
        solved = r["verified"]
        said = (
            f"{solved['before']['cd']:.5f} -> {solved['after']['cd']:.5f} | {solved['gain']:+.1%}"
            if isinstance(solved, dict)
            else f"not solved: {solved} | -"
        )
        text += (
            f"| {shape} | {r['before']:.5f} -> {r['after']:.5f} | {r['after'] / r['before'] - 1:+.1%} | "
            f"{r['chance_better']:.0%} | {said} | {1000 * r['steps'][-1]['moved']:.0f} mm | {len(r['steps'])} | "
            f"`{name}` {digest}, {r['date']} |\n"
        )
    ends = "; ".join(f"{shape}: {r['ended']}" for shape, r in results.items())
    return f"{text}\nWhy they ended: {ends}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=[], metavar="SHAPE", help=", ".join(SHAPES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = RESULTS / "improve.json"
    results = json.loads(record.read_text()) if record.exists() else {}
    for shape in options.shapes or SHAPES:
        if results.get(shape, {}).get("model") == list(model_of(shape)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            results[shape] = json.loads(json.dumps(measure(shape, Path(folder))))
        write_json(record, results)
        write_text(RESULTS / "improve.md", page({s: results[s] for s in SHAPES if s in results}))


if __name__ == "__main__":
    main()
