"""What a training step costs on a GPU, counted without one: launches, bytes, floating-point operations, kept memory.

    python benchmarks/gpu_counts.py                     some minutes on one core; no GPU
    python benchmarks/gpu_counts.py --points 65536 --channels 128 --slices 64
    python benchmarks/gpu_counts.py --only ours         the others stay as they were counted
    python benchmarks/gpu_counts.py --by-tiles 4194304  what is alive at once in an eager step on so many points

A step (forward and backward pass, bfloat16 autocast by CUDA's rules) runs on fake tensors, which have shapes and no
contents: any size is counted in no memory. Eager: each operation that is not a view counts as one launch and moves its
arguments and results once; kept are the tensors that autograd holds from the forward to the backward pass. Compiled:
the graph of model and loss, differentiated and cut in two by torch's own partitioner at several activation budgets;
kept is what crosses the cut. With a CUDA build of torch (which needs no GPU for this) each half is also lowered by
Inductor for an A100: launches are the kernels that it schedules, bytes what they read and write, and the peak of what
is alive at once, weights and the optimiser aside, by its own counts. The kernels of model/fused.py count like a
library's products: they read each argument once, the programs of other heads finding it in the cache. The column with
a star is an estimate: the larger of bytes over bandwidth and operations over rate, plus 4 microseconds a launch. All is
counted with one and with two layers, and what a layer adds is multiplied; to the peak a layer adds what it keeps.
"""

import argparse
import copy
import json
import types
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from functorch.compile import aot_function, min_cut_rematerialization_partition, nop
from physicsnemo_order import in_their_order
from speed import Size
from torch import Tensor, nn
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

from aerosurrogate.model import folding, gradients, precision
from aerosurrogate.model.authors import from_authors
from aerosurrogate.model.tiles import TILE_OF_A_CARD
from aerosurrogate.training.compiled import cut_by

Build = Callable[[Size], nn.Module]
RESULTS = Path(__file__).parent / "results"
BANDWIDTH, RATE, LAUNCH = 1.4e12, 180e12, 4e-6  # A100: bytes/s and bfloat16 operations/s as reached, seconds
NO_WORK = {"device", "detach", "_unsafe_view", "promote_types", "new_empty_strided", "empty", "empty_like", "new_empty"}
BUDGETS = (1.0, 0.2, 0.05)
PEER = "PhysicsNeMo's order"
A100 = {
    "name": "A100", "major": 8, "minor": 0, "multi_processor_count": 108, "warp_size": 32, "L2_cache_size": 40 * 2**20,
    "total_memory": 80 * 2**30, "regs_per_multiprocessor": 65536, "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024, "shared_memory_per_block": 49152, "shared_memory_per_block_optin": 166912,
    "shared_memory_per_multiprocessor": 167936, "gcnArchName": "",
}  # fmt: skip


@dataclass
class Counts:
    """Of one step."""

    launches: float = 0
    gigabytes: float = 0  # read and written
    teraflops: float = 0
    kept: float = 0  # bytes
    peak: float = 0  # bytes alive at once, of a compiled step

    def scaled(self, two: "Counts", layers: int) -> "Counts":
        """From one layer, this, and two, those of more."""
        mine, theirs = asdict(self), asdict(two)
        return Counts(**{key: mine[key] + (layers - 1) * (theirs[key] - mine[key]) for key in mine})

    @property
    def milliseconds(self) -> float:
        work = max(1e9 * self.gigabytes / BANDWIDTH, 1e12 * self.teraflops / RATE)
        return 1e3 * (work + LAUNCH * self.launches)


class CudaAutocast(TorchFunctionMode):
    """Norms, softmax and sums in float32, as autocast has them on CUDA but not on the CPU of these fake tensors."""

    FLOAT32 = (F.layer_norm, torch.layer_norm, torch.native_layer_norm)
    INTO_FLOAT32 = (F.softmax, torch.softmax, Tensor.softmax, torch.sum, Tensor.sum)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        if torch.is_autocast_enabled("cpu"):
            if function in self.FLOAT32:
                half = torch.bfloat16
                arguments = [a.float() if isinstance(a, Tensor) and a.dtype == half else a for a in arguments]
            elif function in self.INTO_FLOAT32 and arguments[0].dtype == torch.bfloat16:
                keywords["dtype"] = keywords.get("dtype") or torch.float32
        return function(*arguments, **keywords)


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


class Alive(TorchDispatchMode):
    """Bytes that are alive at once, at most, of what comes to life meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.peak = 0, 0
        self.known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        result = function(*arguments, **(keywords or {}))
        for tensor in tree_flatten(result)[0]:
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage()) not in self.known:
                self.known.add(storage)
                self._change(storage.nbytes())
                weakref.finalize(storage, self._change, -storage.nbytes())
        return result

    def _change(self, count: int) -> None:
        self.now += count
        self.peak = max(self.peak, self.now)


def alive_by_tiles(size: Size) -> int:
    """Bytes alive at once in a step as it runs on a card where it is not compiled: in tiles, computed again."""
    real = from_authors(size.textbook().state_dict())
    real.tile, real.recompute = TILE_OF_A_CARD, "tiles"
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model, x = faked(real, mode), torch.empty(1, size.N, 7)
        with Alive() as alive:
            with CudaAutocast(), torch.autocast("cpu", torch.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
    return alive.peak


def fake_step(build: Build, size: Size) -> Counts:
    """A step of a model in eager mode."""
    cut_by(1.0)
    real = build(size)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
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
            with keeping, CudaAutocast(), torch.autocast("cpu", torch.bfloat16):
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


def compiled_step(build: Build, size: Size, budget: float) -> Counts:
    """Of the compiled graph: bytes that cross from its forward to its backward half, weights aside; with a CUDA build
    of torch, launches and bytes of both halves as well."""
    real, found = build(size), Counts()

    def keep(graph: torch.fx.GraphModule, arguments: list[Any]) -> Any:
        outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        placeholders = {node.name for node in graph.graph.nodes if node.op == "placeholder"}
        tensors = [n.meta["val"] for n in outputs[1:] if hasattr(n, "meta") and n.name not in placeholders]
        found.kept = sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))
        return half(graph, arguments)

    def half(graph: torch.fx.GraphModule, arguments: list[Any]) -> Any:
        if torch.version.cuda:
            launches, moved, peak = lowered(graph, arguments)
            found.launches += launches
            found.gigabytes += moved / 1e9
            found.peak = max(found.peak, peak)
        return nop(graph, arguments)

    names = [name for name, _ in real.named_parameters()]

    def loss(x: Tensor, *weights: Tensor) -> Tensor:
        with CudaAutocast(), torch.autocast("cpu", torch.bfloat16):
            y = torch.func.functional_call(real, dict(zip(names, weights, strict=True)), (x,))
        return y.float().square().mean()

    partition = partial(min_cut_rematerialization_partition, compiler="inductor")
    decompositions = select_decomp_table() if torch.version.cuda else None
    cut_by(budget)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        weights = [mode.from_tensor(w.detach()).requires_grad_() for w in real.parameters()]
        halves = {"fw_compiler": keep, "bw_compiler": half}
        step = aot_function(loss, partition_fn=partition, decompositions=decompositions, **halves)
        step(torch.empty(1, size.N, 7), *weights).backward()
    return found


def lowered(graph: torch.fx.GraphModule, arguments: list[Any]) -> tuple[int, int, int]:
    """Kernels that Inductor makes of a graph for CUDA, the bytes that they read and write, and those alive at once."""
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import scheduler
    from torch._inductor.debug import DebugContext
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.graph import GraphLowering
    from torch._inductor.memory import prepare_planning_info
    from torch._inductor.virtualized import V
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp
    from torch.utils._ordered_set import OrderedSet

    cuda = torch.device("cuda")
    mode = torch._guards.detect_fake_mode(arguments)
    assert mode is not None
    graph = copy.deepcopy(graph)
    for node in graph.graph.nodes:
        if node.kwargs.get("device") is not None:
            node.kwargs = {**node.kwargs, "device": cuda}
    if not torch.cuda.is_available():  # what is asked of the card is then answered for it
        properties = types.SimpleNamespace(**A100)
        CudaInterface.get_device_properties = staticmethod(lambda *_: properties)
        torch.cuda.get_device_properties = lambda *_: properties
        torch.cuda.get_device_capability = lambda *_: (A100["major"], A100["minor"])
        torch.cuda.current_device, torch.cuda._lazy_init = lambda: 0, lambda: None
        scheduler.has_triton = lambda *_: True
    with mode, torch.no_grad(), V.set_fake_mode(mode), DebugContext():
        placed = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=cuda) if isinstance(t, Tensor) else t
            for t in arguments
        ]
        FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*placed)
        post_grad_passes(graph, False)
        FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*placed)
        lowering = GraphLowering(graph, example_inputs=placed)
        with V.set_graph_handler(lowering):
            lowering.run(*placed)
            lowering._update_scheduler()
            moved, plan = lowering.count_bytes()[0], lowering.scheduler
            names = OrderedSet(lowering.graph_inputs), OrderedSet(lowering.get_output_names())
            peak = prepare_planning_info(plan.nodes, plan.name_to_buf, plan.name_to_fused_node, *names)[0]
    nodes = [node for node in plan.nodes if not isinstance(node, scheduler.NopKernelSchedulerNode)]
    return len(nodes), int(moved), int(peak)


def count_fused_products() -> None:
    """Tell the counter of operations which products the kernels of model/fused.py take, each of N C H M."""
    from aerosurrogate.model import fused

    def formula(operator: Any, slicing: int, deslicing: int) -> None:
        def operations(points: Any, maps: Any, *others: Any, out_shape: Any = None, **_: Any) -> int:
            given = len(others) > 3 and others[3] is not None  # dy, of the gradients
            return 2 * points[0] * points[1] * points[2] * maps[0] * (deslicing if given else slicing)

        register_flop_formula(operator._opoverload.overloadpacket)(operations)

    formula(fused.slice_parts, 2, 2)
    formula(fused.deslice, 2, 2)
    formula(fused.gradient_of_points, 4, 3)
    formula(fused.gradient_of_maps, 3, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--by-tiles", type=int, metavar="POINTS")
    for name, value in {"points": 32_768, "channels": 256, "slices": 32, "mlp-ratio": 2, "layers": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    only, budgets, by_tiles = (options.__dict__.pop(name) for name in ("only", "budgets", "by_tiles"))
    precision.sums_in_float32 = lambda device: True  # as CUDA gives them
    folding.unit = gradients.unit = lambda x: None  # and as it takes norms
    shape = options.channels, options.slices, options.mlp_ratio
    if by_tiles:
        each = alive_by_tiles(Size(by_tiles, *shape, layers=options.layers)) / by_tiles
        print(f"{each:,.0f} bytes a point are alive at once in an eager step on {by_tiles:,}")
        return
    sizes = [Size(options.points, *shape, layers=k) for k in (1, 2)]

    def ours(size: Size, recompute: str = "none", fused: bool = False, mlps: bool = False) -> nn.Module:
        model = from_authors(size.textbook().state_dict())
        model.tile, model.recompute = size.N, recompute  # as on a GPU: all points at once
        assert not fused or folding.fuse(model, True, mlps)
        return model

    builders: dict[str, Build] = {
        "authors' order": lambda size: size.textbook(),
        PEER: lambda size: in_their_order(size.textbook()),
        "ours": ours,
        "ours, cheap parts again": lambda size: ours(size, "cheap"),
    }
    if find_spec("triton") is not None:
        count_fused_products()
        builders["ours, slices fused"] = lambda size: ours(size, fused=True)
        builders["ours, slices and MLPs fused"] = lambda size: ours(size, fused=True, mlps=True)
    builders = {name: build for name, build in builders.items() if name in (only or builders)}
    rows: dict[str, Any] = {}
    for name, build in builders.items():
        one, two = (fake_step(build, size) for size in sizes)
        whole = one.scaled(two, options.layers)
        rows[f"{name}, eager"] = asdict(whole) | {
            "milliseconds": whole.milliseconds,
            "kept_each": (two.kept - one.kept) / options.points,
        }
        print(name, rows[f"{name}, eager"], flush=True)
    for name in (name for name in builders if name != "ours, cheap parts again"):
        for budget in budgets[:1] if name == PEER else budgets:
            one, two = (compiled_step(builders[name], size, budget) for size in sizes)
            whole = one.scaled(two, options.layers)
            whole.teraflops = rows[f"{name}, eager"]["teraflops"]  # and what is computed again, which is little
            added = two.kept - one.kept
            row = {"kept": whole.kept, "kept_each": added / options.points}
            if torch.version.cuda:
                whole.peak = two.peak + (options.layers - 2) * added
                row |= asdict(whole) | {"milliseconds": whole.milliseconds, "peak_each": whole.peak / options.points}
            rows[f"{name}, compiled, budget {budget:g}"] = row
            print(name, budget, row, flush=True)
    write(vars(options), rows)


def place(row: str) -> tuple[bool, str, float]:
    """Eager first; of the compiled ones those that keep most."""
    name, _, budget = row.partition(", budget ")
    return bool(budget), name, -float(budget or 0)


def write(size: dict[str, int], rows: dict[str, Any]) -> None:
    name = f"gpu_counts_{size['points']}_{size['channels']}_{size['slices']}"
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}
    rows = {key: (before | rows)[key] for key in sorted(before | rows, key=place)}
    path.write_text(json.dumps({"size": size, "rows": rows}, indent=1) + "\n")
    lines = [
        "# A training step, counted without a GPU",
        "",
        ", ".join(f"{key} {value:,}" for key, value in size.items())
        + ", 8 heads, batch 1, bfloat16 autocast. How: gpu_counts.py.",
        "",
        "| | launches | GB moved | TFLOP | kept bytes a point and layer | peak kB a point | A100 ms* |",
        "|---|---|---|---|---|---|---|",
    ]
    for name_, row in rows.items():
        figures = row | ({"peak_kb": row["peak_each"] / 1e3} if "peak_each" in row else {})
        places = {"launches": 0, "gigabytes": 1, "teraflops": 2, "kept_each": 0, "peak_kb": 1, "milliseconds": 1}
        cells = [f"{figures[k]:,.{d}f}" if k in figures else "" for k, d in places.items()]
        lines.append(f"| {name_} | " + " | ".join(cells) + " |")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
