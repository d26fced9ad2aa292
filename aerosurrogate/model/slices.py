"""Which slices points belong to: what the paper's pictures of physical states show."""

from typing import cast

import torch
from torch import Tensor

from aerosurrogate.errors import InputError
from aerosurrogate.model import tiles
from aerosurrogate.model.interface import Grid, States
from aerosurrogate.model.positions import at_index_places
from aerosurrogate.model.tiles import Tile
from aerosurrogate.model.transolver import Transolver


@torch.no_grad()
def slice_weights(
    model: Transolver,
    points: Tensor,
    layer: int = -1,
    states: States | None = None,
    grid: Grid = None,
    time: Tensor | None = None,
) -> Tensor:
    """The weights [B, n, H, M] by which points [B, n, inputs] belong to the slices of a layer.

    The points themselves are the body, unless its states are given.
    """
    if model.config.attention == "full":
        raise InputError("full attention has no slices", remedy='use a model with attention = "slices"')
    time = time if states is None else states.time
    model.check(points, grid, None, time)
    if model.config.unified_pos == "index":
        points = at_index_places(points, grid)
    call, before = model.call(time, grid), layer % model.config.layers
    if states is not None:
        ready = [model.block(k).ready(states.tokens[k]) for k in range(before)]
        x = tiles.features(model, Tile(points), ready, call)
    else:
        x = model.embedded(points, call)
        for k in range(before):
            x = model.block(k)(x, call.folded[k], None, grid)
        x = model.block(before).near(x, None, grid)
    return cast(Tensor, model.block(before).begin(x, call.folded[before], None, grid)[0])
