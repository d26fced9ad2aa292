"""Transolver in the order of operations of NVIDIA PhysicsNeMo, as its documentation and public source have it.

Ours in words and code, for counting: heads stay behind the points, weights are divided by their sum over the points
before they meet the values (for the range of half precision), and query, key and value are one product. Attention among
the tokens, which are few, is written out. What the package itself costs is measured by speed.py where it is installed.
"""

import torch
from textbook import PhysicsAttention, Textbook
from torch import Tensor, nn

LEAST = 1e-2  # added to the sum of a slice's weights


class Attention(nn.Module):
    """With the weights of the textbook's."""

    def __init__(self, of: PhysicsAttention) -> None:
        super().__init__()
        self.heads = of.heads
        self.temperature = nn.Parameter(of.temperature.detach().transpose(1, 2).clone())  # [1, 1, H, 1]
        self.to_features, self.to_values, self.logits = of.in_project_x, of.in_project_fx, of.in_project_slice
        joined = torch.cat([layer.weight.detach() for layer in (of.to_q, of.to_k, of.to_v)])
        self.query_key_value = nn.Linear(joined.shape[1], len(joined), bias=False)
        self.query_key_value.weight = nn.Parameter(joined)
        self.out = of.to_out[0]

    def forward(self, x: Tensor, grid: None = None) -> Tensor:
        features, values = (layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.to_features, self.to_values))
        logits = self.logits(features)  # [B, N, H, M]
        weights = torch.softmax(logits / self.temperature.clamp(0.5, 5).to(logits.dtype), dim=-1).to(logits.dtype)
        shares = weights / (weights.sum(1, keepdim=True) + LEAST)
        tokens = shares.permute(0, 2, 3, 1) @ values.transpose(1, 2)  # [B, H, M, D]
        q, k, v = self.query_key_value(tokens).chunk(3, dim=-1)
        mixed = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1).to(v.dtype) @ v
        return self.out(torch.einsum("bnhm,bhmd->bnhd", weights, mixed.to(weights.dtype)).flatten(2))


def in_their_order(textbook: Textbook) -> Textbook:
    """The textbook's model with its attention in that order; it has no placeholder."""
    for block in textbook.blocks:
        block.Attn = Attention(block.Attn)  # type: ignore[arg-type]
    textbook.adds_placeholder = False
    del textbook.placeholder
    return textbook
