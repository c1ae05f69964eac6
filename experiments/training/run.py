"""A training run: its batches, optimisers and learning rate, and the checkpoint it resumes from."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

from experiments.data.files import replacing
from experiments.training.tokens import batch_at
from experiments.training.torch_gpt2 import HAS_BFLOAT16
from utils import InputError

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of the iteration
ITERATIONS = 5
N_WRITTEN = 256  # tokens of a text that the target wrote, the last one apart


@dataclass(frozen=True)
class Texts:
    """What a run reads: token ids of books, and texts that the target wrote, or None.

    train, valid: [n_ids]; written: [n_texts, N_WRITTEN + 1], every other step takes its batch there
    tokens: of a step
    """

    train: np.ndarray
    valid: np.ndarray
    written: np.ndarray | None = None
    tokens: int = 4096

    def batch(self, step, steps, seed, n_ctx):
        """(ids of a step, the position of the first): half windows of the context in the first 70 %
        of a run, which take turns at the two halves of the positions, then whole ones.
        """
        if self.written is not None and step % 2:
            rng = np.random.default_rng([seed, step])
            rows = rng.integers(0, len(self.written), self.tokens // N_WRITTEN)
            return torch.from_numpy(self.written[rows].astype(np.int64)), 0
        n_seq = n_ctx // 2 if step < 0.7 * steps else n_ctx
        turn = step if self.written is None else step // 2
        offset = turn % 2 * (n_ctx - n_seq)
        return batch_at(self.train, step, seed, self.tokens // n_seq, n_seq), offset


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
        if "momentum_buffer" not in self.state[p]:
            self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        average = self.state[p]["momentum_buffer"]
        average.lerp_(p.grad, 1 - momentum)
        update = orthogonalized(p.grad.lerp(average, momentum), self.dtype)  # Nesterov's
        p.mul_(1 - lr * weight_decay)
        p.add_(update, alpha=-lr * 0.2 * max(p.shape) ** 0.5)


@dataclass(frozen=True)
class Schedule:
    """How many steps a run takes, how long they are, and what makes it repeatable.

    learning_rate: the highest, after a warm-up over 2 % of the run; over its last 60 % it falls
        linearly to zero
    origin: {name: value} of what a run was begun with, and must go on with
    weight_decay: of the weight matrices, relative to the learning rate
    """

    steps: int
    learning_rate: float
    seed: int
    origin: dict
    weight_decay: float = 0.05

    def learning_rate_at(self, step):
        warm_up = (step + 1) / (0.02 * self.steps)
        decay = (self.steps - step) / (0.6 * self.steps)
        return self.learning_rate * min(1.0, warm_up, decay)


def go_on_from(path, start):
    """Let the finished run of a checkpoint go on for more steps, now that it has replaced the model
    it was begun with. start: the fingerprint of its result
    """
    saved = torch.load(path, weights_only=True)
    saved["origin"]["start"] = start
    with replacing(path) as part:
        torch.save(saved, part)


class Run:
    """The optimisers of a run. An interrupted run goes on from `path`; raises InputError if that is
    the checkpoint of another run.

    Muon for the weight matrices, AdamW for embeddings, norms and biases.
    """

    def __init__(self, model, path, schedule):
        self.model, self.path, self.schedule = model, Path(path), schedule
        self.origin = schedule.origin | {
            "parameters": sum(p.numel() for p in model.parameters()),
            "seed": schedule.seed,
            "weight_decay": schedule.weight_decay,
        }
        matrices, rest = [], []
        for name, p in model.named_parameters():
            embedding = name.startswith(("wte", "wpe"))
            (matrices if p.ndim == 2 and not embedding else rest).append(p)
        dtype = torch.bfloat16 if HAS_BFLOAT16 else torch.float32
        highest = schedule.learning_rate
        self.optimizers = [
            Muon(matrices, highest, dtype, weight_decay=schedule.weight_decay),
            torch.optim.AdamW(rest, lr=highest, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.first = 0
        if self.path.exists():
            self.resume()

    def resume(self):
        saved = torch.load(self.path, weights_only=True)
        begun = saved.get("origin", {})
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
        self.first = saved["step"]

    def update(self, step, loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.schedule.learning_rate_at(step)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def save(self, step):
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": step,
            "origin": self.origin,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part:
            torch.save(state, part)


def cross_entropy(model, batch, offset):
    """Of the next token, in nats: what a target is trained for."""
    logits = model(batch[:, :-1], offset)
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def validation_loss(model, ids, loss, n_batches=8):
    model.eval()
    losses = [loss(model, batch_at(ids, i, 0, 16, 256), 0).item() for i in range(n_batches)]
    model.train()
    return sum(losses) / n_batches


def train(model, path, texts, loss_at, schedule, n_ctx):
    """Train a model.

    path: of the checkpoint; loss_at(step) -> loss(model, batch, offset), a scalar
    """
    run, steps, seed = Run(model, path, schedule), schedule.steps, schedule.seed
    name = run.path.stem
    bar = tqdm(total=steps, initial=run.first, desc=name, mininterval=5)
    for step in range(run.first, steps):
        torch.manual_seed(hash((seed, step)))  # of dropout
        loss = loss_at(step)(model, *texts.batch(step, steps, seed, n_ctx))
        run.update(step, loss)
        bar.update()
        if (step + 1) % 200 == 0 or step + 1 == steps:
            run.save(step + 1)
            figure = validation_loss(model, texts.valid, loss_at(step))
            now = time.strftime("%H:%M:%S")
            bar.write(f"{name} step {step + 1} train {loss.item():.4f} valid {figure:.4f} {now}")
    bar.close()
