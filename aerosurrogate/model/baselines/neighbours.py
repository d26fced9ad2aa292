"""Which points are near which: the graphs of the graph networks, made from the positions in each call."""

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

FAR = 1e9  # where padding is put, away from all points


@torch.no_grad()
def nearest(positions: Tensor, mask: Tensor | None, count: int) -> Tensor:
    """The `count` points nearest to each point [B, N, d], itself left out: [B, N, count] of indices."""
    places = positions.detach().double().cpu().numpy().copy()
    if mask is not None:
        gone = ~mask.cpu().numpy()
        places[gone] = FAR * (1 + np.arange(gone.sum()))[:, None]
    count = min(count, places.shape[1] - 1)
    found = [_of_case(case.tobytes(), case.shape, count) for case in places]
    return torch.from_numpy(np.stack(found)).to(positions.device)


@functools.lru_cache(maxsize=8)  # all cases of a structured set lie on one grid
def _of_case(places: bytes, shape: tuple[int, int], count: int) -> NDArray:
    case = np.frombuffer(places).reshape(shape)
    return cKDTree(case).query(case, count + 1)[1][:, 1:]


def gathered(x: Tensor, index: Tensor) -> Tensor:
    """Features of the neighbours: x [B, N, C], index [B, N, K] -> [B, N, K, C]."""
    B, N, K = index.shape
    return x.gather(1, index.reshape(B, N * K, 1).expand(-1, -1, x.shape[-1])).view(B, N, K, -1)
