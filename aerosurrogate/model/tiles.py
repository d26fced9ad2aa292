"""A call over more points than are worked on at once: tile by tile, chunk by chunk, process by process.

A layer needs the sums of all points before it can finish any of them. So the tiles are gone over once per block, which
finishes one block on a tile and begins the next while it is in the cache, and once more for the heads. From one time to
the next the features and slice weights of a tile are kept, or computed again from its inputs and the tokens.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from aerosurrogate.devices import free_memory
from aerosurrogate.model.folding import Folded, finish_in_place
from aerosurrogate.model.interface import Grid, skin_sums
from aerosurrogate.model.precision import full_precision, product_dtype, wide

if TYPE_CHECKING:
    from aerosurrogate.model.transolver import Transolver

TILE = 1024  # points that a processor works on at once: at 256 channels a tile is 1 MB,
TILE_SIZE = 2**18  # numbers, which is as large as that of an answer is with fewer channels too
TILE_OF_A_CARD = 2**16  # and a graphics processor: enough to fill it, few enough that temporaries stay small
KEEP_ALL_TO = 2**13  # points of a training step up to which nothing is computed again in the backward pass
TILES_AGAIN_ABOVE = 2**16  # and beyond which whole tiles are
KEPT_FEATURES = 2**22  # points whose features `states` keeps where nobody knows what is free: 4 GB at 256 channels
KEPT_WEIGHTS = 2**19  # points whose slice weights are kept from reducing to deslicing; others' are computed again


class Tile(NamedTuple):
    """Some points of each member of the batch."""

    inputs: Tensor  # [B, n, inputs]
    mask: Tensor | None = None  # [B, n] bool
    skin: Tensor | None = None  # [B, n]

    def split(self, size: int) -> list["Tile"]:
        count = max(1, -(-self.inputs.shape[1] // size))
        parts = [[None] * count if part is None else part.split(size, dim=1) for part in self]
        return [Tile(*together) for together in zip(*parts, strict=True)]


def split(model: "Transolver", whole: Tile) -> list[Tile]:
    """The tiles of a call; one where a layer needs more of a point than its features and the tokens."""
    if torch.compiler.is_compiling() or model.without_states:
        return [whole]
    usual = TILE_OF_A_CARD
    if whole.inputs.is_cpu:
        usual = TILE if torch.is_grad_enabled() else max(TILE, TILE_SIZE // model.config.channels)
    size = model.tile or usual // len(whole.inputs)
    return whole.split(max(1, size))


def choose_recompute(model: "Transolver", inputs: Tensor) -> str:
    """What a step on these points [B, N, inputs] computes again in its backward pass, see `Transolver`."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return "none"
    if model.recompute != "auto":
        return model.recompute
    points = inputs.shape[:2].numel()
    return "none" if points <= KEEP_ALL_TO else "cheap" if points <= TILES_AGAIN_ABOVE else "tiles"


def affordable(model: "Transolver") -> int:
    """Points whose features `states` keeps: in all calls at once they may take a quarter of the free memory."""
    weight = model.head.weight
    room = free_memory(weight.device) / (4 * weight.element_size() * model.config.channels)
    return int(room if math.isfinite(room) else KEPT_FEATURES) // model.at_once


class Call(NamedTuple):
    """What all tiles of a call share."""

    folded: list[Folded | None]  # per block, None in the plain order
    time: Tensor | None = None  # embedded, [B, 1, C]
    grid: Grid = None
    recompute: str = "none"

    @property
    def lean(self) -> bool:
        return self.recompute != "none"


class Marched(NamedTuple):
    """What a march over the tiles has found."""

    outputs: list[Tensor]  # fields of each tile
    tokens: list[Tensor]  # of each layer
    skin: Tensor | None  # sums over the skin, [B, C + 1]
    recomputed: int  # points whose features were not kept


def march(
    model: "Transolver",
    tiles: Callable[[], Iterable[Tile]],
    call: Call,
    group: dist.ProcessGroup | None,
    keep: int,
    fields: bool = True,
) -> Marched:
    """Go over the tiles once per block and once more; the features of the first `keep` points are kept."""
    layers = model.config.layers
    again = call.recompute == "tiles"
    step: Callable[..., Any] = functools.partial(recomputed_later, model, _step) if again else _step
    in_place = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
    kept: dict[int, tuple[Tensor, Tensor | None]] = {}
    places: list[tuple[Tensor, Tensor]] = []
    outputs: list[Tensor] = []
    tokens: list[Tensor] = []
    ready: list[Tensor] = []
    skin, recomputed = None, 0
    for k in range(layers + 1):
        last = k == layers
        total, seen, skinned = None, 0, False
        if (again and not last) or (in_place and k == 0):
            places = [_places(model, k, tile) for tile in tiles()]
            places = places if len(places) > 1 else []
        if last:
            places = []  # each tile's room is free for what comes after it
        for i, tile in enumerate(tiles()):
            skinned |= tile.skin is not None
            if last and not fields and tile.skin is None:
                continue  # the skin's sums are all that is wanted now
            x, w, part = step(model, tile, *kept.pop(i, (None, None)), tuple(ready), call)
            if part is not None:
                total = part if total is None else _added(total.to(wide(part)), part)
            if last:
                outputs += [x] if fields else []
                continue
            seen += tile.inputs.shape[1]
            if i > 0 and seen > KEPT_WEIGHTS:
                w = None
            if i == 0 or seen <= keep:
                kept[i] = _put((x, w), places[i]) if places else (x, w)
        if last:
            skin = total if total is None else _total(total, group)
        else:
            assert total is not None
            recomputed = seen - sum(x.shape[1] for x, _ in kept.values())
            attention = model.block(k).attention
            with full_precision(total):  # projected first: C / D times less to be exchanged
                tokens.append(attention.mix(_total(attention.project(total), group)))
            ready.append(model.block(k).ready(tokens[k]))
            if k == layers - 1 and not (fields or skinned):
                break
    return Marched(outputs, tokens, skin, recomputed)


def _step(
    model: "Transolver", tile: Tile, x: Tensor | None, w: Tensor | None, ready: Sequence[Tensor], call: Call
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Finish one block and begin the next on a tile, while it is in the cache.

    Gives the tile's features, slice weights and part of the sums; after the last block its fields, None, and its part
    of the skin's sums [B, C + 1].
    """
    k = len(ready)
    x = features(model, tile, ready, call) if x is None else _finish(model, tile, x, w, k - 1, ready, call)
    if k < model.config.layers:
        x = model.block(k).near(x, tile.mask, call.grid)
        return x, *model.block(k).begin(x, call.folded[k], tile.mask, call.grid, call.lean)
    z = model.norm(x)
    return model.head(z), None, None if tile.skin is None else skin_sums(z, tile.skin)


def features(model: "Transolver", tile: Tile, ready: Sequence[Tensor], call: Call) -> Tensor:
    """The features [B, n, C] of a tile after the blocks whose tokens are ready, computed from its inputs."""
    x = model.embedded(tile.inputs, call)
    for k in range(len(ready)):
        x = _finish(model, tile, model.block(k).near(x, tile.mask, call.grid), None, k, ready, call)
    return x


def _finish(
    model: "Transolver", tile: Tile, x: Tensor, w: Tensor | None, k: int, ready: Sequence[Tensor], call: Call
) -> Tensor:
    block, folded = model.block(k), call.folded[k]
    if w is None:
        w = block.attention.weigh(block.attention.prepare(x, tile.mask), folded, tile.mask, call.grid)
    if folded is not None and w is not None and finish_in_place(block, x, w, ready[k], folded):
        return x
    return block.finish(x, w, ready[k], folded, call.lean)


def recomputed_later(model: "Transolver", function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of which the backward pass keeps the arguments only, and calls it again."""
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=model.config.dropout > 0.0)


def _places(model: "Transolver", k: int, tile: Tile) -> tuple[Tensor, Tensor]:
    """Room for what is kept of a tile, its features and weights, in one stretch with that of the other tiles.

    Allocated among the temporaries of each step, they would leave holes in the heap as large as they are.
    """
    (B, n, _), weight, config = tile.inputs.shape, model.head.weight, model.config
    order = (0, 1, 2, 3) if model.block(k).attention.folded else (0, 2, 1, 3)  # as `weigh` lays them out
    shape = B, n, config.heads, config.slices_per_layer[k]
    w = torch.empty_permuted(shape, order, dtype=product_dtype(weight), device=weight.device)
    return weight.new_empty(B, n, config.channels), w


def _put(kept: tuple[Tensor, Tensor | None], places: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
    (x, w), (x_place, w_place) = kept, places
    if w is not None and w.shape == w_place.shape and w.dtype == w_place.dtype:
        w = _Moved.apply(w, w_place)
    return x if x is x_place else _Moved.apply(x, x_place), w


class _Moved(torch.autograd.Function):
    """The tensor, in another place."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, place: Tensor) -> Tensor:
        ctx.mark_dirty(place)
        return place.copy_(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def _added(total: Tensor, part: Tensor) -> Tensor:
    return total + part if torch.is_grad_enabled() else total.add_(part)


def _total(part: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    # Whatever its number of tiles, each process must bring the same precision.
    return part if group is None else SumOverGroup.apply(part.to(wide(part)), group)


class SumOverGroup(torch.autograd.Function):
    """The sum over the processes of a group. Every process' loss depends on it, so the gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return SumOverGroup.apply(gradient.contiguous(), ctx.group), None
