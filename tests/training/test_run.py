"""The optimiser of the weight matrices, against torch's own, which computes in bfloat16."""

import pytest

torch = pytest.importorskip("torch")

from experiments.training.run import Muon, orthogonalized  # noqa: E402


def moved(make):
    """Three matrices after three steps."""
    torch.manual_seed(3)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in ((12, 36), (48, 12), (8, 8))]
    optimizer = make(parameters)
    for _ in range(3):
        for p in parameters:
            p.grad = torch.randn_like(p)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in parameters])


def test_it_moves_as_torchs_does_in_the_same_precision():
    settings = {"lr": 0.02, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
    expected = moved(lambda parameters: torch.optim.Muon(parameters, **settings))
    assert torch.equal(moved(lambda parameters: Muon(parameters, 0.02, torch.bfloat16)), expected)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (9, 9)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(1)
    matrix = torch.randn(shape)
    result = orthogonalized(matrix, torch.float32)
    assert result.dtype == torch.float32 and result.shape == shape
    values = torch.linalg.svdvals(result)
    assert values.min() > 0.5 and values.max() < 1.3
    # and the directions stay: result = U S' V^T of the matrix's U, V
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    between = u.T @ result @ v.T
    assert torch.allclose(between, torch.diag(between.diag()), atol=1e-4)
