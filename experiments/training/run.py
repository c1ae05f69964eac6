"""A training run: its losses, its optimisers and learning rate, and the checkpoint it resumes from.

Targets are trained for the next token of a text, drafts for the target's whole distribution. A
draft is distilled (DistillSpec, Zhou et al. 2023, arXiv 2310.08461): first by the Kullback-Leibler
divergence, whose gradients are large where it knows nothing yet, then by total variation, because
acceptance at temperature 1 is exactly 1 - TV(p, q) (Leviathan et al. 2023, corollary 3.6). The same
two distances train the heads that grow on the target.
"""

from functools import partial
from hashlib import sha256
from pathlib import Path

import torch
import torch.nn.functional as F
from tqdm import tqdm

from checkpoints.output import replace_atomically
from decoding.streams import Purpose
from experiments.training.models import seed_torch
from experiments.training.texts import random_passages

STEPS_PER_CHECKPOINT = 200  # steps from one checkpoint to the next

# ---------------------------------------------------------------- losses


def cross_entropy(model, ids, offset):
    """The cross-entropy of the next token, in nats.

    ids: [batch, n_seq + 1]; offset: the position of the first
    """
    logits = model.logits(model.hidden(ids[:, :-1], offset))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def kullback_leibler(p, q):  # 2 x [..., n_vocab], logits
    """KL(p || q) of target p and draft q, the mean over places."""
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def total_variation(p, q):  # 2 x [..., n_vocab], logits
    """Half the sum of all differences, the mean over places."""
    return (p.softmax(-1) - q.softmax(-1)).abs().sum(-1).mean() / 2


def distillation_loss(teacher, distance, draft, ids, offset):
    """Return the loss of a draft: its distance from the teacher, summed over the places it drafts.

    distance: function(p, q) of logits; ids: [batch, n_seq + 1]; offset: position of the first
    """
    with torch.no_grad():
        hidden = teacher.hidden(ids[:, :-1], offset)
        p = teacher.logits(hidden)
    # q of the first place begins a place later each time
    places = draft.places(ids[:, :-1], offset, hidden, teacher)
    return sum(distance(p[:, first:], q) for first, q in places)


def distillation_losses(teacher):
    """Return [loss of the first half of a run, loss of the second], functions of (draft, ids,
    offset).
    """
    teacher.eval().requires_grad_(False)
    return [partial(distillation_loss, teacher, one) for one in (kullback_leibler, total_variation)]


# ---------------------------------------------------------------- the optimiser


def orthogonalize(matrix):  # [n, m] -> [n, m]
    """Bring all singular values of a matrix near 1, by Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Moves each matrix by its orthogonalized momentum, as far as AdamW would (Jordan et al. 2024,
    https://kellerjordan.github.io/posts/muon).

    torch.optim.Muon always multiplies in bfloat16. On a CPU without instructions for it, a step
    would take minutes.
    """

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        (group,) = self.param_groups
        for p in group["params"]:
            average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - group["momentum"])
            update = orthogonalize(p.grad.lerp(average, group["momentum"]))  # Nesterov's
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def new_optimizers(model, lr, weight_decay):
    """Return [Muon for the weight matrices, AdamW for embeddings, norms and biases]."""
    matrices, rest = [], []
    for name, p in model.named_parameters():
        embedding = name.endswith(("wte.weight", "wpe.weight"))
        (matrices if p.ndim == 2 and not embedding else rest).append(p)
    adam = torch.optim.AdamW(rest, lr, betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon(matrices, lr, weight_decay), adam]


# ---------------------------------------------------------------- the run


def mixed_precision():
    """Return a context in which matrix products are in bfloat16, if the CPU has instructions for
    it.

    Without them, bfloat16 is several times slower.
    """
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported())


class TrainingRun:
    """A run over some steps, which goes on from its checkpoint where it was interrupted.

    settings: steps, learning_rate, weight_decay, seed and cache_dir (train.Training)
    name: of the run; origin: {name: value} of what it is begun with. Runs of one name that begin
    with something else, or read other texts, have other checkpoints.
    """

    def __init__(self, model, settings, texts, name, **origin):
        self.model, self.settings, self.texts = model, settings, texts
        self.name, self.origin = name, origin
        self.optimizers = new_optimizers(model, settings.learning_rate, settings.weight_decay)
        self.step = 0
        if self.path(origin).exists():
            self.resume()

    def path(self, origin):
        """Return the path of the checkpoint of a run with that origin."""
        shapes = [tuple(p.shape) for p in self.model.parameters()]
        settings = self.settings.seed, self.settings.weight_decay
        everything = repr((sorted(origin.items()), shapes, settings, self.texts.digests))
        digits = sha256(everything.encode()).hexdigest()[:12]
        return Path(self.settings.cache_dir) / f"{self.name}-{digits}.pt"

    def resume(self):
        """Load model, optimizers and step from the checkpoint."""
        saved = torch.load(self.path(self.origin), weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        self.step = saved["step"]

    def save(self, **changed):
        """Store the checkpoint. changed: what a run that goes on from it is begun with instead"""
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
        }
        path = self.path(self.origin | changed)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(path) as part:
            torch.save(state, part)

    def learning_rate(self):
        """The learning rate of this step: it rises over the first 2 % of the run, and falls to zero
        over its last 60 %.
        """
        steps = self.settings.steps
        warm_up = (self.step + 1) / (0.02 * steps)
        decay = (steps - self.step) / (0.6 * steps)
        return self.settings.learning_rate * min(1.0, warm_up, decay)

    def update(self, loss):
        """Take one step: gradients of a loss (a scalar tensor), clipped to norm 1."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate()
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1

    def train(self, first, second, n_ctx):
        """Take the steps that are left, and store and print as they pass.

        first, second: losses of the two halves of a run, functions of (model, ids, offset)
        """
        steps, seed, name = self.settings.steps, self.settings.seed, self.name
        bar = tqdm(total=steps, initial=self.step, desc=name, mininterval=5)
        while self.step < steps:
            seed_torch(Purpose.DROPOUT, seed, self.step)
            loss = second if self.step >= steps // 2 else first
            with mixed_precision():
                found = loss(self.model, *self.texts.batch(self.step, steps, seed, n_ctx))
            self.update(found)
            bar.update()
            if self.step % STEPS_PER_CHECKPOINT == 0 or self.step == steps:
                self.save()
                valid = self.validate(loss)
                bar.write(f"{name} step {self.step} train {found:.4f} valid {valid:.4f}")
        bar.close()

    @torch.no_grad()
    def validate(self, loss, n_batches=8):
        """Return the mean loss on text that the run does not read."""
        self.model.eval()
        places = self.texts.valid, Purpose.VALIDATION, 0
        batches = (random_passages(*places, i, 16, 256) for i in range(n_batches))
        with mixed_precision():
            losses = [loss(self.model, batch, 0).item() for batch in batches]
        self.model.train()
        return sum(losses) / n_batches
