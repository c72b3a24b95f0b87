"""Muon: momentum whose update is made orthogonal by a Newton-Schulz iteration (Keller Jordan, 2024).

It knows no network; it is for matrices alone, and takes matrices of one shape together.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonal updates of size `lr` times the root of rows over columns, at least one."""

    def __init__(
        self, matrices: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95, decay: float = 0.1
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure is needed here
        for group in self.param_groups:
            same: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                same[matrix.shape].append(matrix)
            for matrices in same.values():
                self.step_together(matrices, group["lr"], group["momentum"], group["decay"])

    def step_together(self, matrices: list[Tensor], rate: float, momentum: float, decay: float) -> None:
        gradients = torch.stack([matrix.grad for matrix in matrices])
        state = self.state[matrices[0]]
        speed = state.setdefault("speed", torch.zeros_like(gradients)).lerp_(gradients, 1 - momentum)
        updates = orthogonal(gradients.lerp(speed, momentum))
        scale = max(1.0, gradients.shape[-2] / gradients.shape[-1]) ** 0.5
        for matrix, update in zip(matrices, updates, strict=True):
            matrix.mul_(1 - rate * decay).add_(update, alpha=-rate * scale)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrices, roughly; bfloat16 is enough for that."""
    wide = matrices.shape[-2] <= matrices.shape[-1]
    work = (matrices if wide else matrices.mT).bfloat16()
    work = work / (work.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, second, third = COEFFICIENTS
    for _ in range(steps):
        square = work @ work.mT
        work = first * work + (second * square + third * square @ square) @ work
    return (work if wide else work.mT).to(matrices.dtype)
