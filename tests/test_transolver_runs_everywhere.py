"""Across processes, on another device, in other precisions, compiled, exported: the same answer."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from transolver_models import points, small_model

from aerosurrogate.model.transolver import Transolver

SHARES = (170, 30)  # points of the two processes
SETTINGS = {"coefficients": 2, "slices": 8}


def loss(answer, truth, count, processes):
    """The mean square over all points, of which a process adds its own; the coefficients' loss is every process'."""
    return (answer.fields - truth).square().sum() / count + answer.coefficients.square().sum() / processes


def problem():
    x = points(sum(SHARES))
    return x, torch.sin(x[..., :3]), x[..., 0] > 0


def one_of_two(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = small_model(**SETTINGS)
    model.tile = 64
    x, truth, skin = (part.split(SHARES, dim=1)[rank] for part in problem())
    answer = model(x, skin=skin, group=dist.group.WORLD)
    loss(answer, truth, sum(SHARES), 2).backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    states = model.states([(x, skin)], group=dist.group.WORLD)
    found = [answer.fields, model.decode(x, states), states.coefficients, *(p.grad for p in model.parameters())]
    np.savez(folder / f"{rank}.npz", *(tensor.detach().numpy() for tensor in found))
    dist.destroy_process_group()


def test_points_spread_over_two_processes(tmp_path):
    """Unequal shares: each process gets its points' fields of the whole; the summed gradients are the whole's."""
    mp.spawn(one_of_two, args=(tmp_path,), nprocs=2)
    model = small_model(**SETTINGS)
    x, truth, skin = problem()
    whole = model(x, skin=skin)
    loss(whole, truth, sum(SHARES), 1).backward()
    for rank, part in enumerate(whole.fields.detach().split(SHARES, dim=1)):
        found = [torch.as_tensor(array) for array in np.load(tmp_path / f"{rank}.npz").values()]
        for ours, expected in zip(found[:3], (part, part, whole.coefficients.detach()), strict=True):
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
        for ours, p in zip(found[3:], model.parameters(), strict=True):
            torch.testing.assert_close(ours, p.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"coefficients": 2},
        {"slices": 24, "unified_pos": "accompany"},
        {"projection": "conv2d", "unified_pos": "index"},
        {"attention": "squares"},
        {"attention": "full", "time_input": True},
    ],
)
def test_no_tensor_is_made_on_another_device(settings):
    """The meta device refuses to meet tensors of any other: what passes here runs on a graphics processor."""
    with torch.device("meta"):
        model = small_model_without_weights(settings)
        x = torch.empty(2, 60, 5)
        mask = None if settings.get("unified_pos") == "index" else torch.ones(2, 60, dtype=torch.bool)
        time = torch.empty(2) if settings.get("time_input") else None
    x.requires_grad_()
    answer = model(x, grid=(6, 10), mask=mask, time=time, skin=torch.empty(2, 60, device="meta"))
    assert answer.fields.device.type == "meta"
    answer.fields.sum().backward()
    assert x.grad.shape == x.shape


def small_model_without_weights(settings) -> Transolver:
    like = small_model(**settings)
    return Transolver(like.interface, like.config)


@pytest.mark.parametrize("recompute", ["none", "cheap", "tiles"])
@pytest.mark.parametrize("size", [{"slices": 8}, {"slices": 24}])
def test_bfloat16_autocast(size, recompute):
    model = small_model(**size)
    model.recompute = recompute
    x = points(600)
    model(x).square().mean().backward()
    exact = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fields = model(x)
    fields.float().square().mean().backward()
    rough = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert (fields - model(x)).abs().max() < 0.1 * model(x).std()
    assert torch.nn.functional.cosine_similarity(rough, exact, dim=0) > 0.99


@pytest.mark.parametrize("slices", [8, 24])
def test_tokens_are_summed_in_float32_whatever_the_products(slices):
    """Against float64 sums of the same rounded factors; bfloat16 sums would be off by 2e-3."""
    attention = small_model(slices=slices).blocks[0].attention
    z = torch.randn(2, 3000, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    w = torch.rand(2, 3000, 4, slices, generator=torch.Generator().manual_seed(1)).bfloat16()
    attention.to_values.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        sums = attention.reduce(z, w, None, None)[..., :-1]
        values = z[:, :, None] if attention.folded else attention._project(z, attention.to_values, None)
    expected = torch.einsum("bnhm,bnhf->bhmf", w.double(), values.double().expand(-1, -1, 4, -1))
    assert (sums - expected).norm() / expected.norm() < 1e-5


@pytest.mark.parametrize("recompute", ["cheap", "tiles"])
def test_written_gradients_are_those_of_the_function(recompute):
    """In double precision, against the gradients that automatic differentiation of the plain form gives."""
    found = []
    for mode in ("none", recompute):
        model = small_model(coefficients=1).double()
        model.recompute, model.tile = mode, 16
        x = points(50, batch=2).double().requires_grad_()
        mask = torch.arange(50).expand(2, -1) < torch.tensor([[50], [33]])
        answer = model(x, mask=mask, skin=x[..., 0].detach() > 0)
        (answer.fields[mask].sin().sum() + answer.coefficients.sum()).backward()
        found.append([x.grad, *(p.grad for p in model.parameters())])
    for plain, written in zip(*found, strict=True):
        torch.testing.assert_close(written, plain, atol=1e-10, rtol=1e-8)


def test_second_derivatives_without_recomputing():
    model = small_model().double()
    model.recompute = "none"
    x = points(20).double().requires_grad_()
    slope = torch.autograd.grad(model(x)[..., 0].sum(), x, create_graph=True)[0]
    slope.square().sum().backward()
    assert x.grad.abs().max() > 0


def test_dropout_is_the_same_again_in_the_backward_pass():
    gradients = []
    for recompute in ("none", "tiles"):
        model = small_model(dropout=0.3).train()
        model.recompute, model.tile = recompute, 16
        torch.manual_seed(3)
        model(points(50)).square().sum().backward()
        gradients.append(model.head.weight.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("settings", [{"slices": 8}, {"slices": 24}, {"projection": "conv2d"}])
def test_compiles_into_one_graph(settings):
    """Capture and differentiation of the graph; what the C++ backend makes of it is tested among the slow ones."""
    torch._dynamo.reset()
    model = small_model(layers=1, **settings)
    grid = (6, 10) if "projection" in settings else None
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = points(60)
    fields = compiled(x, grid=grid)
    torch.testing.assert_close(fields, model(x, grid=grid), atol=1e-5, rtol=1e-5)
    fields.sum().backward()
    assert model.embed.hidden.weight.grad.abs().max() > 0


@pytest.mark.slow
def test_compiled_code_gives_the_same():
    torch._dynamo.reset()
    model = small_model()
    with torch.no_grad():
        fields = torch.compile(model, fullgraph=True)(points(60))
        torch.testing.assert_close(fields, model(points(60)), atol=1e-5, rtol=1e-5)


def test_exports_for_any_number_of_points():
    model = small_model()
    number = torch.export.Dim("number", min=2)
    program = torch.export.export(model, (points(60),), dynamic_shapes={"inputs": {1: number}})
    torch.testing.assert_close(program.module()(points(77)), model(points(77)), atol=1e-5, rtol=1e-5)


def test_a_device_that_was_named_stays_and_one_alone_has_no_launch(monkeypatch):
    from aerosurrogate.devices import device_of_process

    monkeypatch.setenv("LOCAL_RANK", "3")
    for named in ("cpu", "cuda:1"):
        assert device_of_process(torch.device(named)) == torch.device(named)
    monkeypatch.delenv("LOCAL_RANK")
    assert device_of_process(torch.device("cuda")) == torch.device("cuda")


def test_products_on_a_card_may_round_to_tf32(monkeypatch):
    from aerosurrogate.devices import choose_device

    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    try:
        assert choose_device("cpu").type == "cpu"
        assert not torch.backends.cuda.matmul.allow_tf32
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        assert choose_device("auto").type == "cuda"
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
