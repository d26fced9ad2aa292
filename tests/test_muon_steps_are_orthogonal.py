"""Muon moves matrices by steps with equal singular values, and all else exactly as AdamW."""

import pytest
import torch
from torch import nn, optim

from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import Transolver
from aerosurrogate.training.muon import LIKE_ADAM, Muon, orthogonalised


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 16, 144), (2, 96, 24)])
def test_orthogonalised_keeps_singular_vectors_and_evens_out_singular_values(shape: tuple[int, ...]):
    torch.manual_seed(0)
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    values = torch.logspace(0, -1.5, min(shape[1:]))  # over a factor of thirty
    result = orthogonalised(left * values @ right)
    inner = left.mT @ result @ right.mT
    diagonal = inner.diagonal(dim1=-2, dim2=-1)
    assert diagonal.min() > 0.6
    assert diagonal.max() < 1.3
    assert (inner - torch.diag_embed(diagonal)).abs().max() < 0.02


def test_a_step_has_the_size_of_adams():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(64, 32))
    weight.grad = 1e-3 * torch.randn(64, 32)
    Muon([weight], [], lr=0.01, weight_decay=0.0).step()
    # 32 singular values of about lr * LIKE_ADAM * sqrt(64): a root mean square of lr * LIKE_ADAM over the entries.
    assert weight.square().mean().sqrt().item() == pytest.approx(0.01 * LIKE_ADAM, rel=0.2)


def test_all_else_is_moved_as_by_adamw():
    def steps(kind: str) -> list[torch.Tensor]:
        torch.manual_seed(1)
        bias, scale = nn.Parameter(torch.randn(7)), nn.Parameter(torch.randn(3, 5))
        matrix = nn.Parameter(torch.randn(8, 8))
        options = {"lr": 0.02, "weight_decay": 0.1}
        if kind == "muon":
            optimiser: optim.Optimizer = Muon([matrix], [bias, scale], **options)
        else:
            optimiser = optim.AdamW([bias, scale], **options)
        for _ in range(4):
            for weight in (bias, scale, matrix):
                weight.grad = torch.sin(3 * weight.detach())
            optimiser.step()
        return [bias.detach(), scale.detach()]

    for ours, theirs in zip(steps("muon"), steps("adamw"), strict=True):
        assert torch.equal(ours, theirs)


def test_weights_decay_without_a_gradient_to_speak_of():
    weight = nn.Parameter(torch.ones(4, 4))
    weight.grad = torch.zeros(4, 4)
    Muon([weight], [], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(weight, torch.full((4, 4), 0.95))


def test_factors_of_waves_are_no_matrices():
    """Each belongs to one wave of one channel; all other weights of the blocks are Muon's to take, as they were."""
    config = TransolverConfig(layers=2, channels=8, heads=2, projection="conv2d", neighbourhood=3, waves=2)
    model = Transolver(Interface(inputs=4, outputs=1, dimensions=2), config)
    taken, blocks = {id(weight) for weight in model.hidden_parameters()}, dict(model.blocks.named_parameters())
    assert {name for name, weight in blocks.items() if id(weight) not in taken} == {
        "0.waves.factors",
        "1.waves.factors",
    }
    assert taken <= set(map(id, blocks.values()))
