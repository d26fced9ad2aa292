"""Every kind of model beside ours: it minds padding and order, does what its name says, trains by recipe, is kept."""

import numpy as np
import pytest
import torch

from aerosurrogate.data.case import Case
from aerosurrogate.data.store import Dataset, Manifest, write_manifest, write_shard
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import evaluate
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Model
from aerosurrogate.model.registry import KINDS, alike, build
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

BASELINES = [kind for kind in KINDS if kind not in ("transolver", "particles")]
SCATTERED = [kind for kind in BASELINES if kind != "fno2d"]
LOCAL = ("mlp", "graphsage", "meshgraphnet")


def small(kind: str, **interface: object) -> Model:
    torch.manual_seed(0)
    sizes = alike(TransolverConfig(layers=2, channels=16, heads=2, slices=5), kind).model_dump()
    return build({"inputs": 3, "outputs": 2, "dimensions": 2, **sizes, **interface}).eval()


def points(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(1, count, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", SCATTERED)
def test_padding_and_order_do_not_matter(kind: str) -> None:
    model, inputs = small(kind), points(40)
    whole = model(inputs)
    mask = torch.arange(50)[None] < 40
    padded = model(torch.cat([inputs, 9 * points(10, 1)], dim=1), mask=mask)
    torch.testing.assert_close(padded[:, :40], whole, atol=1e-5, rtol=1e-4)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model(inputs[:, order]), whole[:, order], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", SCATTERED)
def test_who_sees_whom(kind: str) -> None:
    """The answer at a point depends on itself alone, on points near it, or on all points."""
    model, inputs = small(kind), points(200).requires_grad_()
    distance = (inputs[0, :, :2] - inputs[0, :1, :2]).norm(dim=-1).detach()
    slope = torch.autograd.grad(model(inputs)[0, 0].sum(), inputs)[0][0, :, 2].abs()
    seen = slope > 0
    assert seen[0]
    if kind == "mlp":
        assert seen.sum() == 1
    elif kind in LOCAL:
        assert 3 < seen.sum() < 150
        assert distance[seen].max() < 0.8 * distance.max()
    elif kind == "pointnet":  # only those with the largest features are seen from afar
        assert seen.sum() > 1
    else:
        assert seen.all()


@pytest.mark.parametrize("kind", ["mlp", "galerkin", "gnot", "linearno", "transolver++"])
def test_chunked_equals_whole_with_heads_and_time(kind: str) -> None:
    model, inputs, time = small(kind, coefficients=2, time_input=True), points(60), torch.tensor([0.3])
    skin = torch.arange(60)[None] < 20
    whole = model(inputs, skin=skin, time=time)
    parts = list(zip(inputs.split(17, dim=1), skin.split(17, dim=1), strict=True))
    states = model.states(parts, time)
    torch.testing.assert_close(states.pooled, whole.pooled, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(states.coefficients, whole.coefficients, atol=1e-5, rtol=1e-4)
    fields = torch.cat([model.decode(part, states) for part in inputs.split(23, dim=1)], dim=1)
    torch.testing.assert_close(fields, whole.fields, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["pointnet", "graphsage", "meshgraphnet", "fno2d", "transformer", "flare"])
def test_others_say_that_they_have_no_states(kind: str) -> None:
    with pytest.raises(InputError, match="no states"):
        small(kind).states([points(9)])


def test_waves_are_carried_along_with_the_grid() -> None:
    model = small("fno2d", modes=4)
    inputs = torch.rand(1, 12 * 10, 3)
    inputs[..., :2] = 0.5
    rolled = inputs.unflatten(1, (12, 10)).roll((3, 4), (1, 2)).flatten(1, 2)
    expected = model(inputs, (12, 10)).unflatten(1, (12, 10)).roll((3, 4), (1, 2)).flatten(1, 2)
    torch.testing.assert_close(model(rolled, (12, 10)), expected, atol=1e-5, rtol=1e-4)
    finer = model(points(24 * 20), (24, 20))  # one model for any resolution
    assert finer.shape == (1, 480, 2)
    with pytest.raises(InputError, match="structured"):
        model(inputs)


def test_noise_is_for_training_alone() -> None:
    model, inputs = small("transolver++"), points(30)
    torch.testing.assert_close(model(inputs), model(inputs), atol=0, rtol=0)
    model.train()
    assert not torch.equal(model(inputs), model(inputs))


def mean_of_all(folder, count: int = 12):
    """Cases whose field is the mean of an input over all points, everywhere: no pointwise model can know it."""
    rng = np.random.default_rng(0)
    cases, x = [], np.stack(np.meshgrid(*[np.linspace(0, 1, 6)] * 2, indexing="ij"), -1).reshape(-1, 2)
    for i in range(count):
        source = (rng.random((36, 1)) + rng.normal()).astype(np.float32)
        field = np.full((36, 1), source.mean(), np.float32)
        none = np.zeros(36, bool)
        cases.append(
            Case(f"case-{i}", x.astype(np.float32), none, {"mean": field}, features={"a": source}, grid=(6, 6))
        )
    entries = write_shard(folder / "all.safetensors", cases)
    names = list(entries)
    write_manifest(folder, Manifest(cases=entries, splits={"train": names, "test": names[:4]}))


@pytest.mark.parametrize("kind", BASELINES)
def test_each_trains_by_recipe_and_is_kept(kind: str, tmp_path) -> None:
    mean_of_all(tmp_path)
    sizes = "layers = 1\n" + ("width = 8\n" if kind == "fno2d" else "channels = 8\n")
    sizes += "" if kind in ("mlp", "pointnet", "graphsage", "meshgraphnet", "fno2d") else "heads = 2\n"
    (tmp_path / "r.toml").write_text(
        f'[data]\npath = "."\ninputs = ["position", "a"]\nfields = ["mean"]\nvalidation = "test"\n'
        f'[model]\nkind = "{kind}"\n{sizes}[training]\nsteps = 12\nbatch = 4\nlearning_rate = 1e-2\n'
    )
    reached = train(read_recipe(tmp_path / "r.toml"), tmp_path / "run", device="cpu")
    kept = Surrogate.load(tmp_path / "run", "cpu")
    dataset = Dataset(tmp_path)
    assert type(kept.model).__module__.startswith("aerosurrogate.model.baselines")
    again = evaluate(kept, dataset, dataset.names("test")).figures
    assert again["mean"] == pytest.approx(reached["validation"]["mean"], rel=1e-4)
    losses = [
        float(line.split(",")[4])
        for line in (tmp_path / "run/history.csv").read_text().splitlines()[1:]
        if line.split(",")[4]
    ]
    assert min(losses[-3:]) < losses[0]
