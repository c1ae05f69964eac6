"""Symbolic numbers in torch's tensors are those that real ones would be, whatever moves, copies or
changes them.
"""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

from proof.enumerate import distribution  # noqa: E402
from proof.follow import followed  # noqa: E402
from proof.noise import Number  # noqa: E402

MOVED = [  # views and copies; which of them depends on the layout
    lambda x: x[1:], lambda x: x[0], lambda x: x[-1], lambda x: x[::2], lambda x: x[..., 0],
    lambda x: x[None], lambda x: x[:, :1], lambda x: x[torch.tensor([0])], lambda x: x.view(-1),
    lambda x: x.reshape(-1), lambda x: x.reshape(-1, 1), lambda x: x.flatten(), lambda x: x.t(),
    lambda x: x.unsqueeze(0), lambda x: x.squeeze(), lambda x: x.transpose(0, -1),
    lambda x: x.permute(*reversed(range(x.dim()))), lambda x: x.movedim(0, -1),
    lambda x: x.expand(2, *x.shape), lambda x: x.unbind(0)[-1], lambda x: x.split(1)[0],
    lambda x: x.chunk(2)[-1], lambda x: x.narrow(0, 0, 1), lambda x: x.select(-1, 0),
    lambda x: x.index_select(0, torch.tensor([0])), lambda x: x.repeat_interleave(2),
    lambda x: x.repeat(2, *x.shape), lambda x: x.flip(0), lambda x: x.clone(), lambda x: x.float(),
    lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.detach(), lambda x: x.cpu(),
]  # fmt: skip


def by_numpy(x):
    if 0 in x.stride():
        raise RuntimeError("elements share their memory")
    numbers = x.numpy()
    numbers *= 1.25
    return x


CHANGED = [
    lambda x: x.mul_(1.5), lambda x: x.add_(0.25), lambda x: x.pow_(2), lambda x: x.div_(3.0),
    lambda x: x.pow_(0.5), lambda x: x.__imul__(2.0), by_numpy,
]  # fmt: skip
COMPUTED = [lambda x: 2 * x, lambda x: 1 + x, lambda x: x**2, lambda x: 1 / (1 + x)]


def works(function, x):
    """function(x), or None where torch itself refuses it."""
    try:
        return function(x)
    except (RuntimeError, IndexError):
        return None


@pytest.mark.parametrize("seed", range(300))
def test_numbers_are_where_torch_would_have_them(seed):
    """Random numbers are drawn into a view; then tensors are moved, changed and computed."""
    rng = random.Random(seed)
    shape = rng.choice([(3,), (2, 3), (2, 1), (2, 2, 2)])
    view = rng.choice([lambda x: x, lambda x: x[1:], lambda x: x[0], lambda x: x.transpose(0, -1)])
    real = [torch.zeros(shape, dtype=torch.float64)]
    real.append(view(real[0]))
    values = [rng.random() for _ in range(real[1].numel())]
    real[1].copy_(torch.tensor(values).reshape(real[1].shape))
    steps = []
    for _ in range(rng.randint(2, 8)):
        step = rng.choice(rng.choice([MOVED, MOVED, CHANGED, COMPUTED])), rng.randrange(len(real))
        if (made := works(step[0], real[step[1]])) is not None:
            steps.append(step)
            real.append(made)

    def run(branch):
        drawn = torch.zeros(shape, dtype=torch.float64)
        symbolic = [drawn, view(drawn).uniform_()]
        of_atom = dict(zip([x.atom for x in symbolic[1].cells.ravel()], values))
        for function, i in steps:
            symbolic.append(function(symbolic[i]))
        for found, right in zip(symbolic, real, strict=True):
            cells = np.asarray(getattr(found, "cells", found), object)
            numbers = [x.at(of_atom[x.atom]) if isinstance(x, Number) else x for x in cells.flat]
            assert cells.shape == right.shape and numbers == pytest.approx(right.ravel().tolist())
        return "the same"

    with followed():
        assert distribution(run) == {"the same": 1.0}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.randint(3, (2,))[1],
        lambda: torch.randint(high=3, size=(1,)),
        lambda: torch.randint(1, 4, size=()) - 1,
        lambda: torch.randint(1, high=4, size=(1,)) - 1,
        lambda: random.randrange(3),
        lambda: random.randrange(2, 8, 2) // 2 - 1,
        lambda: random.randint(0, 2),
    ],
)
def test_whole_numbers_are_all_as_likely(draw):
    with followed():
        found = distribution(lambda branch: int(draw()))
    assert found == pytest.approx({n: 1 / 3 for n in range(3)})


def test_numbers_of_the_shape_of_random_numbers():
    with followed():
        found = distribution(lambda branch: tuple(torch.rand_like(torch.rand(2, 3)).shape))
    assert found == {(2, 3): 1.0}
