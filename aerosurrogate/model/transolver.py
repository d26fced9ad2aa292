"""Transolver: a neural operator that attends among learned physical states instead of among mesh points.

H. Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries", ICML 2024. Its sizes and options
are in architecture.py. From the top:

    PhysicsAttention    points -> slice tokens -> attention among the tokens -> points
    Block               norm, attention, norm, MLP, with their residuals
    Transolver          embedding, blocks, heads; states and decoding

Letters in shape comments: B batch, N points, n points of a tile, C channels, H heads, D = C / H, M slices of a head.
A layer reduces all points to H * M tokens, mixes the tokens, and gives each point its update. The first is a sum over
points: taken tile by tile, so that a tile stays in the cache; chunk by chunk, so that any number of points fits in
memory; across processes, by an all-reduce of a few kB (tiles.py; folding.py and gradients.py make the rest cheap). And
the tokens of all layers, the states, are all it takes to evaluate the model at any other point.
"""

from collections.abc import Iterable, Iterator
from typing import cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from aerosurrogate.errors import InputError
from aerosurrogate.model import folding, tiles
from aerosurrogate.model.architecture import DIMENSIONS, TransolverConfig
from aerosurrogate.model.folding import Folded, fold, fold_norm, normalised
from aerosurrogate.model.gradients import LeanBegin, LeanFinish
from aerosurrogate.model.interface import MLP, Answer, Grid, Interface, Model, States
from aerosurrogate.model.positions import Waves, at_index_places, distances, on_grid, projection, squares, time_waves
from aerosurrogate.model.precision import exact, full_precision, product_dtype, softmax, sums_of_products
from aerosurrogate.model.tiles import Call, Tile

TOKEN_EPSILON = 1e-5  # added to the sum of a slice's weights, as in the authors' code


class PhysicsAttention(nn.Module):
    """Attention among M learned slices of the points, in each of H heads. For points i and slices j, as in the paper:

        w_ij = softmax_j(logits(to_slices(x_i)) / temperature)      slice weights               `weigh`
        z_j  = sum_i w_ij to_values(x_i) / sum_i w_ij               tokens of physical states   `reduce`
        z'   = softmax(query(z) key(z)^T / sqrt D) value(z)         attention among them        `mix`
        x_i += out(sum_j w_ij z'_j)                                 and back to the points      `deslice`

    The products can be taken in two orders. So written, they cost 3 C C + 3 C M multiplications a point. But the value
    projection is linear and can wait until the points are summed; the two maps before the softmax are one map; and the
    output projection can be applied to the tokens before they are handed out: 3 C H M. The cheaper order is taken.
    """

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C, H, D = config.channels, config.heads, config.channels // config.heads
        self.heads, self.kind, self.fused = H, config.attention, False  # fused: see folding.py
        self.dropout, self.bounds, self.residual = config.dropout, config.temperature_bounds, config.token_residual
        self.pointwise = config.projection == "pointwise"
        self.folded = self.pointwise and self.kind == "slices" and H * slices <= C + slices
        self.norm = nn.LayerNorm(C)
        if self.kind == "slices":
            self.to_slices = projection(config.projection, C, config.periodic)
            self.logits = nn.Linear(D, slices)
            self.temperature = nn.Parameter(torch.full((H,), 0.5))
        self.to_values = projection(config.projection, C, config.periodic)
        self.query = nn.Linear(D, D, bias=False)
        self.key = nn.Linear(D, D, bias=False)
        self.value = nn.Linear(D, D, bias=False)
        self.out = nn.Linear(C, C)

    def prepare(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What the projections see of the points x [B, n, C]."""
        if self.folded:
            return normalised(x)
        z = self.norm(x)
        # A convolution must find zeros beside the mesh.
        return z if mask is None or self.pointwise else z * mask[..., None]

    def weigh(self, z: Tensor, folded: Folded | None, mask: Tensor | None, grid: Grid) -> Tensor | None:
        """Slice weights [B, n, H, M] of prepared points, which sum to 1 over M; None if each point is its own slice."""
        if self.kind == "full":
            return None
        if self.kind == "squares":
            w = squares(grid, z)[:, None].expand(len(z), -1, self.heads, -1)
        elif folded is not None:
            w = softmax(F.linear(z, *folded.logits).unflatten(-1, (self.heads, -1)))
        else:  # a head's points lie together in memory, as its products read them
            w = softmax(self._logits(self._project(z, self.to_slices, grid).transpose(1, 2))).transpose(1, 2)
        return w if mask is None else w * mask[..., None, None]

    def reduce(self, z: Tensor, w: Tensor | None, mask: Tensor | None, grid: Grid) -> Tensor:
        """Sums over prepared points of weight times value, and of the weights: [B, H, M, F + 1].

        The values are the points z themselves in the folded order (F = C), their projections otherwise (F = D).
        """
        if self.folded:
            assert w is not None
            sums = sums_of_products(w.flatten(2).mT, z.to(w.dtype)).unflatten(1, (self.heads, -1))  # [B, H*M, C]
        else:
            v = self._project(z, self.to_values, grid)  # [B, n, H, D]
            # The narrow side first: [B, H, D, n] @ [B, H, n, M] is twice as fast as its transpose.
            sums = v.transpose(1, 2)
            if w is not None:
                sums = sums_of_products(v.permute(0, 2, 3, 1), w.to(v.dtype).transpose(1, 2)).mT
        if w is not None:
            counts = w.sum(1, dtype=exact(w))  # [B, H, M]; a bfloat16 cannot count beyond 256
        else:
            there = z.new_ones(z.shape[:2], dtype=exact(z)) if mask is None else mask.to(exact(z))
            counts = there[:, None].expand(-1, self.heads, -1)  # [B, H, n]
        return torch.cat([sums.to(counts.dtype), counts[..., None]], dim=-1)

    def project(self, sums: Tensor) -> Tensor:
        """The sums [B, H, M, F + 1] as sums of values, [B, H, M, D + 1]: what is left to do in the folded order."""
        sums = sums.to(self.out.weight.dtype)
        if not self.folded:
            return sums
        weight, bias = fold_norm(self.norm, self.to_values.weight, self.to_values.bias)
        weight, bias = weight.unflatten(0, (self.heads, -1)), bias.unflatten(0, (self.heads, 1, -1))
        values = torch.einsum("bhmc,hdc->bhmd", sums[..., :-1], weight) + sums[..., -1:] * bias
        return torch.cat([values, sums[..., -1:]], dim=-1)

    def mix(self, total: Tensor) -> Tensor:
        """Attention among the tokens that the values of all points make: [B, H, M, D + 1] -> [B, H, M, D]."""
        total = total.to(self.out.weight.dtype)
        sums, counts = total[..., :-1], total[..., -1:]
        tokens = sums if self.kind == "full" else sums / (counts + TOKEN_EPSILON)
        query, key, value = self.query(tokens), self.key(tokens), self.value(tokens)
        # Each learned slice holds something of every point, but a square or a point may lie in the padding.
        filled = None if self.kind == "slices" else (counts > 0).mT  # [B, H, 1, M]
        if self.kind == "full":
            return F.scaled_dot_product_attention(query, key, value, attn_mask=filled, dropout_p=self.dropped)
        # Tokens are few, and a fused kernel has no second derivatives.
        scores = query @ key.mT * query.shape[-1] ** -0.5  # [B, H, M, M]
        if filled is not None:
            scores = scores.masked_fill(~filled, -torch.inf)
        mixed = F.dropout(F.softmax(scores, dim=-1), self.dropped) @ value
        return mixed + tokens if self.residual else mixed

    def ready(self, tokens: Tensor) -> Tensor:
        """Mixed tokens [B, H, M, D] as `deslice` takes them: in the folded order already projected, [B, H * M, C]."""
        if not self.folded:
            return tokens
        weight = self.out.weight.unflatten(1, (self.heads, -1))  # [C, H, D]
        # A point's weights sum to one in each head, so a share of the bias in every token adds up to the bias.
        return (torch.einsum("bhmd,chd->bhmc", tokens, weight) + self.out.bias / self.heads).flatten(1, 2)

    def deslice(self, x: Tensor, w: Tensor | None, ready: Tensor) -> Tensor:
        """The points x [B, n, C] with what each receives from the tokens added."""
        if self.folded:
            assert w is not None
            if x.dtype == ready.dtype and not self.dropped:
                return torch.baddbmm(x, w.flatten(2), ready)  # [B, n, H*M] @ [B, H*M, C]
            return x + F.dropout(w.flatten(2) @ ready, self.dropped)
        gathered = ready.transpose(1, 2) if w is None else torch.einsum("bnhm,bhmd->bnhd", w.to(ready.dtype), ready)
        return x + F.dropout(self.out(gathered.flatten(2)), self.dropped)

    def _logits(self, features: Tensor) -> Tensor:
        """Features [B, H, n, D] -> slice logits [B, H, n, M]; the temperature divides the map, not every logit."""
        B, temperature = len(features), self.clamped_temperature()
        weight, bias = self.logits.weight / temperature[..., None], self.logits.bias / temperature  # [H, M, D], [H, M]
        maps = (part.expand(B, -1, -1, -1).flatten(0, 1) for part in (bias[:, None], features, weight.mT))
        return torch.baddbmm(*maps).unflatten(0, (B, -1))

    @property
    def dropped(self) -> float:
        return self.dropout if self.training else 0.0

    def clamped_temperature(self) -> Tensor:  # [H, 1]
        temperature = self.temperature[:, None]
        return temperature.clamp(*self.bounds) if isinstance(self.bounds, tuple) else temperature

    def _project(self, z: Tensor, layer: nn.Module, grid: Grid) -> Tensor:
        """Prepared points [B, n, C] -> features per head [B, n, H, D]."""
        features = layer(z) if self.pointwise else on_grid(layer, z, grid)
        return features.unflatten(-1, (self.heads, -1))


class Block(nn.Module):
    """Physics-Attention, then an MLP on each point. Between `begin` and `finish` the sums over all points are taken.

    `lean` keeps less for the backward pass, see gradients.py.
    """

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C = config.channels
        kind = config.projection, C, config.periodic
        self.local = projection(*kind, config.neighbourhood, C) if config.neighbourhood else None
        self.waves = Waves(C, config.waves) if config.waves else None
        self.attention = PhysicsAttention(config, slices)
        self.norm = nn.LayerNorm(C)
        self.mlp = MLP(C, C * config.mlp_ratio, C, config.activation)

    def near(self, x: Tensor, mask: Tensor | None, grid: Grid) -> Tensor:
        """The points x [B, N, C] with what they see of neighbours and far field added, ahead of `begin`."""
        if self.local is None and self.waves is None:
            return x
        z = normalised(x) if mask is None else normalised(x) * mask[..., None]
        if self.local is not None:
            x = x + on_grid(self.local, z, grid)
        return x if self.waves is None else x + self.waves(z, grid)

    def forward(self, x: Tensor, folded: Folded | None, mask: Tensor | None, grid: Grid, lean: bool = False) -> Tensor:
        """The block on all points x [B, N, C] at once."""
        x = self.near(x, mask, grid)
        if self.attention.fused and folded is not None and mask is None:
            return folding.fused_block(self, x, folded)
        w, sums = self.begin(x, folded, mask, grid, lean)
        with full_precision(sums):
            tokens = self.attention.mix(self.attention.project(sums))
        return self.finish(x, w, self.ready(tokens), folded, lean)

    def begin(
        self, x: Tensor, folded: Folded | None, mask: Tensor | None, grid: Grid, lean: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """Slice weights of the points x [B, n, C], and what the points add to the sums."""
        if folded is not None and lean and not self.attention.dropped:
            return cast(tuple[Tensor, Tensor], LeanBegin.apply(x, *folded.logits, folded, mask, self))
        z = self.attention.prepare(x, mask)
        w = self.attention.weigh(z, folded, mask, grid)
        return w, self.attention.reduce(z, w, mask, grid)

    def ready(self, tokens: Tensor) -> Tensor:
        """Mixed tokens as `finish` takes them."""
        with full_precision(tokens):
            ready = self.attention.ready(tokens)
        return ready.to(product_dtype(tokens))

    def finish(self, x: Tensor, w: Tensor | None, ready: Tensor, folded: Folded | None, lean: bool = False) -> Tensor:
        """The points x [B, n, C] after the block, given their slice weights and the tokens."""
        if folded is not None and lean and not self.attention.dropped:
            out = (parameter.to(folded.hidden[0].dtype) for parameter in (self.mlp.out.weight, self.mlp.out.bias))
            return cast(Tensor, LeanFinish.apply(x, w, ready, *folded.hidden, *out, self))
        x = self.attention.deslice(x, w, ready)
        return x + self.mlp(self.norm(x)) if folded is None else folding.move(self, x, folded)


class Transolver(Model):
    """How a call is worked through, beside what the configuration says:
    tile        points worked on at once; None: TILE, on graphics processors TILE_OF_A_CARD
    recompute   what a training step computes again in its backward pass instead of keeping it: "none" (derivatives of
                derivatives need that), "cheap" (norms, softmax, activations) or "tiles" (all but each layer's features
                and slice weights); "auto" chooses by the number of points
    """

    Config = TransolverConfig
    config: TransolverConfig
    tile: int | None = None
    recompute: str = "auto"

    def __init__(self, interface: Interface, config: TransolverConfig) -> None:
        super().__init__(interface, config)
        C, d, box = config.channels, interface.dimensions, config.unified_box
        if d not in DIMENSIONS[config.projection] or (box is not None and len(box) != d):
            seen = f"{config.projection}, unified_box {box}"
            raise InputError(f"not for points in {d}D", seen=seen, remedy="another projection, one pair an axis")
        if config.increment and interface.inputs < d + interface.outputs:
            seen = f"{interface.inputs - d} inputs beside the positions, {interface.outputs} outputs"
            raise InputError("increment needs fields among the inputs", seen=seen, remedy="model.increment = false")
        self.embed = MLP(interface.inputs + config.distances(d), 2 * C, C, config.activation)
        self.placeholder = nn.Parameter(torch.rand(C) / C) if config.placeholder else None
        self.time = nn.Sequential(nn.Linear(C, C), nn.SiLU(), nn.Linear(C, C)) if interface.time_input else None
        self.blocks = nn.ModuleList(Block(config, slices) for slices in config.slices_per_layer)
        self.add_heads(C, config.activation)
        self.apply(_initialise)

    def forward(
        self,
        inputs: Tensor,
        grid: Grid = None,
        mask: Tensor | None = None,
        time: Tensor | None = None,
        skin: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> Tensor | Answer:
        """As `Model.forward`. Convolutions, squares and the index grid need `grid`.

        With `group`, the loss of the whole is the sum of the processes' losses, its gradient the sum of their
        gradients; so a loss on the coefficients, which every process computes, is to be divided by their number.
        """
        if group is not None:
            self.require_states()
        self.check(inputs, grid, mask, time)
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0.0)
            skin = None if skin is None else skin * mask
        if self.config.unified_pos == "index":
            inputs = at_index_places(inputs, grid)
        call = self.call(time, grid, tiles.choose_recompute(self, inputs))
        parts = tiles.split(self, Tile(inputs, mask, skin))
        if len(parts) > 1 or group is not None or call.recompute == "tiles":
            found = tiles.march(self, lambda: parts, call, group, keep=inputs.shape[1])
            fields = self.added(inputs, torch.cat(found.outputs, dim=1))
            return fields if found.skin is None else Answer(fields, *self.of_skin(found.skin))
        x = self.embedded(inputs, call)
        for block, folded in zip(self.blocks, call.folded, strict=True):
            x = block(x, folded, mask, grid, call.lean)
        answer = self.answer(x, skin)
        if isinstance(answer, Tensor):
            return self.added(inputs, answer)
        return answer._replace(fields=self.added(inputs, answer.fields))

    def added(self, inputs: Tensor, fields: Tensor) -> Tensor:
        """Fields [B, n, outputs] from what the head gives, at points with these inputs [B, n, inputs]."""
        return fields + inputs[..., -self.interface.outputs :] if self.config.increment else fields

    @torch.no_grad()
    def states(
        self,
        chunks: Iterable[Tensor | tuple[Tensor, Tensor]],
        time: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
        keep: int | None = None,
    ) -> States:
        """Reduce any number of points to the tokens of every layer.

        chunks  inputs [B, n, inputs], or pairs of inputs and skin [B, n]; iterated once for every layer
        time    [B], for a model with time_input
        group   as for `forward`: each process passes its own chunks
        keep    the features of the first so many points are kept from layer to layer, 4 C bytes each (None: as many
                as the free memory allows); those of the others are computed from their inputs again in every
                layer; `States.recomputed` tells how many
        """
        self.require_states()
        if self.training and self.config.dropout:
            raise InputError("states need a model that drops nothing", remedy="call model.eval() first")

        def parts() -> Iterator[Tile]:
            for chunk in chunks:
                inputs, skin = chunk if isinstance(chunk, tuple) else (chunk, None)
                self.check(inputs, None, None, time)
                yield from tiles.split(self, Tile(inputs, None, skin))

        keep = tiles.affordable(self) if keep is None else keep
        found = tiles.march(self, parts, self.call(time), group, keep, fields=False)
        coefficients, pooled = (None, None) if found.skin is None else self.of_skin(found.skin)
        return States(tuple(found.tokens), time, pooled, coefficients, found.recomputed)

    @torch.no_grad()
    def decode(self, points: Tensor, states: States) -> Tensor:
        """Fields [B, n, outputs] at any points [B, n, inputs] around the body that the states describe."""
        self.require_states()
        self.check(points, None, None, states.time)
        call = self.call(states.time)
        ready = [self.block(k).ready(tokens) for k, tokens in enumerate(states.tokens)]
        parts = tiles.split(self, Tile(points))
        fields = torch.cat([self.head(self.norm(tiles.features(self, tile, ready, call))) for tile in parts], dim=1)
        return self.added(points, fields)

    def hidden_parameters(self) -> Iterator[nn.Parameter]:
        """As `Model.hidden_parameters`, but for the waves' factors, which mix nothing: each is of one channel."""
        return (weight for name, weight in self.blocks.named_parameters() if not name.endswith("waves.factors"))

    def block(self, k: int) -> Block:
        return cast(Block, self.blocks[k])

    def embedded(self, inputs: Tensor, call: Call) -> Tensor:
        """Features [B, n, C] of the points before the first block."""
        config, d = self.config, self.interface.dimensions
        if config.unified_pos != "none":
            away = distances(inputs[..., :d], config.unified_box or ((0.0, 1.0),) * d, config.unified_size)
            kept = [inputs, away] if config.unified_pos == "accompany" else [away, inputs[..., d:]]
            inputs = torch.cat(kept, dim=-1)
        x = tiles.recomputed_later(self, self.embed, inputs) if call.recompute == "cheap" else self.embed(inputs)
        if self.placeholder is not None:
            x = x + self.placeholder
        return x if call.time is None else x + call.time

    def call(self, time: Tensor | None, grid: Grid = None, recompute: str = "none") -> Call:
        """What all blocks of one evaluation share."""
        weight, embedded = self.head.weight, None
        dtype = product_dtype(weight)
        with full_precision(weight):
            if time is not None and self.time is not None:
                embedded = self.time(time_waves(time, self.config.channels, weight.dtype))  # [B, 1, C]
            folded = [fold(self.block(k), dtype) for k in range(self.config.layers)]
        return Call(folded, embedded, grid, recompute)

    @property
    def without_states(self) -> str:
        """Why a point's update needs more than its own features and the tokens; empty where it does not."""
        config = self.config
        if config.projection != "pointwise":
            return f"{config.projection}: a convolution needs the neighbours of a point in every layer"
        if config.attention == "full":
            return "full attention: every point needs all others"
        if config.attention == "squares":
            return "squares: they are parts of one grid, not of space"
        return "index grid: a position is a place among all points" if config.unified_pos == "index" else ""

    def check(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> None:
        """Raises InputError for what this model cannot be asked."""
        self.check_call(inputs, grid, time)
        if grid is None and (self.config.projection != "pointwise" or self.config.attention == "squares"):
            raise InputError("this model works on structured meshes", remedy="pass the sides of the grid")
        if (self.config.unified_pos == "index" or self.config.waves) and (grid is None or mask is not None):
            what = "places on the index grid, and waves, need the sides of one grid"
            raise InputError(what, remedy="pass grid, and no mask")


def _initialise(module: nn.Module) -> None:
    """As the authors mean it: their code overwrites its own orthogonal slice projection."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, PhysicsAttention) and module.kind == "slices":
        nn.init.orthogonal_(module.logits.weight)
