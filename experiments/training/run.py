"""A training run: its optimisers and learning rate, and the checkpoint it resumes from."""

import time
from pathlib import Path

import torch
from tqdm import tqdm

from experiments.data.files import replacing
from experiments.training.tokens import batch_at
from experiments.training.torch_gpt2 import HAS_BFLOAT16
from utils import InputError

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of the iteration
ITERATIONS = 5
EVERY = 200  # steps from one checkpoint to the next


def orthogonalized(matrix, dtype):  # [n, m] -> [n, m]
    """The matrix with all its singular values brought near 1, computed in a dtype."""
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).to(dtype)
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Moves each matrix by its orthogonalized momentum, as far as AdamW would (Jordan et al. 2024,
    https://kellerjordan.github.io/posts/muon).

    torch.optim.Muon always multiplies in bfloat16. On a CPU without instructions for it, a step
    would take minutes. params: [n, m] each; dtype: of the matrix products.
    """

    def __init__(self, params, lr, dtype, momentum=0.95, weight_decay=0.05):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.move(p, group["lr"], group["momentum"], group["weight_decay"])

    def move(self, p, lr, momentum, weight_decay):
        average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        average.lerp_(p.grad, 1 - momentum)
        update = orthogonalized(p.grad.lerp(average, momentum), self.dtype)  # Nesterov's
        p.mul_(1 - lr * weight_decay)
        p.add_(update, alpha=-lr * 0.2 * max(p.shape) ** 0.5)


class Run:
    """A run with its optimisers: Muon for the weight matrices, AdamW for embeddings, norms and
    biases. An interrupted run goes on from its checkpoint; raises InputError if that is of another
    run.

    settings: steps, learning_rate, weight_decay, seed and cache_dir (train.Training)
    name: of the checkpoint; origin: {name: value} of what the run was begun with
    """

    def __init__(self, model, settings, texts, name, **origin):
        self.model, self.settings, self.texts = model, settings, texts
        self.path = Path(settings.cache_dir) / f"{name}.pt"
        self.origin = origin | (texts.origin or {})
        self.origin["parameters"] = sum(p.numel() for p in model.parameters())
        self.origin |= {"seed": settings.seed, "weight_decay": settings.weight_decay}
        matrices, rest = [], []
        for name, p in model.named_parameters():
            embedding = name.startswith(("wte", "wpe"))
            (matrices if p.ndim == 2 and not embedding else rest).append(p)
        dtype = torch.bfloat16 if HAS_BFLOAT16 else torch.float32
        highest = settings.learning_rate
        self.optimizers = [
            Muon(matrices, highest, dtype, weight_decay=settings.weight_decay),
            torch.optim.AdamW(rest, lr=highest, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.step = 0
        if self.path.exists():
            self.resume()

    def resume(self):
        saved = torch.load(self.path, weights_only=True)
        begun = saved["origin"]
        for name in self.origin | begun:
            before, now = begun.get(name), self.origin.get(name)
            if before != now:
                raise InputError(
                    f"{self.path}: is of a run with {name} {before!r}, not {now!r}; "
                    "give another --cache_dir, or delete it"
                )
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        self.step = saved["step"]

    def save(self, **origin):
        """Store the checkpoint. origin: what a run that goes on from it is begun with, where that
        has changed
        """
        self.origin |= origin
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "origin": self.origin,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part:
            torch.save(state, part)

    def learning_rate(self):
        """Of this step: the highest after a warm-up over 2 % of the run, and over its last 60 %
        down to zero, in a straight line.
        """
        steps = self.settings.steps
        warm_up = (self.step + 1) / (0.02 * steps)
        decay = (steps - self.step) / (0.6 * steps)
        return self.settings.learning_rate * min(1.0, warm_up, decay)

    def update(self, loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1

    def train(self, first, second, n_ctx):
        """Take the steps that are left, with one loss(model, batch, offset) in the first half of
        the run and another in the second.
        """
        steps, seed, name = self.settings.steps, self.settings.seed, self.path.stem
        bar = tqdm(total=steps, initial=self.step, desc=name, mininterval=5)
        while self.step < steps:
            torch.manual_seed(hash((seed, self.step)))  # of dropout
            loss = second if self.step >= steps // 2 else first
            found = loss(self.model, *self.texts.batch(self.step, steps, seed, n_ctx))
            self.update(found)
            bar.update()
            if self.step % EVERY == 0 or self.step == steps:
                self.save()
                valid, now = self.validation(loss), time.strftime("%H:%M:%S")
                bar.write(f"{name} step {self.step} train {found:.4f} valid {valid:.4f} {now}")
        bar.close()

    @torch.no_grad()
    def validation(self, loss, n_batches=8):
        """The mean loss on text that the run does not read."""
        self.model.eval()
        batches = (batch_at(self.texts.valid, i, 0, 16, 256) for i in range(n_batches))
        losses = [loss(self.model, batch, 0).item() for batch in batches]
        self.model.train()
        return sum(losses) / n_batches
