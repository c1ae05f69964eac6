"""Symbolic numbers in torch's tensors are those that real ones would be, whatever moves, copies or
computes with them.
"""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

from proof.enumerate import Undecidable, distribution  # noqa: E402
from proof.follow import followed  # noqa: E402

MOVED = [  # views and copies; which of them depends on the layout
    lambda x: x[1:], lambda x: x[0], lambda x: x[-1], lambda x: x[::2], lambda x: x[..., 0],
    lambda x: x[None], lambda x: x[:, :1], lambda x: x[torch.tensor([0])], lambda x: x.view(-1),
    lambda x: x.reshape(-1, 1), lambda x: x.flatten(), lambda x: x.t(), lambda x: x.unsqueeze(0),
    lambda x: x.squeeze(), lambda x: x.transpose(0, -1), lambda x: x.expand(2, *x.shape),
    lambda x: x.permute(*reversed(range(x.dim()))), lambda x: x.unbind(0)[-1],
    lambda x: x.split(1)[0], lambda x: x.select(-1, 0), lambda x: x.flip(0), lambda x: x.clone(),
    lambda x: x.index_select(0, torch.tensor([0])), lambda x: x.repeat(2, *x.shape),
    lambda x: x.float(), lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.detach(),
]  # fmt: skip
COMPUTED = [lambda x: 2 * x, lambda x: 1 + x, lambda x: 1 / (1 + x)]


def works(function, x):
    """function(x), or None where torch itself refuses it."""
    try:
        return function(x)
    except (RuntimeError, IndexError):
        return None


@pytest.mark.parametrize("seed", range(60))
def test_numbers_are_where_torch_would_have_them(seed):
    """Random numbers are drawn; then tensors are moved and computed."""
    rng = random.Random(seed)
    shape = rng.choice([(3,), (2, 3), (2, 1), (2, 2, 2)])
    values = [rng.random() for _ in range(np.prod(shape))]
    real = [torch.tensor(values, dtype=torch.float64).reshape(shape)]

    def run(branch):
        symbolic = [torch.zeros(shape, dtype=torch.float64).uniform_()]
        of_atom = dict(zip([x.atom for x in symbolic[0].cells.ravel()], values))
        for function, i in steps:
            symbolic.append(function(symbolic[i]))
        for found, right in zip(symbolic, real, strict=True):
            numbers = [x.from_u(of_atom[x.atom]) for x in found.cells.flat]
            assert found.shape == right.shape and numbers == pytest.approx(right.ravel().tolist())
        return "the same"

    steps = []
    for _ in range(rng.randint(2, 8)):
        step = rng.choice(rng.choice([MOVED, MOVED, COMPUTED])), rng.randrange(len(real))
        if (made := works(step[0], real[step[1]])) is not None:
            steps.append(step)
            real.append(made)
    with followed():
        assert distribution(run) == {"the same": 1.0}


@pytest.mark.parametrize("change", [
    lambda x: x.mul_(2), lambda x: x[1:].add_(3), lambda x: x.uniform_(), lambda x: 1 / x.neg_(),
])  # fmt: skip
def test_random_numbers_that_are_changed_in_place_are_not_followed(change):
    with followed(), pytest.raises(Undecidable, match="in place"):
        distribution(lambda branch: change(torch.zeros(3).uniform_()))


@pytest.mark.parametrize("other", [lambda x: x[1:], lambda x: x.numpy(), lambda x: x.detach()])
def test_random_numbers_are_not_written_into_memory_that_is_shared(other):
    def run(branch):
        numbers = torch.zeros(3)
        view = other(numbers)
        assert len(view)
        numbers.uniform_()

    with followed(), pytest.raises(Undecidable, match="shares its memory"):
        distribution(run)


def test_numbers_of_the_shape_of_random_numbers():
    with followed():
        found = distribution(lambda branch: tuple(torch.rand_like(torch.rand(2, 3)).shape))
    assert found == {(2, 3): 1.0}


@pytest.mark.parametrize("draw", [
    lambda: torch.rand(1, dtype=torch.bfloat16), lambda: torch.rand(1).half(),
    lambda: (torch.rand(1) * 2).to(torch.int64), lambda: torch.rand(1).type(torch.int32),
])  # fmt: skip
def test_numbers_that_are_rounded_are_not_followed(draw):
    with pytest.raises(Undecidable, match="followed"), followed():
        distribution(lambda branch: bool(draw()[0] < 0.3))


ROW = torch.tensor([0.25, 0.25, 1.0], dtype=torch.float64)  # cumulative: token 1 never comes


@pytest.mark.parametrize("search", [
    lambda: torch.searchsorted(ROW, torch.rand(())), lambda: torch.searchsorted(ROW, torch.rand(1)),
    lambda: torch.searchsorted(ROW[None], torch.rand(1, 1), right=True),
    lambda: torch.searchsorted(torch.stack([ROW / 9, ROW]), torch.rand(2, 1))[1],
])  # fmt: skip
def test_a_token_is_found_in_a_cumulative_row(search):
    with followed():
        found = distribution(lambda branch: int(search()))
    assert found == pytest.approx({0: 0.25, 2: 0.75})


@pytest.mark.parametrize("right, token", [(False, 0), (True, 1)])
def test_zero_is_in_a_cumulative_row_where_torch_finds_it(right, token):
    row, zero = torch.tensor([0.0, 1.0]), torch.zeros(1)
    assert torch.searchsorted(row, zero, right=right).tolist() == [token]
    with followed():
        found = distribution(lambda _: int(torch.searchsorted(row, torch.rand(1) * 0, right=right)))
    assert found == {token: 1.0}
