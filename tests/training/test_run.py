"""The optimiser of the weight matrices, against torch's own, which computes in bfloat16."""

import pytest

torch = pytest.importorskip("torch")

from experiments.training.run import Muon, orthogonalized  # noqa: E402


def matrices():
    torch.manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((12, 36), (48, 12), (8, 8))]


def moved(optimizer, parameters):
    """The parameters after three steps."""
    for step in range(3):
        torch.manual_seed(step)
        for p in parameters:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return [p.detach() for p in parameters]


def test_it_moves_as_torchs_does_in_the_same_precision():
    ours, torchs = matrices(), matrices()
    settings = {"lr": 0.02, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
    expected = moved(torch.optim.Muon(torchs, **settings), torchs)
    found = moved(Muon(ours, 0.02, torch.bfloat16), ours)
    for a, b, begin in zip(found, expected, matrices()):
        assert torch.equal(a, b)
        assert not torch.allclose(a, begin)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (9, 9)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(1)
    matrix = torch.randn(shape)
    result = orthogonalized(matrix, torch.float32)
    assert result.dtype == torch.float32
    assert result.shape == shape
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.5 and values.max() < 1.3
    # and the directions stay: result = U S' V^T of the matrix's U, V
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    between = u.T @ result @ v.T
    assert torch.allclose(between, torch.diag(between.diag()), atol=1e-4)
