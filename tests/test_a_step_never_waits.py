"""A training step is one graph, made for any device, and never asks the device for a number while it is under way."""

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch._functorch.config as functorch
from functorch.compile import default_partition, nop
from joukowski import joukowski_set
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from aerosurrogate.devices import feeders
from aerosurrogate.recipe import read_recipe
from aerosurrogate.training import compiled, loop
from aerosurrogate.training.batches import few_sizes
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.compiled import LEAST, activation_budget, compile_where_it_pays, cut_by, fastest
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.objective import Objective
from aerosurrogate.training.run import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
SMALL = ["layers=1", "channels=16", "heads=2", "slices=4"]
ASKS = {"_local_scalar_dense", "is_nonzero", "nonzero", "equal", "masked_select", "unique"}  # wait for a device


class Asked(TorchDispatchMode):
    """Counts the operations that make a host wait."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):  # type: ignore[no-untyped-def]
        name = function.__name__.split(".")[0]
        self.operations += [name] if name in ASKS else []
        return function(*arguments, **(keywords or {}))


def made(folder: Path, device: str) -> Trainer:
    data = joukowski_set(folder / "sections", 4)
    settings = [f"data.path={data}", "data.train=train", 'data.fields=["p","U","wallShearStress"]']
    settings += [f"model.{size}" for size in SMALL]
    settings += [f"training.{size}" for size in ("points=64", "skin_points=32", "batch=2", "steps=9", "ema=0.9")]
    recipe = read_recipe(RECIPE, settings)
    with processes("cpu") as own:
        run = Run(folder / "run", recipe, own, resume=False)
        return Trainer(recipe, open_cases(recipe, run), run, replace(own, device=torch.device(device)))


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return made(tmp_path_factory.mktemp("step"), "cpu")


def test_nothing_is_read_from_the_device(trainer: Trainer) -> None:
    trainer._update(trainer.batches.make(0))  # the first step makes the optimiser's state
    with Asked() as asked:
        launched = trainer._update(trainer.batches.make(1))
    assert asked.operations == []
    with Asked() as asked:
        torch.ones(2).sum().item()
    assert asked.operations, "the counter counts nothing"
    assert all(map(torch.isfinite, torch.tensor(launched.figures.read())))


def test_model_and_objective_are_one_graph_that_serves_every_batch(trainer: Trainer) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    seen = trainer._seen(trainer.batches.make(0))
    assert fastest(trainer.objective, *seen, trainer._precision, (), backend="aot_eager") == ""
    trainer.objective(*trainer._seen(trainer.batches.make(2)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    trainer.objective._compiled_call_impl = None


def test_a_compiler_that_fails_or_errs_is_left_aside(trainer: Trainer) -> None:
    def fails(graph: torch.fx.GraphModule, inputs: object) -> None:
        raise RuntimeError("no such processor")

    def errs(graph: torch.fx.GraphModule, inputs: object):  # type: ignore[no-untyped-def]
        return lambda *arguments: tuple(1.5 * answer for answer in graph(*arguments))

    seen = trainer._seen(trainer.batches.make(0))
    plain = trainer.objective(*seen)["loss"]
    for backend in (fails, errs):
        torch._dynamo.reset()
        assert fastest(trainer.objective, *seen, trainer._precision, (), backend=backend) is None
        assert trainer.objective(*seen)["loss"].equal(plain)


def test_a_compiled_step_that_fails_later_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of another size is compiled, or runs out of memory, long after the first step."""
    trainer, sizes = made(tmp_path, "cpu"), list[int]()

    def fails_later(graph: torch.fx.GraphModule, inputs: list[Tensor]):  # type: ignore[no-untyped-def]
        sizes.append(max(x.shape[1] for x in inputs if isinstance(x, Tensor) and x.ndim == 3))
        if sizes[-1] != sizes[0]:
            raise torch.OutOfMemoryError("no room for so many points")
        return graph

    monkeypatch.setattr(compiled, "compiles_well", lambda device: True)
    monkeypatch.setattr(trainer.objective, "compile", partial(compile_with, trainer.objective, fails_later))
    torch._dynamo.reset()
    first, other = (trainer.batches.make(step) for step in (0, 1))
    other = other.at_rows(torch.arange(80))
    trainer._update(first)
    assert trainer.objective._compiled_call_impl is not None
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    torch.manual_seed(0)
    plain = trainer.objective.forward(other)["loss"].item()
    found, _ = trainer._update(other).figures.read()
    assert len(set(sizes)) == 2, "the other size did not reach the compiler"
    assert found == pytest.approx(plain, rel=1e-5)
    assert any(not weight.equal(before[name]) for name, weight in trainer.model.state_dict().items())
    assert trainer.objective._compiled_call_impl is None
    events = [entry["event"] for entry in trainer.run.entries() if "event" in entry]
    assert "as they are written from here on" in events[-1]
    assert "no room for so many points" in events[-1]


def test_a_whole_step_runs_on_a_device_that_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device refuses to meet tensors of any other, and has no values that could be read or copied: model,
    losses, gradients, clipping, both optimisers and the averaged weights, step after step."""
    arrived: list[Tensor] = []
    monkeypatch.setattr(loop, "Arriving", arrived.append)  # the one copy to the host, of two numbers
    trainer = made(tmp_path, "meta")
    monkeypatch.setattr(trainer, "_precision", contextlib.nullcontext)  # meta has no autocast
    for group in trainer.optimiser.param_groups:
        group |= {"fused": False, "foreach": True}  # nor torch's fused AdamW
    for step in range(3):
        trainer._update(trainer.batches.make(step))
    assert [(values.device.type, values.shape) for values in arrived] == [("meta", (2,))] * 3
    assert {p.device.type for model in trainer.weights.values() for p in model.parameters()} == {"meta"}
    with pytest.raises((RuntimeError, NotImplementedError)):
        arrived[0].tolist()


def test_batches_of_many_sizes_are_padded_to_few(trainer: Trainer) -> None:
    """A compiled step serves one number of points; padding changes no loss."""
    sizes = set(range(1000, 5000, 7))
    few = few_sizes(sizes)
    assert len(few) <= 6
    assert all(min(m for m in few if m >= n) <= n * 5 ** (1 / 6) for n in sizes)
    assert few_sizes({10, 900}) == [10, 900]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graph = torch.compile(trainer.objective, backend="aot_eager", fullgraph=True, dynamic=False)
    for step, cut in enumerate((96, 90, 81)):
        batch, _ = trainer._seen(trainer.batches.make(step).at_rows(torch.arange(cut)))
        found = graph(batch.padded_to(96))["loss"]
        torch.testing.assert_close(found, trainer.objective(batch)["loss"], rtol=1e-5, atol=0)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_batches_are_the_same_whoever_makes_them(trainer: Trainer) -> None:
    """On a GPU, processes make them ahead of the steps."""
    made = list(trainer.batches.ahead(1, 4, feeders=2))
    assert [batch.names for batch in made] == [trainer.batches.make(step).names for step in (1, 2, 3)]
    for step, batch in enumerate(made, 1):
        for name, value in trainer.batches.make(step).tensors().items():
            assert torch.equal(batch.tensors()[name], value), name
    assert feeders(torch.device("cpu")) == 0
    assert feeders(torch.device("cuda")) > 0


def test_what_is_kept_follows_from_the_free_memory(trainer: Trainer) -> None:
    gigabyte = 2.0**30
    assert activation_budget(1000, trainer.objective, 80 * gigabyte) == 1.0
    assert LEAST < activation_budget(9 * 10**7, trainer.objective, 80 * gigabyte) < 1.0
    assert activation_budget(2**40, trainer.objective, 80 * gigabyte) == LEAST


def test_every_size_is_cut_by_the_budget_of_the_largest(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of another size is compiled when it first comes, long after the first step."""
    budgets: list[float] = []

    def cut(*given: object, **named: object) -> object:
        budgets.append(functorch.activation_memory_budget)
        return default_partition(*given, **named)  # type: ignore[arg-type]

    backend = aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=cut)
    monkeypatch.setattr(compiled, "compiles_well", lambda device: True)
    monkeypatch.setattr(compiled, "free_memory", lambda device: 2.0**30)
    monkeypatch.setattr(trainer.objective, "compile", partial(compile_with, trainer.objective, backend))
    monkeypatch.setattr(trainer.objective, "_compiled_call_impl", None)
    torch._dynamo.reset()
    first, later = (trainer.batches.make(step) for step in (0, 1))
    most = 10**6
    compile_where_it_pays(trainer.objective, *trainer._seen(first), trainer._precision, most)
    trainer.objective(*trainer._seen(later.at_rows(torch.arange(80))))["loss"].backward()
    trainer.objective.zero_grad()
    known = activation_budget(most, trainer.objective, 2.0**30)
    assert LEAST < known < 1
    assert budgets == [known, known]
    cut_by(1.0)


def test_what_a_product_costs_is_known_whatever_its_precision() -> None:
    """Where less is kept than could be, torch weighs memory against operations; it does not know these."""
    cut_by(1.0)
    a, b = torch.empty(2, 3, 4), torch.empty(2, 4, 5)
    assert flop_registry[torch.ops.aten.bmm](a, b, torch.float32, out_val=a @ b) == 2 * 2 * 3 * 4 * 5


def compile_with(objective: Objective, backend: object, *, mode: str, **options: object) -> None:
    """As on a GPU, but for what is made of the graph."""
    torch.nn.Module.compile(objective, backend=backend, **options)


def test_what_was_chosen_is_said_and_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, said = made(tmp_path, "cpu"), list[str]()
    monkeypatch.setattr(compiled.console, "note", said.append)
    monkeypatch.setattr(compiled, "compiles_well", lambda device: True)
    monkeypatch.setattr(compiled, "fastest", lambda *_, **__: "slicing and deslicing")
    for step in range(2):
        trainer._update(trainer.batches.make(step))
    events = [entry["event"] for entry in trainer.run.entries() if "event" in entry]
    assert events == said
    assert len(events) == 2
    assert "steps are compiled as CUDA graphs, activation budget 1.00" in events[0]
    assert "slicing and deslicing by kernels of their own" in events[1]
