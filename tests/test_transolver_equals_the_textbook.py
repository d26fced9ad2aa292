"""The core gives what the paper's equations give, in every variant, from checkpoints of the authors' code."""

import pytest
import torch
from transolver_models import Textbook, points, roughened, small_model

from aerosurrogate.errors import InputError
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.authors import from_authors
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.positions import WAVE_UNIT, Waves
from aerosurrogate.model.slices import slice_weights
from aerosurrogate.model.transolver import Transolver

FOLDED = {"C": 32, "heads": 4, "slices": 8}  # 4 * 8 <= 32 + 8: the folded order is the cheaper one
PLAIN = {"C": 32, "heads": 4, "slices": 24}


def gradients(model: torch.nn.Module, fields: torch.Tensor) -> dict[str, torch.Tensor]:
    weights = torch.linspace(-1, 1, fields.numel()).view_as(fields)
    model.zero_grad()
    (fields * weights).sum().backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_same_model(textbook: Textbook, ours: Transolver, x: torch.Tensor, theirs_x: torch.Tensor, **call) -> None:
    """Fields to 1e-5, and as many gradients as the textbook has, each of the same norm to 1e-4."""
    expected = textbook(theirs_x, call.get("grid"), call.get("time"))
    fields = ours(x, **call)
    assert expected.std() > 0.1
    torch.testing.assert_close(fields, expected, atol=1e-5, rtol=1e-5)
    norms = [
        sorted(g.norm().item() for g in gradients(m, y).values()) for m, y in [(textbook, expected), (ours, fields)]
    ]
    assert norms[1] == pytest.approx(norms[0], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("size", [FOLDED, PLAIN])
@pytest.mark.parametrize("tile", [None, 50])
@pytest.mark.parametrize("recompute", ["none", "cheap", "tiles"])
def test_pointwise(size, tile, recompute):
    textbook = roughened(Textbook(5, 3, layers=3, mlp_ratio=2, **size))
    ours = from_authors(textbook.state_dict())
    ours.tile, ours.recompute = tile, recompute
    assert ours.blocks[0].attention.folded == (size is FOLDED)
    assert_same_model(textbook, ours, points(120, batch=2), points(120, batch=2))


@pytest.mark.parametrize(("projection", "grid"), [("conv2d", (8, 15)), ("conv3d", (4, 5, 6))])
def test_convolutional(projection, grid):
    textbook = roughened(Textbook(5, 3, layers=2, projection=projection, placeholder=False, **FOLDED))
    ours = from_authors(textbook.state_dict())
    assert ours.placeholder is None
    assert_same_model(textbook, ours, points(120), points(120), grid=grid)


def test_convolutional_without_input_functions_adds_the_placeholder():
    textbook = roughened(Textbook(2, 3, layers=2, projection="conv2d", **FOLDED))
    ours = from_authors(textbook.state_dict())
    x = points(120)[..., :2]
    assert_same_model(textbook, ours, x, x, grid=(8, 15))


def test_time():
    textbook = roughened(Textbook(5, 3, layers=2, time=True, **FOLDED))
    ours = from_authors(textbook.state_dict())
    assert_same_model(textbook, ours, points(40, 2), points(40, 2), time=torch.tensor([0.0, 7.0]))


def distances(positions: torch.Tensor, box: list[tuple[float, float]]) -> torch.Tensor:
    sides = [torch.linspace(low, high, 8) for low, high in box]
    reference = torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).reshape(-1, len(box))
    return (positions[..., None, :] - reference).square().sum(-1).sqrt()


def test_distances_beside_the_positions_as_for_airfrans():
    box = ((-2.0, 4.0), (-1.5, 1.5))
    textbook = roughened(Textbook(5 + 64, 3, layers=2, **FOLDED))
    checkpoint = textbook.state_dict()
    checkpoint["blocks.0.mlp_new.linear_pre.0.weight"] = torch.zeros(32, 32)  # the authors' AirfRANS model holds it
    ours = from_authors(checkpoint, unified_pos="accompany", unified_box=box)
    x = points(60)
    assert_same_model(textbook, ours, x, torch.cat([x, distances(x[..., :2], box)], dim=-1))


def test_distances_instead_of_the_positions():
    box = [(0.0, 1.0)] * 2
    textbook = roughened(Textbook(3 + 64, 3, layers=2, **FOLDED))
    ours = from_authors(textbook.state_dict(), unified_pos="replace")
    x = points(60)
    assert_same_model(textbook, ours, x, torch.cat([distances(x[..., :2], box), x[..., 2:]], dim=-1))


def test_distances_on_the_index_grid():
    grid = (6, 10)
    textbook = roughened(Textbook(3 + 64, 3, layers=2, projection="conv2d", placeholder=False, **FOLDED))
    ours = from_authors(textbook.state_dict(), unified_pos="index")
    places = torch.stack(torch.meshgrid(*(torch.linspace(0, 1, s) for s in grid), indexing="ij"), dim=-1).view(1, 60, 2)
    x = points(60)
    theirs = torch.cat([distances(places, [(0.0, 1.0)] * 2), x[..., 2:]], dim=-1)
    assert_same_model(textbook, ours, x, theirs, grid=grid)


def test_slices_per_layer_are_read_from_the_checkpoint():
    wide, narrow = (roughened(Textbook(5, 3, layers=2, C=32, heads=4, slices=m)) for m in (16, 8))
    checkpoint = wide.state_dict() | {k: v for k, v in narrow.state_dict().items() if k.startswith("blocks.1")}
    wide.blocks[1] = narrow.blocks[1]
    ours = from_authors(checkpoint)
    assert ours.config.slices == (16, 8)
    assert_same_model(wide, ours, points(50), points(50))


def test_foreign_checkpoint_is_named():
    with pytest.raises(InputError, match="encoder"):
        from_authors({"encoder.weight": torch.zeros(2, 2)})


def test_squares_average_over_squares_of_the_grid():
    """Points of one 4 x 4 square receive the same from the attention; the last squares are cut by the border."""
    weights = slice_weights(small_model(attention="squares"), points(60), grid=(6, 10))
    assert weights.shape == (1, 60, 4, 6)
    square = weights[0, :, 0].argmax(-1).view(6, 10)
    assert torch.equal(square[:4, 4:8], torch.full((4, 4), 1))
    assert torch.equal(square[4:, 8:], torch.full((2, 2), 5))
    assert weights.sum().item() == 60 * 4


@pytest.mark.parametrize("slices", [8, 24])
def test_a_residual_keeps_what_a_slice_knows(slices):
    """The tokens, means of the values over their slices, come beside what the attention gives them."""
    plain, kept = (small_model(layers=1, slices=slices, token_residual=on) for on in (False, True))
    kept.load_state_dict(plain.state_dict())
    x = points(60)
    attention = plain.blocks[0].attention
    values = attention.to_values(attention.norm(plain.embed(x) + plain.placeholder)).view(60, 4, 8)
    weights = slice_weights(plain, x)[0]
    tokens = torch.einsum("nhm,nhd->hmd", weights, values) / (weights.sum(0)[..., None] + 1e-5)
    difference = kept.states([x]).tokens[0] - plain.states([x]).tokens[0]
    torch.testing.assert_close(difference[0], tokens, atol=1e-5, rtol=1e-5)


def test_a_neighbourhood_is_a_square_on_the_grid():
    """Without slices to carry it further, a change reaches the points of the square around it and no others."""
    model = small_model(layers=1, projection="conv2d", neighbourhood=5)
    torch.nn.init.zeros_(model.blocks[0].attention.out.weight)
    x = points(60)
    other = x.clone()
    other[0, 34] += 1.0  # row 3, column 4
    changed = (model(x, grid=(6, 10)) != model(other, grid=(6, 10))).any(-1).view(6, 10)
    expected = torch.zeros(6, 10, dtype=torch.bool)
    expected[1:6, 2:7] = True
    assert torch.equal(changed, expected)


def test_a_torus_has_no_rim():
    """What is carried round a periodic grid is answered round it; with a rim it is not."""
    x = points(60)
    x[..., :2] = 0.5
    for periodic in (True, False):
        model = small_model(projection="conv2d", neighbourhood=5, waves=2, periodic=periodic)
        torch.nn.init.normal_(model.blocks[0].waves.factors)
        answer, carried = (
            model(y.flatten(1, 2), grid=(6, 10)).unflatten(1, (6, 10))
            for y in (x.unflatten(1, (6, 10)), x.unflatten(1, (6, 10)).roll((2, 7), (1, 2)))
        )
        assert torch.allclose(carried, answer.roll((2, 7), (1, 2)), atol=1e-5) == periodic


def test_waves_are_a_convolution_round_the_whole_grid():
    """With the factors of Poisson's equation, vorticity becomes its stream function; at the start nothing is added."""
    a, b, count = 12, 16, 3
    waves = Waves(2, count).double()
    x, y = (torch.arange(n, dtype=torch.float64) / n * 2 * torch.pi for n in (a, b))
    stream = torch.sin(x)[:, None] * torch.cos(2 * y) + torch.cos(2 * x[:, None] - y) + torch.sin(x[:, None] + y)
    vorticity = 5 * (torch.sin(x)[:, None] * torch.cos(2 * y) + torch.cos(2 * x[:, None] - y))
    vorticity = (vorticity + 2 * torch.sin(x[:, None] + y)).reshape(1, -1, 1).expand(-1, -1, 2)
    assert not waves(vorticity, (a, b)).any()
    k = torch.stack([torch.arange(count), torch.arange(-count, 0)])[..., None]  # of either sign
    square = (k**2 + torch.arange(count) ** 2).double().clamp(min=1)
    with torch.no_grad():
        waves.factors[0, ..., 0] = 1 / square / WAVE_UNIT
        waves.factors[1, ..., 0] = 1 / WAVE_UNIT
    answer = waves(vorticity, (a, b)).unflatten(1, (a, b))[0]
    torch.testing.assert_close(answer[..., 0], stream)
    torch.testing.assert_close(answer[..., 1], vorticity[0, :, 1].view(a, b))
    finer = torch.rand(1, 64, 2, dtype=torch.float64)
    assert waves(finer, (8, 8)).flatten().std() < 0.5 * finer.std()  # what is shorter than these waves is left out


@pytest.mark.parametrize("recompute", ["none", "tiles"])
def test_an_increment_is_added_to_the_last_inputs(recompute):
    plain, added = small_model(), small_model(increment=True)
    plain.recompute = added.recompute = recompute
    added.load_state_dict(plain.state_dict())
    x, last = points(60), points(60)[..., -plain.interface.outputs :]
    torch.testing.assert_close(added(x), plain(x) + last)
    torch.testing.assert_close(added.decode(x, added.states([x])), plain(x) + last, atol=1e-5, rtol=1e-5)
    skin = torch.ones(1, 60)
    torch.testing.assert_close(added(x, skin=skin).fields, plain(x) + last)
    with pytest.raises(InputError, match="fields among the inputs"):
        Transolver(Interface(inputs=5, outputs=4, dimensions=2), TransolverConfig(increment=True))


def test_waves_reach_all_points_and_need_one_grid():
    model = small_model(layers=1, projection="conv2d", waves=2)
    torch.nn.init.zeros_(model.blocks[0].attention.out.weight)
    torch.nn.init.normal_(model.blocks[0].waves.factors)
    x = points(60)
    other = x.clone()
    other[0, 34] += 1.0
    assert (model(x, grid=(6, 10)) != model(other, grid=(6, 10))).any(-1).all()
    with pytest.raises(InputError, match="waves"):
        model(x, grid=(6, 10), mask=torch.ones(1, 60, dtype=torch.bool))


@pytest.mark.parametrize("attention", ["slices", "squares"])
def test_neighbourhoods_are_the_same_computed_again(attention):
    model = small_model(projection="conv2d", neighbourhood=3, waves=2, attention=attention)
    x = points(60)
    plain = model(x, grid=(6, 10))
    gradients = torch.autograd.grad(plain.square().sum(), list(model.parameters()), allow_unused=True)
    model.recompute = "tiles"
    again = model(x, grid=(6, 10))
    torch.testing.assert_close(again, plain)
    later = torch.autograd.grad(again.square().sum(), list(model.parameters()), allow_unused=True)
    torch.testing.assert_close(later, gradients)


def test_full_attention_is_attention_among_points():
    model = small_model(attention="full", layers=1)
    x = points(20)
    block = model.blocks[0]
    features = model.embed(x) + model.placeholder
    v = block.attention.to_values(block.attention.norm(features)).view(1, 20, 4, 8).transpose(1, 2)
    query, key, value = block.attention.query(v), block.attention.key(v), block.attention.value(v)
    mixed = torch.softmax(query @ key.mT / 8**0.5, dim=-1) @ value
    y = features + block.attention.out(mixed.transpose(1, 2).reshape(1, 20, 32))
    y = y + block.mlp(block.norm(y))
    torch.testing.assert_close(model(x), model.head(model.norm(y)), atol=1e-5, rtol=1e-5)


def test_one_slice_holds_every_point():
    assert torch.equal(slice_weights(small_model(slices=1), points(30)), torch.ones(1, 30, 4, 1))


def test_the_order_that_peers_are_counted_in_gives_the_same(monkeypatch):
    import physicsnemo_order

    model = roughened(Textbook(5, 3, layers=2, **FOLDED))
    for block in model.blocks:
        torch.nn.init.constant_(block.Attn.temperature, 0.7)  # they clamp from 0.5
    torch.nn.init.zeros_(model.placeholder)
    expected = model(points(200))
    monkeypatch.setattr(physicsnemo_order, "LEAST", 1e-5)
    torch.testing.assert_close(physicsnemo_order.in_their_order(model)(points(200)), expected, atol=1e-5, rtol=1e-5)
