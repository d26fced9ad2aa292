"""Time and memory of Transolver against the textbook order of operations and, where importable, NVIDIA PhysicsNeMo.

    python benchmarks/speed.py                          all sections, about a quarter of an hour on a quiet core
    python benchmarks/speed.py --sections sizes memory

Times are CPU seconds of one thread, so that other work on the machine disturbs little; contenders take turns within
one process, and medians are compared, which leave out a slow first turn. Peak memory is that of a fresh process for
each figure, above what it held before the call. Results go to benchmarks/results/DATE-MACHINE.{json,md,png}; sections
not run keep their figures.

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

from aerosurrogate.model.authors import from_authors

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


def take_turns(runs: dict[Any, Callable[[], Any]], turns: int) -> dict[Any, float]:
    """Median CPU seconds of each."""
    seconds: dict[Any, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def contenders(size: Size) -> dict[str, nn.Module]:
    """Models with the same weights."""
    models: dict[str, nn.Module] = {"textbook": (textbook := size.textbook())}
    if size.grid is None and (peer := physicsnemo(textbook, size)) is not None:
        models["physicsnemo"] = peer
    return models | {"ours": from_authors(textbook.state_dict())}


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
        models, x = contenders(size), size.inputs()
        fields = {name: forward(model, x, size.grid)() for name, model in models.items()}
        product, multiplications = matmul()
        turns = repeats * min(10, CAR.N // size.N)  # the smaller, the noisier
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


MEMORY = {  # name: (work, points, the contender or what ours recomputes)
    "textbook, step, 32,768": ("step", CAR.N, "textbook"),
    "PhysicsNeMo, step, 32,768": ("step", CAR.N, "physicsnemo"),
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
    for name, (work, points, contender) in MEMORY.items():
        command = [sys.executable, __file__, "--measure", work, str(points), contender]
        if measured := subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout:
            found[name] = float(measured) / 1e9
            print(f"{name}: {found[name]:.2f} GB", flush=True)
    return found


def measure_memory(work: str, points: int, contender: str) -> int | None:
    """Peak bytes of one call above those held before it (Linux); None for a contender that is not there."""
    size = Size(points, CAR.C, CAR.M, CAR.mlp_ratio)
    models = contenders(size)
    model = models.get(contender if contender in ("textbook", "physicsnemo") else "ours")
    if model is None:
        return None
    if model is models["ours"]:
        model.recompute = contender
    del models
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
    """Forward seconds per million points and layer, N from 1k to 1M; two layers.

    All sizes take turns, so that a change of the machine's pace falls on all of them. Few points are run many times.
    """
    size = Size(1_000_000, CAR.C, CAR.M, CAR.mlp_ratio, layers=2)
    models, x = contenders(size), size.inputs()
    runs: dict[Any, Callable[[], Any]] = {}
    for points in (1_024, 8_192, 32_768, 131_072, 1_000_000):
        for name in ("textbook", "ours") if points <= 131_072 else ("ours",):
            runs[points, name] = repeated(forward(models[name], x[:, :points], None), max(1, CAR.N // points))
    found: dict[str, dict[str, float]] = {}
    for (points, name), seconds in take_turns(runs, repeats).items():
        found.setdefault(str(points), {})[name] = 1e6 * seconds / max(CAR.N, points) / size.layers
    print("growth", found, flush=True)
    return found


def repeated(run: Callable[[], Any], times: int) -> Callable[[], None]:
    def several() -> None:
        for _ in range(times):
            run()

    return several


def compiled(repeats: int) -> dict[str, Any]:
    """Forward pass and training step through torch.compile, against the textbook eager and compiled; two layers."""
    size = Size(CAR.N, CAR.C, CAR.M, CAR.mlp_ratio, layers=2)
    models, x = contenders(size), size.inputs()
    models["textbook compiled"] = torch.compile(size.textbook())
    models["ours compiled"] = torch.compile(from_authors(models["textbook"].state_dict()), fullgraph=True)
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
    """Add to the day's figures, and write the page and the picture anew."""
    path = folder / f"{date.today()}-{platform.machine()}"
    known = json.loads(path.with_suffix(".json").read_text()) if path.with_suffix(".json").exists() else {}
    found = known | found
    folder.mkdir(exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    pictured = "sizes" in found and "growth" in found
    text = page(found) + (f"\n![Time per point, and ratios]({path.name}.png)\n" if pictured else "")
    path.with_suffix(".md").write_text(text)
    print("\n" + text)
    if pictured:
        draw(found, path.with_suffix(".png"))


def draw(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    colours = {"textbook": "#8a8a8a", "physicsnemo": "#d08a2e", "ours": "#1f6fb4"}
    for name in ("textbook", "ours"):
        line = [(int(n), row[name]) for n, row in found["growth"].items() if name in row]
        left.plot(*zip(*line, strict=True), "o-", color=colours[name], label=name)
    left.set(xscale="log", xlabel="points", ylabel="CPU s per million points and layer")
    left.set_xticks([10**3, 10**4, 10**5, 10**6], ["1k", "10k", "100k", "1M"])
    left.set_ylim(0, 1.1 * left.get_ylim()[1])
    left.set_title("Forward pass, C=256 M=32")
    left.legend(frameon=False, loc="lower left")
    labels = []
    for name, row in found["sizes"].items():
        for work, seconds in row["seconds"].items():
            y = len(labels)
            labels.append(f"{work}, {name}")
            for shift, peer in ((-0.19, "textbook"), (0.19, "physicsnemo")):
                if peer in seconds:
                    bar = right.barh(y + shift, seconds[peer] / seconds["ours"], 0.36, color=colours[peer])
                    right.bar_label(bar, fmt="%.2f", padding=3, fontsize=8)
    right.axvline(1.0, color=colours["ours"], linewidth=1.5)
    right.set_yticks(range(len(labels)), labels, fontsize=8)
    right.invert_yaxis()
    right.margins(x=0.12)
    right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    right.set(xlabel="time over ours: textbook grey, PhysicsNeMo orange", title="Against the peers, one thread")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.grid(alpha=0.25)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def goals(found: dict[str, Any]) -> list[tuple[str, float, str, float]]:
    """What is to be reached: the work, the figure of this run, whether at least or at most, and the goal."""
    rows: list[tuple[str, float, str, float]] = []
    peers = {"textbook": "textbook", "physicsnemo": "PhysicsNeMo"}
    for size, least in ((CAR, {"forward": 1.7, "step": 1.5}), (ELASTICITY, {}), (DARCY, {})):
        for work, s in found.get("sizes", {}).get(size.name, {"seconds": {}})["seconds"].items():
            for peer in [peer for peer in peers if peer in s and (least or peer == "textbook")]:
                rows.append(
                    (f"{work}, {size.name}: {peers[peer]} / ours", s[peer] / s["ours"], ">=", least.get(work, 0.95))
                )
    if "sizes" in found:
        car = found["sizes"][CAR.name]
        rows.append((f"forward, {CAR.name}: share of the matmul rate", car["share of matmul rate"], ">=", 0.7))
        differences = [d["ours"] for row in found["sizes"].values() if (d := row["difference"])]
        rows.append(("largest difference from the textbook's fields", max(differences), "<=", 1e-5))
    for work, s in found.get("compiled", {}).items():
        for peer in [peer for peer in peers if peer in s]:
            ratio, least_ratio = s[peer] / s["ours compiled"], {"forward": 2.0, "step": 1.8}[work]
            rows.append((f"{work}, {CAR.name}, compiled: {peers[peer]} / ours", ratio, ">=", least_ratio))
    if "memory" in found:
        gb = found["memory"]
        for peer in [peer for peer in peers.values() if f"{peer}, step, 32,768" in gb]:
            for again, most in (("cheap parts", 0.5), ("tiles", 0.3)):
                ratio = gb[f"ours, step, 32,768, {again} again"] / gb[f"{peer}, step, 32,768"]
                rows.append((f"step, {CAR.name}, {again} again: memory, ours / {peer}", ratio, "<=", most))
        rows.append(
            ("forward, 1,000,000 points: GB above weights and inputs", gb["ours, forward, 1,000,000"], "<=", 2.0)
        )
        rows.append(("step, 262,144 points: GB above weights and inputs", gb["ours, step, 262,144"], "<=", 6.0))
    if "growth" in found:
        large = [row["ours"] for points, row in found["growth"].items() if int(points) >= CAR.N]
        rows.append(("time per point, 32,768 to 1,000,000: largest / smallest", max(large) / min(large), "<=", 1.15))
    return rows


def page(found: dict[str, Any]) -> str:
    lines = [
        f"# Speed and memory, {date.today()}",
        "",
        f"{found['machine']}; CPU seconds, medians of at least three turns. A step is a forward and a",
        "backward pass. Models have 8 layers, two where they are compiled and where N grows. Above 131,072 points the",
        "textbook is left out.",
        "",
        "| work | reached | goal | |",
        "|---|---|---|---|",
    ]
    for work, value, sense, goal in goals(found):
        met = value >= goal if sense == ">=" else value <= goal
        number = f"{value:.2f}" if goal > 1e-3 else f"{value:.1e}"
        lines.append(f"| {work} | {number} | {sense} {goal:g} | {'met' if met else 'missed'} |")
    lines.append("")
    if "sizes" in found:
        lines += ["| CPU s | ours | textbook | PhysicsNeMo |", "|---|---|---|---|"]
        for name, row in found["sizes"].items():
            for work, s in row["seconds"].items():
                lines.append(f"| {work}, {name} | " + cells(s, "ours", "textbook", "physicsnemo"))
        lines.append("")
    if "compiled" in found:
        names = ("ours", "ours compiled", "textbook", "textbook compiled")
        lines += [f"| CPU s, {CAR.name}, two layers | " + " | ".join(names) + " |", "|---|---|---|---|---|"]
        lines += [f"| {work} | " + cells(s, *names) for work, s in found["compiled"].items()] + [""]
    if "memory" in found:
        lines += ["| peak memory above weights, gradients and inputs, C=256 M=32, 8 layers | GB |", "|---|---|"]
        lines += [f"| {name} | {value:.2f} |" for name, value in found["memory"].items()] + [""]
    if "growth" in found:
        lines += ["| forward, CPU s per million points and layer, C=256 M=32 | ours | textbook |", "|---|---|---|"]
        lines += [f"| {int(n):,} points | " + cells(row, "ours", "textbook") for n, row in found["growth"].items()] + [
            ""
        ]
    return "\n".join(lines)


def cells(seconds: dict[str, float], *names: str) -> str:
    return " | ".join(f"{seconds[name]:.3g}" if name in seconds else "-" for name in names) + " |"


SECTIONS = {"sizes": sizes, "memory": memory, "growth": growth, "compiled": compiled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", nargs=3, metavar=("WORK", "POINTS", "CONTENDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        work, points, contender = options.measure
        measured = measure_memory(work, int(points), contender)
        print("" if measured is None else measured, end="")
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
