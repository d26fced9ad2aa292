"""Muon: the matrices inside a transformer learn faster when all directions of a step are equally long."""

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
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for weight in group["params"]:
            if (gradient := weight.grad) is not None:
                weight.grad = None
                state = self.state[weight]
                if not state:  # AdamW wants to find a step when a state is loaded
                    state |= {"step": torch.zeros(()), "momentum": torch.zeros_like(weight)}
                ahead = gradient.lerp(state["momentum"].lerp_(gradient, 1 - keep), keep)
                alike.setdefault(weight.flatten(1).shape, []).append((weight, ahead.flatten(1)))
        for shape, pairs in alike.items():
            length = rate * LIKE_ADAM * max(shape) ** 0.5
            updates = orthogonalised(torch.stack([ahead for _, ahead in pairs]))
            for (weight, _), update in zip(pairs, updates, strict=True):
                weight.mul_(1 - rate * group["weight_decay"]).sub_(update.view_as(weight), alpha=length)


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
