"""States and decoding give the answer of the whole mesh, whatever the chunks; so does a padded batch."""

import pytest
import torch
from transolver_models import points, small_model

from aerosurrogate.errors import InputError
from aerosurrogate.model.slices import slice_weights

# The folded and the plain order.
SIZES = [{"slices": 8}, {"slices": 24}, {"slices": 8, "token_residual": True}]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunk", [1, 37, 400])
@pytest.mark.parametrize("keep", [0, 100, 10**6])
def test_chunked_equals_whole(size, chunk, keep):
    model = small_model(coefficients=2, **size)
    x = points(400)
    skin = torch.arange(400)[None] % 3 == 0
    with torch.no_grad():
        whole = model(x, skin=skin)
    chunks = [(x[:, i : i + chunk], skin[:, i : i + chunk]) for i in range(0, 400, chunk)]
    states = model.states(chunks, keep=keep)
    assert states.recomputed == 400 - min(400, max(chunk, keep // chunk * chunk))  # whole chunks, at least the first
    for ours, expected in [
        (model.decode(x, states), whole.fields),
        (states.coefficients, whole.coefficients),
        (states.pooled, whole.pooled),
    ]:
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_a_point_is_decoded_alone():
    model = small_model()
    x = points(300)
    states = model.states([x])
    alone = torch.cat([model.decode(x[:, i : i + 1], states) for i in range(5)], dim=1)
    torch.testing.assert_close(alone, model(x)[:, :5], atol=1e-5, rtol=1e-5)


def test_decoding_does_not_change_the_body():
    model = small_model()
    states = model.states([points(300)])
    far = 10 * points(50, seed=1)
    assert not torch.allclose(model.decode(far, states), model(far), atol=1e-2)


def test_many_tiles_sum_as_exactly_as_one():
    """Added up one by one in single precision, the sums of 5,000 chunks would show it."""
    model = small_model(layers=1, channels=8, heads=2, slices=2)
    x = points(100_000)
    whole, chunked = model.states([x]), model.states(x.split(20, dim=1))
    torch.testing.assert_close(chunked.tokens[0], whole.tokens[0], atol=1e-6, rtol=1e-6)


def test_states_with_time():
    model = small_model(time_input=True)
    x, time = points(50, batch=2), torch.tensor([1.0, 5.0])
    states = model.states(x.split(20, dim=1), time=time)
    torch.testing.assert_close(model.decode(x, states), model(x, time=time), atol=1e-5, rtol=1e-5)


def test_slice_weights_of_other_points():
    model = small_model()
    x = points(200)
    weights = slice_weights(model, x)
    assert weights.shape == (1, 200, 4, 8)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 200, 4))
    torch.testing.assert_close(slice_weights(model, x[:, :10], states=model.states([x])), weights[:, :10])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"projection": "conv2d"}, "neighbours"),
        ({"attention": "full"}, "all others"),
        ({"attention": "squares"}, "grid"),
        ({"unified_pos": "index"}, "place"),
    ],
)
def test_models_without_states_say_why(settings, reason):
    with pytest.raises(InputError, match=reason):
        small_model(**settings).states([points(60)])


@pytest.mark.parametrize(
    "settings",
    [
        {"slices": 8},
        {"slices": 24},
        {"projection": "conv2d"},
        {"projection": "conv2d", "neighbourhood": 5},
        {"attention": "squares"},
        {"attention": "full"},
    ],
)
def test_a_padded_batch_equals_its_members_alone(settings):
    """The small mesh lies in the corner of the large one's grid; what lies beside it is not a number."""
    model = small_model(**settings)
    large, small = (6, 10), (5, 4)
    needs_grid = settings.get("projection") or settings.get("attention") == "squares"
    mask = torch.zeros(2, *large, dtype=torch.bool)
    mask[0], mask[1, :5, :4] = True, True
    x = points(60, batch=2).view(2, *large, 5)
    x[~mask] = float("nan")
    skin = points(60, batch=2)[..., 0].view(2, *large) > 0
    grids = (large, small) if needs_grid else (None, None)
    batch = model(x.flatten(1, 2), mask=mask.flatten(1), grid=grids[0], skin=skin.flatten(1))
    for i, grid in enumerate(grids):
        member = model(x[i][mask[i]][None], grid=grid, skin=skin[i][mask[i]][None])
        torch.testing.assert_close(batch.fields[i][mask[i].flatten()], member.fields[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(batch.pooled[i], member.pooled[0], atol=1e-5, rtol=1e-5)


def test_pooled_features_are_means_over_the_skin():
    model = small_model(coefficients=2)
    x = points(80)
    skin = torch.arange(80)[None] < 30
    weighted = model(x, skin=skin * 0.25)
    answer = model(x, skin=skin)
    torch.testing.assert_close(weighted.coefficients, answer.coefficients)
    assert answer.coefficients.shape == (1, 2)
    assert torch.equal(model(x), answer.fields)
