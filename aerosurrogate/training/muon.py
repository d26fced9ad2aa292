"""Muon: the matrices inside a transformer learn faster when all directions of a step are equally long.

Unlike torch.optim.Muon (torch 2.9) it steps the other parameters too, so that one schedule and one state serve a run,
takes matrices of one shape together, and orthogonalises in full precision.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn, optim

STEPS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # of a singular value in (0, 1]: five times in turn gives 0.7 to 1.2 (Jordan 2024)
LIKE_ADAM = 0.2  # root mean square of an entry's update over the learning rate, as AdamW's usually is (Liu et al. 2025)


class Muon(optim.AdamW):
    """Moves `matrices` by their momentum with its singular values set to about one, `others` as AdamW does.

    Both share learning rate, weight decay and the first of `betas`, so that one schedule serves both.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], others: Iterable[nn.Parameter], **options: Any) -> None:
        groups = [{"params": list(matrices), "orthogonal": True}, {"params": list(others), "orthogonal": False}]
        super().__init__(groups, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            if group["orthogonal"]:
                self._step_matrices(group)
        super().step()  # of what still has a gradient
        return loss

    def _step_matrices(self, group: dict[str, Any]) -> None:
        keep, rate = group["betas"][0], group["lr"]
        weights = [weight for weight in group["params"] if weight.grad is not None]
        if not weights:
            return
        for weight in weights:
            if not self.state[weight]:  # AdamW wants to find a step when a state is loaded
                self.state[weight] |= {"step": torch.zeros(()), "momentum": torch.zeros_like(weight)}
        gradients, momenta = [weight.grad for weight in weights], [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - keep)
        ahead = torch._foreach_lerp(gradients, momenta, keep)
        torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        alike: dict[torch.Size, list[int]] = {}
        for i, weight in enumerate(weights):
            weight.grad = None
            alike.setdefault(weight.flatten(1).shape, []).append(i)
        for shape, places in alike.items():
            updates = orthogonalised(torch.stack([ahead[i].flatten(1) for i in places]))
            updates *= -rate * LIKE_ADAM * max(shape) ** 0.5
            moves = [update.view_as(weights[i]) for i, update in zip(places, updates, strict=True)]
            torch._foreach_add_([weights[i] for i in places], moves)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Matrices [k, m, n] with the same singular vectors and singular values near one, by Newton-Schulz iterations.

    In full precision: small singular values grow 480-fold, and rounding errors of bfloat16 with them, so that two
    processes would no longer end where one does.
    """
    linear, cubic, quintic = QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-12)
    for _ in range(STEPS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=cubic, alpha=quintic), x, beta=linear)
    return x.mT if tall else x
