"""Transolver in the order of operations of the paper's equations: the yardstick for results and for speed.

Written for reading, not for speed. Parameters are named as in the authors' checkpoints, so that
`from_authors(Textbook(...).state_dict())` is the same model.
"""

import math

import torch
from torch import Tensor, nn


class PhysicsAttention(nn.Module):
    def __init__(self, C: int, heads: int, slices: int, projection: str) -> None:
        super().__init__()
        self.heads, self.projection = heads, projection
        D = C // heads
        self.temperature = nn.Parameter(torch.full((1, heads, 1, 1), 0.5))
        kinds = {"conv2d": nn.Conv2d, "conv3d": nn.Conv3d}
        for name in ("in_project_x", "in_project_fx"):
            layer = nn.Linear(C, C) if projection == "pointwise" else kinds[projection](C, C, 3, padding=1)
            setattr(self, name, layer)
        self.in_project_slice = nn.Linear(D, slices)
        self.to_q = nn.Linear(D, D, bias=False)
        self.to_k = nn.Linear(D, D, bias=False)
        self.to_v = nn.Linear(D, D, bias=False)
        self.to_out = nn.Sequential(nn.Linear(C, C))

    def project(self, layer: nn.Module, x: Tensor, grid: tuple[int, ...] | None) -> Tensor:
        B, N, C = x.shape
        if self.projection == "pointwise":
            y = layer(x)
        else:
            image = x.reshape(B, *grid, C).movedim(-1, 1).contiguous()
            y = layer(image).movedim(1, -1).reshape(B, N, C)
        return y.reshape(B, N, self.heads, C // self.heads).transpose(1, 2).contiguous()  # B H N D

    def forward(self, x: Tensor, grid: tuple[int, ...] | None) -> Tensor:
        values = self.project(self.in_project_fx, x, grid)
        features = self.project(self.in_project_x, x, grid)
        temperature = self.temperature if self.projection == "pointwise" else self.temperature.clamp(0.1, 5.0)
        weights = torch.softmax(self.in_project_slice(features) / temperature, dim=-1)  # B H N M
        tokens = torch.einsum("bhnd,bhnm->bhmd", values, weights) / (weights.sum(2)[..., None] + 1e-5)
        q, k, v = self.to_q(tokens), self.to_k(tokens), self.to_v(tokens)
        mixed = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v
        spread = torch.einsum("bhmd,bhnm->bhnd", mixed, weights)
        return self.to_out(spread.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.linear_pre = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU())
        self.linear_post = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_post(self.linear_pre(x))


class Block(nn.Module):
    def __init__(self, C: int, heads: int, slices: int, mlp_ratio: int, projection: str, outputs: int | None) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(C)
        self.Attn = PhysicsAttention(C, heads, slices, projection)
        self.ln_2 = nn.LayerNorm(C)
        self.mlp = MLP(C, C * mlp_ratio, C)
        self.last = outputs is not None
        if self.last:
            self.ln_3 = nn.LayerNorm(C)
            self.mlp2 = nn.Linear(C, outputs)

    def forward(self, x: Tensor, grid: tuple[int, ...] | None) -> Tensor:
        x = self.Attn(self.ln_1(x), grid) + x
        x = self.mlp(self.ln_2(x)) + x
        return self.mlp2(self.ln_3(x)) if self.last else x


class Textbook(nn.Module):
    """`width` input channels, whatever they are; `placeholder` as in the authors' variants."""

    def __init__(
        self,
        width: int,
        outputs: int,
        layers: int = 8,
        C: int = 128,
        heads: int = 8,
        slices: int = 64,
        mlp_ratio: int = 1,
        projection: str = "pointwise",
        placeholder: bool = True,
        time: bool = False,
    ) -> None:
        super().__init__()
        self.preprocess = MLP(width, 2 * C, C)
        self.placeholder = nn.Parameter(torch.rand(C) / C)
        self.adds_placeholder = placeholder
        if time:
            self.time_fc = nn.Sequential(nn.Linear(C, C), nn.SiLU(), nn.Linear(C, C))
        last = [None] * (layers - 1) + [outputs]
        self.blocks = nn.ModuleList(Block(C, heads, slices, mlp_ratio, projection, o) for o in last)

    def forward(self, x: Tensor, grid: tuple[int, ...] | None = None, time: Tensor | None = None) -> Tensor:
        x = self.preprocess(x)
        if self.adds_placeholder:
            x = x + self.placeholder
        if time is not None:
            half = x.shape[-1] // 2
            angles = time[:, None] * torch.exp(-math.log(10000.0) * torch.arange(half) / half)
            x = x + self.time_fc(torch.cat([angles.cos(), angles.sin()], dim=-1))[:, None]
        for block in self.blocks:
            x = block(x, grid)
        return x


def roughened(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with weights as uneven as after training, so that no bias, scale or temperature goes unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "temperature" in name:
                p.add_(0.1 * noise.clamp(-2, 2))
            elif p.ndim == 1:
                p.add_(0.2 * noise)
            else:
                p.copy_(noise / math.sqrt(p[0].numel()))
    return model
