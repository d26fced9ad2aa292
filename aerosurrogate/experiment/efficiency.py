"""Efficiency: seconds and memory of a training step by number of points, for every kind that takes any points."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from aerosurrogate import console
from aerosurrogate.devices import choose_device
from aerosurrogate.experiment.plans import KINDS, QUADRATIC, Scale
from aerosurrogate.experiment.table import plain
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Interface, Model
from aerosurrogate.model.registry import alike, find_kind
from aerosurrogate.writing import replacing, write_text

SIZES = {"small": (1024, 4096), "paper": (1024, 4096, 16384, 32768, 131072)}
REPEATS = 3
ABOUT = """A step is a forward and a backward pass on one case of random points, the least of three (on a CPU, seconds
of its threads); memory is what is kept between the two. The paper gives curves, and for 1,024 points 0.6 GB, 38 ms."""


@dataclass(frozen=True)
class Cost:
    seconds: float  # the least of some steps
    memory: float  # MB kept between the forward and the backward pass


def costs(scale: Scale, device: str) -> dict[str, dict[int, Cost]]:
    """Costs of a step by row and number of points."""
    sizes = (
        TransolverConfig(layers=2, channels=32, heads=4, slices=16, dropout=0.0)
        if scale == "small"
        else TransolverConfig(dropout=0.0)
    )
    interface = Interface(inputs=2, outputs=1, dimensions=2)
    found: dict[str, dict[int, Cost]] = {}
    for row, kind in KINDS.items():
        if kind == "fno2d":
            continue
        torch.manual_seed(0)
        model = find_kind(kind)(interface, alike(sizes, kind)).to(choose_device(device))
        counts = [n for n in SIZES[scale] if row not in QUADRATIC or n <= 16384]
        found[row] = {n: cost(model, n) for n in counts}
        console.note(f"{row}: " + ", ".join(f"{n} points {c.seconds:.3g} s" for n, c in found[row].items()))
    return found


def cost(model: Model, points: int) -> Cost:
    """Of one forward and backward pass."""
    device = next(model.parameters()).device
    inputs = torch.rand(1, points, model.interface.inputs, device=device)
    kept = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.untyped_storage().nbytes() if tensor.data_ptr() not in seen else 0
        seen.add(tensor.data_ptr())
        return tensor

    clock = time.process_time if device.type == "cpu" else time.perf_counter  # other work must not count
    times = []
    for repeat in range(REPEATS):
        seen: set[int] = set()
        start = clock()
        if repeat:
            loss = model(inputs).square().mean()
        else:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                loss = model(inputs).square().mean()
        loss.backward()
        torch.get_device_module(device).synchronize()
        times.append(clock() - start)
    return Cost(min(times), kept / 2**20)


def write(folder: Path, scale: Scale, found: dict[str, dict[int, Cost]]) -> Path:
    """efficiency.md and efficiency.png: seconds and kept memory of a step against the number of points."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    counts = sorted({n for by in found.values() for n in by})
    lines = ["# Efficiency", "", ABOUT, "", f"Scale `{scale}`.", "", "![Efficiency](efficiency.png)", ""]
    lines += ["| | " + " | ".join(f"{n:,} points: s | MB" for n in counts) + " |", "|---" * (2 * len(counts) + 1) + "|"]
    for row, by in found.items():
        cells = [f"{by[n].seconds:.3g} | {by[n].memory:.3g}" if n in by else "- | -" for n in counts]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    figure = Figure(figsize=(10, 4), layout="constrained")
    for place, (title, pick) in enumerate((("seconds a step", "seconds"), ("MB kept for the backward pass", "memory"))):
        axes = figure.add_subplot(1, 2, place + 1)
        for number, (row, by) in enumerate(found.items()):
            values, colour = [getattr(cost, pick) for cost in by.values()], f"C{number}" if number < 10 else "black"
            axes.plot(list(by), values, "o-", label=row, markersize=3, color=colour)
        axes.set(title=title, xlabel="points", xscale="log")
        axes.set_xticks(counts, labels=[f"{n:,}" for n in counts])
        axes.xaxis.minorticks_off()
        plain(axes.yaxis, [getattr(cost, pick) for by in found.values() for cost in by.values()])
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    with replacing(folder / "efficiency.png") as temporary:
        figure.savefig(temporary, dpi=130)
    write_text(folder / "efficiency.md", "\n".join(lines) + "\n")
    return folder / "efficiency.md"
