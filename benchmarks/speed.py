"""Time and memory of Transolver against the textbook order of operations and, where importable, NVIDIA PhysicsNeMo.

    python benchmarks/speed.py                          all sections, about half an hour on one core
    python benchmarks/speed.py --sections sizes memory

Times are CPU seconds of one thread, so that other work on the machine disturbs little; contenders take turns within
one process, and medians are compared. Peak memory is that of a fresh process for each figure, above what it held
before the call. Results go to benchmarks/results/DATE-MACHINE.{json,md,png}; sections not run keep their figures.

PhysicsNeMo can stand beside this environment's torch: `pip install --no-deps --target DIR nvidia-physicsnemo` with the
few packages it imports, then PYTHONPATH=DIR. What it takes from torchvision, timm, s3fs and onnx only to define other
models is replaced by stand-ins here.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import platform
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from textbook import Textbook
from torch import Tensor, nn

from aerosurrogate.transolver import Transolver

Grid = tuple[int, ...] | None


@dataclass(frozen=True)
class Size:
    """A model and a mesh of the paper. `layers` 8 as in the paper, fewer where only ratios between N are wanted."""

    N: int
    C: int
    M: int
    mlp_ratio: int
    grid: Grid = None
    layers: int = 8

    @property
    def name(self) -> str:
        return f"N={self.N:,} C={self.C} M={self.M}" + (" conv2d" if self.grid else "")

    def textbook(self) -> Textbook:
        torch.manual_seed(0)
        projection = "conv2d" if self.grid else "pointwise"
        keywords = {"layers": self.layers, "C": self.C, "slices": self.M, "mlp_ratio": self.mlp_ratio}
        return Textbook(7, 4, projection=projection, placeholder=not self.grid, **keywords).eval()

    def inputs(self) -> Tensor:
        return torch.randn(1, self.N, 7, generator=torch.Generator().manual_seed(1))

    @property
    def multiplications(self) -> int:
        """Of our forward pass, point by point (pointwise models)."""
        attention = min(3 * self.C * 8 * self.M, 3 * self.C * self.C + 3 * self.C * self.M)
        block = attention + 2 * self.mlp_ratio * self.C * self.C
        return self.N * (2 * 7 * self.C + 2 * self.C * self.C + self.layers * block + 4 * self.C)


CAR = Size(32_768, 256, 32, 2)
ELASTICITY = Size(972, 128, 64, 1)
DARCY = Size(7_225, 128, 64, 1, (85, 85))


def forward(model: Callable[..., Tensor], x: Tensor, grid: Grid) -> Callable[[], Any]:
    @torch.no_grad()
    def run() -> Tensor:
        return model(x, grid=grid)

    return run


def step(model: nn.Module, x: Tensor, grid: Grid) -> Callable[[], Any]:
    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(x, grid=grid).square().mean().backward()

    return run


def take_turns(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each, after one turn to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            if turn:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def matmul(count: int = 4) -> tuple[Callable[[], Any], int]:
    """A plain large product and its multiplications."""
    a, b = torch.randn(4096, 1024), torch.randn(1024, 1024)

    def run() -> None:
        for _ in range(count):
            a @ b

    return run, count * a.numel() * b.shape[1]


def sizes(repeats: int) -> dict[str, Any]:
    """Forward pass and training step at the paper's sizes, and the share of the matrix-multiply rate."""
    found = {}
    for size in (CAR, ELASTICITY, DARCY):
        textbook, x = size.textbook(), size.inputs()
        models: dict[str, nn.Module] = {"textbook": textbook}
        if size.grid is None and (peer := physicsnemo(textbook, size)) is not None:
            models["physicsnemo"] = peer
        models["ours"] = Transolver.from_reference(textbook.state_dict())
        fields = {name: forward(model, x, size.grid)() for name, model in models.items()}
        product, multiplications = matmul()
        turns = repeats if size is CAR else 3 * repeats  # the smaller, the noisier
        seconds = {
            "forward": take_turns(
                {name: forward(model, x, size.grid) for name, model in models.items()} | {"matmul": product}, turns
            ),
            "step": take_turns({name: step(model, x, size.grid) for name, model in models.items()}, turns),
        }
        rate = multiplications / seconds["forward"].pop("matmul")
        found[size.name] = {
            "seconds": seconds,
            "difference": {name: (y - fields["textbook"]).abs().max().item() for name, y in fields.items()},
            "share of matmul rate": None if size.grid else size.multiplications / seconds["forward"]["ours"] / rate,
        }
        print(size.name, json.dumps(found[size.name]), flush=True)
    return found


MEMORY = {  # name: (work, points, recompute)
    "textbook, step, 32,768": ("step", CAR.N, "textbook"),
    "ours, step, 32,768, cheap parts again": ("step", CAR.N, "cheap"),
    "ours, step, 32,768, tiles again": ("step", CAR.N, "tiles"),
    "textbook, forward, 32,768": ("forward", CAR.N, "textbook"),
    "ours, forward, 32,768": ("forward", CAR.N, "auto"),
    "ours, step, 262,144": ("step", 262_144, "auto"),
    "ours, forward, 1,000,000": ("forward", 1_000_000, "auto"),
}


def memory(repeats: int) -> dict[str, float]:
    """Peak GB above weights, their gradients and inputs, each in a process of its own."""
    found = {}
    for name, (work, points, recompute) in MEMORY.items():
        command = [sys.executable, __file__, "--measure", work, str(points), recompute]
        found[name] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1e9
        print(f"{name}: {found[name]:.2f} GB", flush=True)
    return found


def measure_memory(work: str, points: int, recompute: str) -> int:
    """Peak bytes of one call above those held before it (Linux)."""
    size = Size(points, CAR.C, CAR.M, CAR.mlp_ratio)
    model: nn.Module = size.textbook()
    if recompute != "textbook":
        model = Transolver.from_reference(model.state_dict())
        model.recompute = recompute
    x = size.inputs()
    step(model, x[:, :64], None)()  # gradients are there before, as in a training run
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    if work == "forward":
        forward(model, x, None)()
    else:
        model(x).square().mean().backward()
    return _memory("VmHWM") - before


def _memory(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def growth(repeats: int) -> dict[str, dict[str, float]]:
    """Forward seconds per million points and layer, N from 1k to 1M; two layers."""
    found: dict[str, dict[str, float]] = {}
    for points in (1_024, 8_192, 32_768, 131_072, 262_144, 1_000_000):
        size = Size(points, CAR.C, CAR.M, CAR.mlp_ratio, layers=2)
        textbook, x = size.textbook(), size.inputs()
        models: dict[str, nn.Module] = {"ours": Transolver.from_reference(textbook.state_dict())}
        if points <= 131_072:
            models["textbook"] = textbook
        turns = repeats if points > 32_768 else 2 * repeats + 1
        seconds = take_turns({name: forward(model, x, None) for name, model in models.items()}, turns)
        found[str(points)] = {name: 1e6 * s / points / size.layers for name, s in seconds.items()}
        print(points, found[str(points)], flush=True)
    return found


def compiled(repeats: int) -> dict[str, Any]:
    """Forward pass and training step through torch.compile, against the textbook eager and compiled; two layers."""
    size = Size(CAR.N, CAR.C, CAR.M, CAR.mlp_ratio, layers=2)
    textbook, x = size.textbook(), size.inputs()
    ours = Transolver.from_reference(textbook.state_dict())
    models = {
        "textbook": textbook,
        "textbook compiled": torch.compile(size.textbook()),
        "ours": ours,
        "ours compiled": torch.compile(Transolver.from_reference(textbook.state_dict()), fullgraph=True),
    }
    found: dict[str, Any] = {"forward": take_turns({n: forward(m, x, None) for n, m in models.items()}, repeats)}
    print("compiled", found, flush=True)
    found["step"] = take_turns({n: step(m, x, None) for n, m in models.items()}, repeats)
    print("compiled", found, flush=True)
    return found


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules whose every name is an empty class."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in {"torchvision", "timm", "s3fs", "onnx"}:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


class _StandIn(types.ModuleType):
    __version__ = "0"

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def physicsnemo(textbook: Textbook, size: Size) -> nn.Module | None:
    """PhysicsNeMo's model with the textbook's weights, called alike; None where it cannot be imported."""
    stand_ins = _StandIns()
    sys.meta_path.insert(0, stand_ins)
    try:
        from physicsnemo.models.transolver import Transolver as Peer
    except ImportError as error:
        print(f"PhysicsNeMo is left out: {error}", file=sys.stderr)
        return None
    finally:
        sys.meta_path.remove(stand_ins)
    peer = Peer(
        functional_dim=5,
        embedding_dim=2,
        out_dim=4,
        n_layers=size.layers,
        n_hidden=size.C,
        n_head=8,
        mlp_ratio=size.mlp_ratio,
        slice_num=size.M,
        use_te=False,
    ).eval()
    _load_textbook(peer, textbook)

    class Called(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.peer = peer

        def forward(self, x: Tensor, grid: Grid = None) -> Tensor:
            return self.peer(x[..., 2:], embedding=x[..., :2])

    return Called()


PEER_NAMES = {
    "preprocess.linear_pre.0": "preprocess.layers.0",
    "preprocess.linear_post": "preprocess.layers.2",
    "ln_2": "ln_mlp1.0",
    "mlp.linear_pre.0": "ln_mlp1.1.layers.0",
    "mlp.linear_post": "ln_mlp1.1.layers.2",
    "mlp2": "ln_mlp2.1",
    "ln_3": "ln_mlp2.0",
    "to_out.0": "out_linear",
}


def _load_textbook(peer: nn.Module, textbook: Textbook) -> None:
    with torch.no_grad():
        textbook.placeholder.zero_()  # it has none
    weights = {}
    for name, value in textbook.state_dict().items():
        for theirs, ours in PEER_NAMES.items():
            name = name.replace(f"{theirs}.", f"{ours}.")
        weights[name] = value.view(1, 1, -1, 1) if name.endswith("temperature") else value
    for k in range(len(textbook.blocks)):
        parts = [weights.pop(f"blocks.{k}.Attn.to_{letter}.weight") for letter in "qkv"]
        weights[f"blocks.{k}.Attn.qkv_project.weight"] = torch.cat(parts)
    del weights["placeholder"]
    missing, unexpected = peer.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("_extra_state" in name or "device_buffer" in name for name in missing), missing


def write(found: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path = folder / f"{date.today()}-{platform.machine()}"
    known = json.loads(path.with_suffix(".json").read_text()) if path.with_suffix(".json").exists() else {}
    found = known | found
    folder.mkdir(exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    text = table(found)
    path.with_suffix(".md").write_text(text)
    print("\n" + text)
    if "growth" in found:
        figure, axes = plt.subplots(figsize=(6, 4))
        for name in ("textbook", "ours"):
            line = [(int(n), row[name]) for n, row in found["growth"].items() if name in row]
            axes.loglog(*zip(*line, strict=True), "o-", label=name)
        axes.set(xlabel="points", ylabel="s per million points and layer", title="Forward pass, C=256, M=32, one core")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path.with_suffix(".png"), dpi=120, bbox_inches="tight")


def table(found: dict[str, Any]) -> str:
    lines = [f"# Speed and memory, {date.today()}", "", f"{found['machine']}; CPU seconds, medians.", ""]
    if "sizes" in found:
        lines += [
            "| size | work | ours, s | textbook / ours | PhysicsNeMo / ours | share of matmul rate |",
            "|---|---|---|---|---|---|",
        ]
        for name, row in found["sizes"].items():
            for work, s in row["seconds"].items():
                peer = f"{s['physicsnemo'] / s['ours']:.2f}" if "physicsnemo" in s else "-"
                share = row["share of matmul rate"] if work == "forward" else None
                rate = f"{share:.2f}" if share else "-"
                lines.append(
                    f"| {name} | {work} | {s['ours']:.3f} | {s['textbook'] / s['ours']:.2f} | {peer} | {rate} |"
                )
        lines.append("")
    if "compiled" in found:
        lines += [
            "| compiled, two layers | ours, s | textbook / ours | textbook compiled / ours |",
            "|---|---|---|---|",
        ]
        for work, s in found["compiled"].items():
            best = s["ours compiled"]
            lines.append(f"| {work} | {best:.3f} | {s['textbook'] / best:.2f} | {s['textbook compiled'] / best:.2f} |")
        lines.append("")
    if "memory" in found:
        lines += ["| peak memory above weights and inputs, C=256 M=32, 8 layers | GB |", "|---|---|"]
        lines += [f"| {name} | {value:.2f} |" for name, value in found["memory"].items()] + [""]
    if "growth" in found:
        lines += ["| points, forward | s per million points and layer: ours | textbook |", "|---|---|---|"]
        for n, row in found["growth"].items():
            lines.append(f"| {int(n):,} | {row['ours']:.2f} | {row.get('textbook', float('nan')):.2f} |")
        lines.append("")
    return "\n".join(lines)


SECTIONS = {"sizes": sizes, "memory": memory, "growth": growth, "compiled": compiled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", nargs=3, metavar=("WORK", "POINTS", "RECOMPUTE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        work, points, recompute = options.measure
        print(measure_memory(work, int(points), recompute))
        return
    machine = f"{_processor()}, torch {torch.__version__}, one thread"
    for name in options.sections:
        write({"machine": machine, name: SECTIONS[name](options.repeats)}, options.out)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


if __name__ == "__main__":
    main()
