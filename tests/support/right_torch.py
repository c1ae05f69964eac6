"""Exact rules in torch. Data of test_prove.py: each must be "exact"."""

import torch
import torch.nn.functional as F


def first_rejection(draft, p, q, coin):
    return next((i for i, x in enumerate(draft) if not coin(p[i, x] / q[i, x])), len(draft))


def weights(draft, p, q, n):
    return p[n] if n == len(draft) else (p[n] - q[n]).clamp(min=0)


def batched(draft, p, q):
    p, q, k = torch.tensor(p)[None], torch.tensor(q)[None], len(draft)
    index = torch.tensor(draft)[None, :, None]
    ratio = (p[:, :k].gather(2, index) / q.gather(2, index)).squeeze(-1)
    rejected = torch.rand_like(ratio) >= ratio
    n = int((rejected.cumsum(-1) == 0).sum())
    row = F.relu(p[0, n] - q[0, n]) if n < k else p[0, k]
    return n, torch.multinomial(row / row.sum(), num_samples=1)


def exponential_race(draft, p, q):
    p, q = torch.tensor(p, dtype=torch.float32), torch.tensor(q, dtype=torch.float32)
    u = torch.empty(len(draft)).uniform_()
    n = next((i for i, x in enumerate(draft) if u[i] > p[i, x] / q[i, x]), len(draft))
    w = weights(draft, p, q, n)
    return n, w.div_(torch.empty_like(w).exponential_()).argmax(dim=-1)


def gumbel(draft, p, q):
    p, q = torch.tensor(p), torch.tensor(q)
    n = first_rejection(draft, p, q, lambda r: torch.rand(1).item() <= r)
    logits = torch.log(weights(draft, p, q, n))
    noise = torch.zeros_like(logits).uniform_(0, 1).clamp(min=1e-20)
    return n, (logits - torch.log(-torch.log(noise))).argmax(-1).item()


def distributions(draft, p, q):
    p, q = torch.tensor(p), torch.tensor(q)
    n = first_rejection(draft, p, q, lambda r: torch.rand(()) < r)
    return n, torch.distributions.Categorical(weights(draft, p, q, n)).sample()


GENERATOR = torch.Generator()


def own_torch_generator(draft, p, q, generator=GENERATOR):
    p, q = torch.tensor(p).float(), torch.tensor(q).float()
    n = first_rejection(draft, p, q, lambda r: torch.rand((), generator=generator) < r)
    return n, weights(draft, p, q, n).multinomial(1, generator=generator)


# ---------------------------------------------------------------- some that are undecidable


def same_numbers_each_time(draft, p, q):
    return own_torch_generator(draft, p, q, torch.Generator())  # its seed is always the same


def seen_by_a_view(draft, p, q):
    """`u` has been a view of `numbers` before they were drawn."""
    numbers = torch.zeros(len(draft) + 1)
    u = numbers[:-1]
    numbers.uniform_()
    n = next((i for i, x in enumerate(draft) if not u[i] <= p[i, x] / q[i, x]), len(draft))
    return n, torch.multinomial(torch.tensor(p[n]), 1)


# ---------------------------------------------------------------- some that are wrong


def race(draft, p, q, change):
    """A race in whose noise, [k + 1, n_vocab], `change` changes some numbers in place."""
    p, q = torch.tensor(p), torch.tensor(q)
    noise = torch.empty(p.shape).exponential_()
    change(noise)
    n = first_rejection(draft, p, q, lambda r: torch.rand(()) < r)
    return n, (weights(draft, p, q, n) / noise[n]).argmax()


def through_a_view(draft, p, q):
    return race(draft, p, q, lambda noise: noise[1:].pow_(3))


def through_numpy(draft, p, q):
    def change(noise):
        numbers = noise.numpy()
        numbers[1:] **= 3

    return race(draft, p, q, change)


def in_a_row_of_p(draft, p, q):
    """The division is in place, and the next token is taken from what is left."""
    p, q = torch.tensor(p), torch.tensor(q)
    n = first_rejection(draft, p, q, lambda r: torch.rand(()) < r)
    p[n].div_(torch.empty_like(p[n]).exponential_())
    return n, p[n].argmax()


def wrong_by_a_slice(draft, p, q):
    """Resamples from p."""
    u = torch.zeros(len(draft) + 1)
    u[:-1].uniform_()
    n = next((i for i, x in enumerate(draft) if not u[i] <= p[i, x] / q[i, x]), len(draft))
    return n, torch.multinomial(torch.tensor(p[n]), 1)


def wrong_by_data(draft, p, q):
    u = torch.zeros(len(draft))
    u.data.uniform_()
    n = next((i for i, x in enumerate(draft) if not u[i] <= p[i, x] / q[i, x]), len(draft))
    return n, torch.multinomial(torch.tensor(p[n]), 1)
