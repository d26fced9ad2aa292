"""The kernels for graphics processors, run by Triton's interpreter, give what torch does, forward and backward."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from aerosurrogate.model import folding
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.folding import fuse, normalised
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import PhysicsAttention, Transolver
from aerosurrogate.training import compiled

pytest.importorskip("triton", reason="needs Triton, which comes with CUDA builds of torch")
from aerosurrogate.model import fused

B, N, C, H, M = 2, 75, 32, 2, 16  # tiles of 32 points: the last is not full


def plainly(z: Tensor, weight: Tensor, bias: Tensor, ready: Tensor) -> tuple[Tensor, Tensor]:
    w = F.softmax(F.linear(z, weight, bias).unflatten(-1, (H, M)), -1)
    sums = torch.cat([torch.einsum("bnhm,bnc->bhmc", w, z), w.sum(1)[..., None]], -1)
    return sums, w.flatten(2) @ ready


def by_kernels(z: Tensor, weight: Tensor, bias: Tensor, ready: Tensor) -> tuple[Tensor, Tensor]:
    return fused.Slice.apply(z, weight, bias, H), fused.Deslice.apply(z, weight, bias, ready, H)


def test_sums_points_and_all_gradients_agree_and_repeat() -> None:
    torch.manual_seed(0)
    shapes = (B, N, C), (H * M, C), (H * M,), (B, H * M, C)
    arguments = [torch.randn(shape, requires_grad=True) for shape in shapes]
    pull = torch.randn(B, H, M, C + 1), torch.randn(B, N, C)

    def everything(way: Callable[..., tuple[Tensor, Tensor]]) -> list[Tensor]:
        found = way(*arguments)
        loss = sum((part * weight).sum() for part, weight in zip(found, pull, strict=True))
        return [*found, *torch.autograd.grad(loss, arguments)]

    ours = everything(by_kernels)
    for found, known in zip(ours, everything(plainly), strict=True):
        torch.testing.assert_close(found, known, atol=1e-5 * known.abs().max().item(), rtol=1e-5)
    assert all(map(torch.equal, ours, everything(by_kernels)))


def test_mlps_and_their_gradients_agree() -> None:
    torch.manual_seed(0)
    shapes = (B, N, C), (2 * C, C), (2 * C,), (C, 2 * C)
    arguments = [torch.randn(shape, requires_grad=True) for shape in shapes]
    pull = torch.randn(B, N, C)

    def everything(way: Callable[..., Tensor]) -> list[Tensor]:
        found = way(*arguments)
        return [found, *torch.autograd.grad((found * pull).sum(), arguments)]

    ours = everything(lambda z, weight, bias, out: fused.mlp(z, (weight, bias), out))
    known = everything(lambda z, weight, bias, out: F.linear(F.gelu(F.linear(z, weight, bias)), out))
    for mine, exact in zip(ours, known, strict=True):
        torch.testing.assert_close(mine, exact, atol=1e-5 * exact.abs().max().item(), rtol=1e-5)


@pytest.mark.parametrize("slices", [16, 32])  # the folded order is the cheaper one, and is not
def test_a_fused_model_answers_as_before(slices: int) -> None:
    torch.manual_seed(0)
    config = TransolverConfig(layers=2, channels=32, heads=2, slices=slices)
    model = Transolver(Interface(inputs=5, outputs=3, dimensions=3), config)
    x = torch.randn(1, 40, 5)
    plain = model(x)
    for mlps in (False, True):
        assert fuse(model, True, mlps)
        torch.testing.assert_close(model(x), plain, atol=1e-5, rtol=1e-5)
    fuse(model, False)
    assert torch.equal(model(x), plain)
    odd = Transolver(model.interface, config.model_copy(update={"channels": 48, "heads": 4}))
    assert not fuse(odd, True)
    other = Transolver(model.interface, config.model_copy(update={"activation": "silu"}))
    assert fuse(other, True)
    assert not fuse(other, True, True)


def test_a_fused_model_is_one_graph() -> None:
    """Forward and backward, as torch.compile sees them on a GPU: each kernel is an operator of known shapes."""
    torch.manual_seed(0)
    model = Transolver(
        Interface(inputs=5, outputs=3, dimensions=3), TransolverConfig(layers=1, channels=32, heads=2, slices=16)
    )
    x = torch.randn(1, 40, 5)
    plain = torch.autograd.grad(model(x).square().mean(), model.embed.out.weight)[0]
    fuse(model, True, True)
    torch._dynamo.reset()
    graph = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=False)
    found = torch.autograd.grad(graph(x).square().mean(), model.embed.out.weight)[0]
    torch.testing.assert_close(found, plain, atol=1e-5 * plain.abs().max().item(), rtol=1e-4)


def test_the_norm_in_half_precision_has_the_gradient_of_the_norm() -> None:
    torch.manual_seed(0)
    x, pull = torch.randn(4, 50, 64, requires_grad=True), torch.randn(4, 50, 64)
    exact = torch.autograd.grad((F.layer_norm(x, (64,)) * pull).sum(), x)[0]
    kept: list[Tensor] = []
    keeping = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t)
    with torch.autocast("cpu", torch.bfloat16), keeping:
        z = normalised(x)
    assert z.dtype == torch.bfloat16
    assert sum(t.nbytes for t in kept) < 1.1 * z.nbytes, "more is kept than what the products see"
    found = torch.autograd.grad((z.float() * pull).sum(), x)[0]
    assert (found - exact).norm() < 4e-3 * exact.norm()


class Answers(torch.nn.Module):
    """As much of an objective as is asked here."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = TransolverConfig(layers=1, channels=32, heads=2, slices=16)
        self.model = Transolver(Interface(inputs=5, outputs=3, dimensions=3), config)

    def forward(self, batch: Tensor, time: None) -> dict[str, Tensor]:
        return {"loss": self.model(batch).square().mean()}


def test_the_fastest_of_the_ways_that_fit_and_agree_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, x = Answers(), torch.randn(1, 40, 5)
    attention, mlp = objective.model.block(0).attention, objective.model.block(0).mlp
    slices, both = kernels = compiled.own_kernels(objective.model)
    assert (slices, both) == tuple(compiled.OWN_KERNELS)
    said: list[str] = []
    monkeypatch.setattr(compiled.console, "note", said.append)
    monkeypatch.setattr(compiled, "RUNS", 1)

    def asked(*seconds: float) -> str | None:
        """With clocks that say so many seconds for torch's kernels, ours of slicing, and those of MLPs too."""
        ticks = iter([tick for run in seconds for tick in (0.0, run)])
        if seconds:
            monkeypatch.setattr(compiled, "perf_counter", lambda: next(ticks))
        torch._dynamo.reset()
        objective._compiled_call_impl = None
        return compiled.fastest(objective, x, None, torch.enable_grad, kernels, backend="eager")  # type: ignore[arg-type]

    assert asked() == "", "the interpreter is slower than torch"
    assert (attention.fused, mlp.fused) == (False, False)
    assert asked(3.0, 2.0, 1.0) == both
    assert (attention.fused, mlp.fused) == (True, True)
    assert asked(3.0, 2.0, 2.5) == slices
    assert (attention.fused, mlp.fused) == (True, False)
    move = folding.move
    with monkeypatch.context() as with_memory_of_a_card:
        with_memory_of_a_card.setattr(folding, "move", partial(fits, attention, move))
        assert asked(1.0, 2.0) == slices, "torch's own kernels need more memory than there is"
        assert said[-1].startswith("torch.compile: ")
    forward = fused.Deslice.forward
    monkeypatch.setattr(fused.Deslice, "forward", staticmethod(lambda *a: 1.5 * forward(*a)))
    assert asked(3.0, 2.0, 1.0) == "", "faster by the clock, and wrong"
    assert (attention.fused, mlp.fused) == (False, False)


def fits(attention: PhysicsAttention, move: Callable[..., Tensor], *given: Any) -> Tensor:
    """`folding.move` on a card that is too small for weights that are written, once steps are compiled."""
    if torch.compiler.is_compiling() and not attention.fused:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return move(*given)


@pytest.mark.slow
def test_kernels_fit_an_a100_and_do_not_spill() -> None:
    """As Triton compiles them for it, which takes no card; the interpreter would be in the way."""
    program = Path(__file__).parents[1] / "benchmarks" / "gpu_kernels.py"
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, program, "--cards", "80"], env=env, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert len(found) == 18
    for name, resources in found.items():
        assert resources["registers"] <= 255, name
        assert resources["spilled"] == 0, name
        assert resources["shared"] <= 80_000, f"two programs at once would not fit: {name}"
