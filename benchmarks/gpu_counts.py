"""What a training step costs on a GPU, counted without one: launches, bytes, floating-point operations, kept memory.

    python benchmarks/gpu_counts.py                     some minutes on one core; no GPU, no CUDA build of torch
    python benchmarks/gpu_counts.py --points 65536 --channels 128 --slices 64

A step (forward and backward pass, bfloat16 autocast) runs on fake tensors, which have shapes and no contents: any size
is counted in no memory. Eager: each operation that is not a view counts as one launch and moves its arguments and
results once; kept are the tensors that autograd holds from the forward to the backward pass. Compiled: the graph of
model and loss, differentiated and cut in two by torch's own partitioner at several activation budgets; kept is what
crosses the cut. Launches and bytes of fused kernels are not counted: lowering for CUDA needs a CUDA build of torch. The
column with a star is an estimate: the larger of bytes over bandwidth and operations over rate, plus 4 microseconds a
launch. All is counted with one and with two layers, and what a layer adds is multiplied.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from functorch.compile import aot_function, min_cut_rematerialization_partition, nop
from speed import Size, physicsnemo
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import FlopCounterMode

from aerosurrogate.model import precision
from aerosurrogate.model.authors import from_authors
from aerosurrogate.training.compiled import compiling_with

Build = Callable[[Size], nn.Module]
RESULTS = Path(__file__).parent / "results"
BANDWIDTH, RATE, LAUNCH = 1.4e12, 180e12, 4e-6  # A100: bytes/s and bfloat16 operations/s as reached, seconds
NO_WORK = {"device", "detach", "_unsafe_view", "promote_types", "new_empty_strided", "empty", "empty_like", "new_empty"}
BUDGETS = (1.0, 0.2, 0.05)


@dataclass
class Counts:
    """Of one step."""

    launches: float = 0
    gigabytes: float = 0  # read and written
    teraflops: float = 0
    kept: float = 0  # bytes

    def scaled(self, two: "Counts", layers: int) -> "Counts":
        """From one layer, this, and two, those of more."""
        mine, theirs = asdict(self), asdict(two)
        return Counts(**{key: mine[key] + (layers - 1) * (theirs[key] - mine[key]) for key in mine})

    @property
    def milliseconds(self) -> float:
        work = max(1e9 * self.gigabytes / BANDWIDTH, 1e12 * self.teraflops / RATE)
        return 1e3 * (work + LAUNCH * self.launches)


class Moved(TorchDispatchMode):
    """Launches, and bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.launches, self.bytes = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        result = function(*arguments, **(keywords or {}))
        returns = function._schema.returns
        view = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        if not view and function.__name__.split(".")[0] not in NO_WORK:
            tensors = [t for t in tree_flatten((arguments, keywords, result))[0] if isinstance(t, Tensor)]
            self.launches += 1
            self.bytes += sum(t.numel() * t.element_size() for t in tensors)
        return result


def fake_step(build: Build, size: Size) -> Counts:
    """A step of a model in eager mode."""
    real = build(size)
    with compiling_with(1.0), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = faked(real, mode)
        x = torch.empty(1, size.N, 7)
        inputs = {id(p.untyped_storage()) for p in model.parameters()}
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            if id(tensor.untyped_storage()) not in inputs:
                kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
            return tensor

        with FlopCounterMode(display=False) as flops, Moved() as moved:
            keeping = torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t)
            with keeping, torch.autocast("cpu", torch.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
    return Counts(moved.launches, moved.bytes / 1e9, flops.get_total_flops() / 1e12, sum(kept.values()))


def faked(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """The model with weights that have no contents."""
    for module in model.modules():
        for name, weight in list(module._parameters.items()):
            if weight is not None:
                module._parameters[name] = nn.Parameter(mode.from_tensor(weight.detach()))
    return model


def kept_by_a_graph(build: Build, size: Size, budget: float) -> float:
    """Bytes that cross from the forward to the backward half of the compiled graph, weights aside."""
    real = build(size)
    found = []

    def forward_half(graph: torch.fx.GraphModule, arguments: list[Any]) -> Any:
        outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        placeholders = {node.name for node in graph.graph.nodes if node.op == "placeholder"}
        tensors = [n.meta["val"] for n in outputs[1:] if hasattr(n, "meta") and n.name not in placeholders]
        found.append(sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor)))
        return nop(graph, arguments)

    names = [name for name, _ in real.named_parameters()]

    def loss(x: Tensor, *weights: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = torch.func.functional_call(real, dict(zip(names, weights, strict=True)), (x,))
        return y.float().square().mean()

    partition = partial(min_cut_rematerialization_partition, compiler="inductor")
    with compiling_with(budget), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        weights = [mode.from_tensor(w.detach()).requires_grad_() for w in real.parameters()]
        compiled = aot_function(loss, fw_compiler=forward_half, bw_compiler=nop, partition_fn=partition)
        compiled(torch.empty(1, size.N, 7), *weights).backward()
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"points": 32_768, "channels": 256, "slices": 32, "mlp-ratio": 2, "layers": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    precision.sums_in_float32 = lambda device: True  # as CUDA gives them
    sizes = [Size(options.points, options.channels, options.slices, options.mlp_ratio, layers=k) for k in (1, 2)]

    def ours(size: Size, recompute: str) -> nn.Module:
        model = from_authors(size.textbook().state_dict())
        model.tile, model.recompute = size.N, recompute  # as on a GPU: all points at once
        return model

    builders: dict[str, Build] = {
        "authors' order": lambda size: size.textbook(),
        "ours": lambda size: ours(size, "none"),
        "ours, cheap parts again": lambda size: ours(size, "cheap"),
    }
    if physicsnemo(sizes[0].textbook(), sizes[0]) is not None:
        builders["PhysicsNeMo"] = lambda size: physicsnemo(size.textbook(), size)  # type: ignore[return-value]
    rows: dict[str, Any] = {}
    for name, build in builders.items():
        one, two = (fake_step(build, size) for size in sizes)
        whole = one.scaled(two, options.layers)
        rows[f"{name}, eager"] = asdict(whole) | {
            "milliseconds": whole.milliseconds,
            "kept_each": (two.kept - one.kept) / options.points,
        }
        print(name, rows[f"{name}, eager"], flush=True)
    for name in ("authors' order", "ours"):
        for budget in BUDGETS:
            a, b = (kept_by_a_graph(builders[name], size, budget) for size in sizes)
            rows[f"{name}, compiled, budget {budget:g}"] = {
                "kept": a + (options.layers - 1) * (b - a),
                "kept_each": (b - a) / options.points,
            }
            print(name, budget, rows[f"{name}, compiled, budget {budget:g}"], flush=True)
    write(vars(options), rows)


def write(size: dict[str, int], rows: dict[str, Any]) -> None:
    name = f"gpu_counts_{size['points']}_{size['channels']}_{size['slices']}"
    (RESULTS / f"{name}.json").write_text(json.dumps({"size": size, "rows": rows}, indent=1) + "\n")
    lines = [
        "# A training step, counted without a GPU",
        "",
        ", ".join(f"{key} {value:,}" for key, value in size.items())
        + ", 8 heads, batch 1, bfloat16 autocast. How: gpu_counts.py.",
        "",
        "| | launches | GB moved | TFLOP | kept bytes a point and layer | A100 ms* |",
        "|---|---|---|---|---|---|",
    ]
    for name_, row in rows.items():
        cells = [
            f"{row[k]:,.{d}f}" if k in row else ""
            for k, d in (("launches", 0), ("gigabytes", 1), ("teraflops", 2), ("kept_each", 0), ("milliseconds", 1))
        ]
        lines.append(f"| {name_} | " + " | ".join(cells) + " |")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
