"""Losses, and the optimizers that lower them."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from backends.threads import ceil_div
from train.files import Student
from train.students import GPT2
from train.texts import OPENING

WEIGHT_DECAY = 0.05

# ---------------------------------------------------------------- losses


def losses_of_next_tokens(model: GPT2, ids: Tensor, progress: float) -> Iterator[Tensor]:
    """Yield the loss of a target: the mean cross-entropy of the next token, in nats.

    ids: [batch, n_seq + 1]; progress: of the run, which does not matter here
    """
    logits = model.lm_head(model.hidden(ids[:, :-1]))
    yield F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def kullback_leibler(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) in nats, the mean over positions, of logits: 2 x [..., n_vocab] -> scalar."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """TV(p, q), the mean over positions, of logits: 2 x [..., n_vocab] -> scalar. An acceptance
    rate at temperature 1 is exactly 1 - TV(p, q) (Leviathan et al. 2023, corollary 3.6).
    """
    return (p.softmax(-1) - q.softmax(-1)).abs().sum(-1).mean() / 2


def predict_drafts(
    teacher: GPT2, students: list[Student], ids: Tensor
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Yield for each student a list with a pair (p, q) for each token i of a draft: the logits
    [n_rows, n_seq - i, n_vocab] that the teacher and the student predict for it, in drafts that
    begin at every position of texts. Row j of p is the teacher's at position i + j.

    ids: [batch, n_seq], the texts. The teacher reads them once, without gradients. A student reads
        the first batch / module.share of them, rounded up: a draft model all, a head half
    """
    with torch.no_grad():
        hidden = teacher.hidden(ids)
        p = teacher.lm_head(hidden)
    for student in students:
        n_rows = ceil_div(len(ids), student.module.share)
        logits = student.module.draft_logits(ids[:n_rows], hidden[:n_rows], teacher)
        yield [(p[:n_rows, i:], q) for i, q in logits]


def losses_of_drafts(
    teacher: GPT2, students: list[Student], ids: Tensor, progress: float
) -> Iterator[Tensor]:
    """Yield the loss of each student for texts ids [batch, n_seq], a scalar with gradients: how far
    its distributions are from the teacher's (DistillSpec, Zhou et al. 2023, arXiv 2310.08461), the
    mean over positions, added up over the tokens of a draft.

    progress: of the run, from 0 to 1. Until it is 0.3, the distance is KL(teacher || student),
    whose gradients are large while a student knows nothing. Then, and for a student that does not
    begin with random weights, it is total variation, which decoding pays for.
    """
    for student, pairs in zip(students, predict_drafts(teacher, students, ids)):
        began_random = student.begins_as == ""
        by_kl = began_random and progress < 0.3
        distance = kullback_leibler if by_kl else total_variation
        yield torch.stack([distance(p, q) for p, q in pairs]).sum()


@torch.no_grad()
def mark_target(model: GPT2, held_out: Tensor) -> str:  # [n_rows, n_seq + 1]
    """Words that tell how well a target predicts texts, held_out: its mean cross-entropy in nats,
    "cross-entropy of held-out text 1.234".
    """
    losses: list[Tensor] = []
    for ids in held_out.split(16):  # 16 rows at a time, to spare memory
        losses += losses_of_next_tokens(model, ids, progress=1)  # one loss, whatever the progress
    return f"cross-entropy of held-out text {torch.stack(losses).mean():.3f}"


@torch.no_grad()
def mark_drafts(teacher: GPT2, students: list[Student], sampled: Tensor, greedy: Tensor) -> str:
    """How well students draft texts that the teacher wrote, "1x128 0.612 0.655, eagle ...": of each
    its name, the acceptance rate expected at temperature 1 (of the texts `sampled`), and how often
    its likeliest token is the teacher's after the first 32 (OPENING; of the texts `greedy`).

    sampled, greedy: [n_rows, n_seq], the texts
    """
    words = []
    for student in students:
        accepted = [1 - total_variation(p, q) for p, q in drafts_of(student, teacher, sampled)]
        agreed = []
        for p, q in drafts_of(student, teacher, greedy):
            are_equal = p.argmax(-1) == q.argmax(-1)
            agreed.append(are_equal[:, OPENING:].float().mean())
        acceptance = sum(accepted) / len(accepted)
        agreement = sum(agreed) / len(agreed)
        words.append(f"{student.name} {acceptance:.3f} {agreement:.3f}")
    return ", ".join(words)


def drafts_of(student: Student, teacher: GPT2, texts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pairs (p, q) of one student, as `predict_drafts` makes them, for a few texts at a
    time, to spare memory. texts: [n_rows, n_seq]
    """
    for ids in texts.split(16):
        for pairs in predict_drafts(teacher, [student], ids):  # once, of the one student
            yield from pairs


# ---------------------------------------------------------------- optimizers


def orthogonalize(matrix: Tensor) -> Tensor:  # [n, m] -> [n, m]
    """A matrix with the same singular vectors, whose singular values are about 1, by five steps of
    a Newton-Schulz iteration: 0.68 to 1.2 where they were at least 0.003 of the matrix's norm.
    """
    # Jordan et al.'s coefficients: s -> a s + b s^3 + c s^5 brings s, from 0 to 1, near 1
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Moves each matrix along its orthogonalized momentum, as far as AdamW would (Jordan et al.
    2024, https://kellerjordan.github.io/posts/muon). All parameters are matrices.

    torch.optim.Muon always multiplies in bfloat16. On a CPU without instructions for bfloat16, its
    step would take minutes.
    """

    def __init__(
        self, params: list, lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        """Move all matrices in place, once, along their gradients, which all must have: update the
        average of the gradients, mix it with the newest one (Nesterov's momentum), shrink the
        matrix by lr times weight_decay, and subtract the orthogonalized mixture, scaled to a root
        mean square of 0.2 lr.
        """
        group = self.param_groups[0]  # torch keeps a list; all matrices are in one group
        for p in group["params"]:
            average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - group["momentum"])
            mixture = p.grad.lerp(average, group["momentum"])
            update = orthogonalize(mixture)
            p.mul_(1 - group["lr"] * group["weight_decay"])
            # AdamW's updates have a root mean square of about 0.2, an orthogonal matrix one of 1
            # over the square root of its longer side (Liu et al. 2025, arXiv 2502.16982)
            p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def new_optimizers(model: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """The optimizers of a model, [Muon, AdamW], at this learning rate: the one for its matrices but
    embeddings, with a weight decay of 0.05, the other for embeddings, norms and biases, without.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, p in model.named_parameters():
        is_embedding = name.endswith(("wte.weight", "wpe.weight"))
        if p.ndim == 2 and not is_embedding:
            matrices.append(p)
        else:
            others.append(p)
    adamw = torch.optim.AdamW(others, learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon(matrices, learning_rate, WEIGHT_DECAY), adamw]


def rate_at(step: int, steps: int) -> float:
    """The learning rate of a step, over the highest: it rises in the first 2 % of the run, and
    falls to zero in its last 60 %.

    >>> rate_at(0, 100), rate_at(20, 100), rate_at(70, 100)
    (0.5, 1.0, 0.5)
    """
    return min(1.0, (step + 1) / (0.02 * steps), (steps - step) / (0.6 * steps))


def move(optimizers: list[torch.optim.Optimizer], learning_rate: float) -> None:
    """Take a step at this learning rate along the gradients that have been added up, and forget
    them. If the norm of all together is above 1, they are scaled down to it.

    optimizers: those of one model, whose parameters are changed in place
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    params = [p for group in groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(params, max_norm=1.0)
    for group in groups:
        group["lr"] = learning_rate
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
