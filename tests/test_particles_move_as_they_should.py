"""The Lagrangian task: neighbourhoods that move, windows of rollouts, and rollouts that train within memory."""

import numpy as np
import pytest
import torch
from PIL import Image

from aerosurrogate.data.store import Manifest, write_manifest, write_shard
from aerosurrogate.generate import waterdrop
from aerosurrogate.model.registry import build
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate, answer_all_times
from aerosurrogate.training.batches import window
from aerosurrogate.training.loop import train
from aerosurrogate.viz.cases import draw


def model(transolver: bool):
    torch.manual_seed(0)
    sizes = {"layers": 2, "channels": 16, "heads": 2, "slices": 4, "transolver": transolver}
    return build({"kind": "particles", "inputs": 14, "outputs": 2, "dimensions": 2, **sizes}).eval()


def cloud(n: int = 60, speed: float = 0.002) -> torch.Tensor:
    """Six frames of particles that move evenly: [1, n, 14]."""
    generator = torch.Generator().manual_seed(0)
    places = 0.3 + 0.4 * torch.rand(n, 2, generator=generator)
    frames = [places + i * torch.tensor([speed, 0.0]) for i in range(6)]
    return torch.cat([places, *frames], dim=1)[None]


def test_without_forces_particles_keep_their_velocity():
    net, inputs = model(True), cloud()
    torch.nn.init.zeros_(net.head.weight)
    torch.nn.init.zeros_(net.head.bias)
    expected = inputs[..., -2:] + torch.tensor([0.002, 0.0])
    torch.testing.assert_close(net(inputs), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("transolver", [False, True])
def test_who_acts_on_whom(transolver):
    """Messages reach as far as the radius in each layer; a Transolver layer reaches all."""
    net, inputs = model(transolver), cloud().requires_grad_()
    slope = torch.autograd.grad(net(inputs)[0, 0].sum(), inputs)[0][0, :, 2:].abs().sum(1)
    distance = (inputs[0, :, -2:] - inputs[0, 0, -2:]).norm(dim=-1)
    beyond = distance > 2 * net.config.radius
    assert beyond.any()
    assert (slope[beyond] > 0).all() == transolver
    assert (slope[~beyond] > 0).sum() > 1


def test_neighbours_are_those_of_the_last_frame():
    net, inputs = model(False), cloud()
    moved = inputs.clone()
    moved[..., :2] += 5.0  # where a particle was when the rollout began does not matter
    torch.testing.assert_close(net(moved), net(inputs))
    moved = inputs.clone()
    moved[:, 30:, 2:] += 5.0
    assert not torch.allclose(net(moved)[:, :30], net(inputs)[:, :30], atol=1e-7)


def test_rollouts_keep_one_frame_for_the_backward_pass():
    net, inputs = model(True).train(), cloud()

    def kept(steps: int) -> tuple[int, torch.Tensor]:
        total = 0

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal total
            total += tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            answer = answer_all_times(net, inputs, None, "rollout", steps)
        net.zero_grad()
        answer.square().sum().backward()
        return total, net.head.weight.grad.clone()

    few, _ = kept(2)
    many, slope = kept(8)
    frames, x = [], inputs
    for _ in range(8):
        frames.append(net(x))
        x = torch.cat([x[..., :2], x[..., 4:], frames[-1]], dim=-1)
    net.zero_grad()
    torch.cat(frames, dim=-1).square().sum().backward()
    torch.testing.assert_close(slope, net.head.weight.grad, rtol=1e-4, atol=1e-7)
    assert many - few < 6 * 4 * 60 * 14 * 4  # frames, not features


def test_drops_become_windows_and_train(tmp_path):
    cases = [waterdrop.case(f"drop-{seed}", np.random.default_rng(seed), None) for seed in (0, 1)]
    entries = write_shard(tmp_path / "drops" / "all.safetensors", cases)
    write_manifest(tmp_path / "drops", Manifest(cases=entries, splits={"train": list(entries), "test": list(entries)}))
    case = cases[0]
    frames = np.concatenate([case.features["positions"], case.fields["positions"]], axis=1)
    part = window(case, "positions", 194, 3, np.random.default_rng(1))
    start = np.flatnonzero((frames == part.features["positions"][:, :1]).all(axis=0))[0]
    assert start > 0
    np.testing.assert_array_equal(part.features["positions"], frames[:, start : start + 12])
    np.testing.assert_array_equal(part.fields["positions"][:, :6], frames[:, start + 12 : start + 18])
    settings = ["model.layers=1", "model.channels=8", "model.heads=2", "model.slices=4", "training.steps=3"]
    settings += [f"data.path={tmp_path / 'drops'}", "data.validation=0.0", "training.batch=2"]
    train(read_recipe("recipes/waterdrop.toml", settings), tmp_path / "run", device="cpu")
    kept = Surrogate.load(tmp_path / "run", "cpu")
    assert kept.time_steps == 194
    draw(tmp_path / "run", tmp_path / "drops.png", kind="error")
    with Image.open(tmp_path / "drops.png") as strip:
        assert strip.width > strip.height
        assert len(strip.convert("RGB").getcolors(1 << 20)) > 50  # particles, coloured
