"""The Trainer: losses, optimizers, learning rate, and the checkpoint that a run resumes from.

Targets are trained for the next token of a text, drafts for the target's whole distribution. A
draft is distilled (DistillSpec, Zhou et al. 2023, arXiv 2310.08461): first by the Kullback-Leibler
divergence, whose gradients are large while the draft knows nothing, then by total variation,
because acceptance at temperature 1 is exactly 1 - TV(p, q) (Leviathan et al. 2023, corollary 3.6).
The same two distances train EAGLE's and Medusa's heads.
"""

from functools import partial
from hashlib import sha256
from pathlib import Path

import torch
import torch.nn.functional as F
from tqdm import tqdm

from checkpoints.output import replace_atomically
from decoding.streams import Purpose
from experiments.training.texts import random_passages

STEPS_PER_CHECKPOINT = 200
WEIGHT_DECAY = 0.05

# ---------------------------------------------------------------- losses


def cross_entropy(model, ids, offset):
    """Return the mean cross-entropy of the next token in nats, a scalar tensor.

    model: a GPT2. ids: [batch, n_seq + 1], int64; offset: the position at which each row begins
    """
    logits = model.logits(model.hidden(ids[:, :-1], offset))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def kullback_leibler(p, q):  # 2 x [..., n_vocab], logits
    """Return KL(p || q) of target p and draft q, the mean over positions, a scalar tensor."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def total_variation(p, q):  # 2 x [..., n_vocab], logits
    """Return the total variation distance of p and q, half the sum of all differences of the
    probabilities: the mean over positions, a scalar tensor.
    """
    return (p.softmax(-1) - q.softmax(-1)).abs().sum(-1).mean() / 2


def distillation_loss(teacher, distance, draft, ids, offset):
    """Return the distance of a draft's distributions from the teacher's, a scalar tensor: for each
    token of a draft the mean over all positions, added up. A GPT2 drafts one token here, a head
    several.

    teacher: the target, a GPT2. distance: a function (p, q), both logits, -> scalar tensor
    draft: a GPT2, Eagle or Medusa
    ids: [batch, n_seq + 1], int64; offset: the position at which each row begins
    """
    with torch.no_grad():
        hidden = teacher.hidden(ids[:, :-1], offset)  # the last ids are for cross_entropy only
        p = teacher.logits(hidden)
    loss = 0
    # token i of a draft: its row j is for the target's position i + j
    for i, q in draft.draft_logits(ids[:, :-1], offset, hidden, teacher):
        loss = loss + distance(p[:, i:], q)
    return loss


def make_distillation_losses(teacher):
    """Return the losses of the two halves of a run that distils a teacher, a GPT2, as a pair of
    functions (draft, ids, offset) -> scalar tensor: first Kullback-Leibler, then total variation.
    Turns off gradients and dropout of the teacher.
    """
    teacher.eval().requires_grad_(False)
    return (
        partial(distillation_loss, teacher, kullback_leibler),
        partial(distillation_loss, teacher, total_variation),
    )


# ---------------------------------------------------------------- the optimizers


def orthogonalize(matrix):  # [n, m] -> [n, m]
    """Return a matrix with all singular values brought near 1, by Newton-Schulz iteration."""
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

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        """Move the parameters, in place, by their gradients. The gradients stay."""
        (group,) = self.param_groups  # torch keeps a list; all matrices are in one group
        for p in group["params"]:
            average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - group["momentum"])
            update = orthogonalize(p.grad.lerp(average, group["momentum"]))  # Nesterov's
            p.mul_(1 - group["lr"] * group["weight_decay"])
            # AdamW's updates have a root mean square of about 0.2, an orthogonal matrix one of 1
            # over the square root of its longer side (Liu et al. 2025, arXiv 2502.16982)
            p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def new_optimizers(model, learning_rate):
    """Make the optimizers of a torch module, a list [Muon, AdamW]: Muon moves the weight matrices,
    AdamW the embeddings, norms and biases. Both begin with learning_rate, a float.
    """
    matrices, other_parameters = [], []
    for name, p in model.named_parameters():
        is_embedding = name.endswith(("wte.weight", "wpe.weight"))
        if p.ndim == 2 and not is_embedding:
            matrices.append(p)
        else:
            other_parameters.append(p)
    return [
        Muon(matrices, learning_rate, WEIGHT_DECAY),
        torch.optim.AdamW(other_parameters, learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


# ---------------------------------------------------------------- the run


def mixed_precision():
    """Return a context in which matrix products are in bfloat16 if the CPU has instructions for it.
    Without them, bfloat16 is several times slower than float32.
    """
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported())


class Trainer:
    """Trains a model for a number of steps. Resumes from the checkpoint of an interrupted run.

    model: a GPT2, Eagle or Medusa
    settings: train.TrainingSettings, for steps, learning_rate, seed and cache_dir
    texts: TrainingTexts
    name: of the run, which begins the checkpoint's file name
    origin: what the run begins with, {name: str}. Runs of one name that begin with something else,
        or read other texts, have other checkpoints.
    """

    def __init__(self, model, settings, texts, name, **origin):
        self.model, self.settings, self.texts = model, settings, texts
        self.name, self.origin = name, origin
        self.optimizers = new_optimizers(model, settings.learning_rate)
        self.step = 0
        if self.checkpoint_path(origin).exists():
            self.resume()

    def checkpoint_path(self, origin):
        """Return the Path of the checkpoint of this run, if it began with `origin`, {name: str}.
        The name of the file holds a digest of all that must be the same to resume.
        """
        shapes = [tuple(p.shape) for p in self.model.parameters()]
        constants = self.settings.seed, WEIGHT_DECAY
        identity = repr((sorted(origin.items()), shapes, constants, self.texts.digests))
        digits = sha256(identity.encode()).hexdigest()[:12]
        return Path(self.settings.cache_dir) / f"{self.name}-{digits}.pt"

    def resume(self):
        """Set model, optimizers and step to what the checkpoint of this run holds. Its name depends
        on self.origin, what the run began with. Raises FileNotFoundError if there is none, and
        torch's error if it is damaged.
        """
        saved = torch.load(self.checkpoint_path(self.origin), weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        self.step = saved["step"]

    def save(self, **changed_origin):
        """Write the checkpoint, atomically; a missing folder is made.

        changed_origin: {name: str}, what the run that will resume from it begins with, where that
            differs from self.origin. The file's name depends on it.
        """
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
        }
        path = self.checkpoint_path(self.origin | changed_origin)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(path) as part:
            torch.save(state, part)

    def learning_rate(self):
        """Return the learning rate of this step. It rises over the first 2 % of the run, and falls
        to zero over its last 60 %.
        """
        steps = self.settings.steps
        warm_up = (self.step + 1) / (0.02 * steps)
        decay = (steps - self.step) / (0.6 * steps)
        return self.settings.learning_rate * min(1.0, warm_up, decay)

    def update(self, loss):
        """Take one optimizer step by the gradients of a loss, a scalar tensor, and count it. The
        gradients are clipped to norm 1.
        """
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate()
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1

    def train(self, first_loss, second_loss, n_ctx):
        """Take the remaining steps. Every STEPS_PER_CHECKPOINT steps and at the end, write the
        checkpoint and print the losses.

        first_loss, second_loss: of the two halves of a run, functions (model, ids, offset) ->
            scalar tensor, called with what self.texts.batch returns: ids [n_rows, n_seq + 1], and
            the position at which each row begins
        n_ctx: the context of the target, in tokens
        """
        steps, seed, name = self.settings.steps, self.settings.seed, self.name
        bar = tqdm(total=steps, initial=self.step, desc=name, mininterval=5)
        while self.step < steps:
            loss_of = second_loss if self.step >= steps // 2 else first_loss
            ids, offset = self.texts.batch(self.step, steps, seed, n_ctx)
            with mixed_precision():
                loss = loss_of(self.model, ids, offset)
            self.update(loss)  # which also counts the step
            bar.update()
            if self.step % STEPS_PER_CHECKPOINT == 0 or self.step == steps:
                self.save()
                valid = self.validate(loss_of)
                bar.write(f"{name} step {self.step} train {loss:.4f} valid {valid:.4f}")
        bar.close()

    @torch.no_grad()
    def validate(self, loss_of, n_batches=8):
        """Return the mean loss on n_batches of passages that the run does not train on, a float.

        loss_of: a function (model, ids, offset) -> scalar tensor, as for `train`
        """
        self.model.eval()
        losses = []
        for i in range(n_batches):
            where = {"purpose": Purpose.VALIDATION, "seed": 0, "batch": i}
            ids = random_passages(self.texts.valid, **where, batch_size=16, n_seq=256)
            with mixed_precision():
                losses.append(loss_of(self.model, ids, 0).item())  # at offset 0
        self.model.train()
        return sum(losses) / n_batches
