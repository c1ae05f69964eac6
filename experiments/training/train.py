"""Train the embedded pair: a byte-level BPE vocabulary, a 7M target, and a draft distilled from it.

    pip install -r experiments/training/requirements-train.txt
    python experiments/training/train.py tokenizer --corpus DIR        # about a minute
    python experiments/training/train.py target    --corpus DIR        # about 75 minutes on two cores
    python experiments/training/train.py draft     --corpus DIR        # about 25 minutes: distilled on books
    python experiments/training/train.py samples   --corpus DIR        # about 5 minutes: text the target writes
    python experiments/training/train.py on_policy --corpus DIR        # about 40 minutes: distilled on that text too

DIR holds `*_train.txt` and `*_valid.txt`: plain text, stories ended by a line `<|endoftext|>`. The
pair in models/ was trained on 78 public-domain books of Project Gutenberg, listed in
models/README.md. A run that is interrupted goes on from its last checkpoint when the same command
is given again; the batch of a step depends on (seed, step) alone, so a resumed run sees the same
data. `models/` is written only at the end of a run. The texts are turned into token ids once, kept
with the checkpoints in `--cache_dir`: another corpus needs another one.

Models are trained in bfloat16 autocast, with Muon (Jordan et al. 2024) for the weight matrices
inside the blocks and AdamW for the rest, both from torch. The draft learns the target's whole
distribution rather than the next token (DistillSpec, Zhou et al. 2023, arXiv 2310.08461): first
Kullback-Leibler on books, then total variation, because the acceptance rate at temperature 1 is
exactly 1 - TV(p, q) (Leviathan et al. 2023, corollary 3.6), and half of that on text the target
wrote itself, sampled and greedy, because that is the text on which drafts are judged.
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from torch import nn
except ImportError as missing:
    raise SystemExit(
        f"training needs {missing.name}: pip install -r experiments/training/requirements-train.txt"
    )

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import utils  # noqa: E402
from encoder import END_OF_TEXT  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call  # noqa: E402
from experiments.cli.validators import check_numbers  # noqa: E402
from experiments.data import corpus as corpora  # noqa: E402

N_VOCAB, N_CTX = 2048, 512
TARGET = dict(n_layer=8, n_embd=256, n_head=4)
DRAFT = dict(n_layer=2, n_embd=128, n_head=4)


# ---------------------------------------------------------------- text and tokens


def tokenizer(corpus="", models_dir=ROOT / "models"):
    """Learn a byte-level BPE of 2,048 tokens; ids are ordered as OpenAI orders them: bytes, merges,
    <|endoftext|>.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        corpora.documents(corpus, "train"),
        trainers.BpeTrainer(vocab_size=N_VOCAB - 1, initial_alphabet=alphabet),
    )
    merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
    symbols = sorted(alphabet) + ["".join(pair) for pair in merges] + [END_OF_TEXT]
    for size in ("7M", "0.7M"):
        folder = Path(models_dir) / size
        folder.mkdir(parents=True, exist_ok=True)
        vocabulary = {symbol: i for i, symbol in enumerate(symbols)}
        (folder / "vocab.json").write_text(
            json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8"
        )
        lines = "".join(f"{a} {b}\n" for a, b in merges)
        (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")


def read_token_ids(corpus, split, models_dir, cache_dir):
    """The whole split as one array of token ids, <|endoftext|> after every document. Raises
    InputError.
    """
    corpora.paths(corpus, split)  # refuses a folder without texts, even if they are not read again
    path = Path(cache_dir) / f"{split}.npy"
    if not path.exists():
        folder = Path(models_dir) / "7M"
        bpe = Tokenizer(
            models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
        )
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        documents = bpe.encode_batch(corpora.documents(corpus, split))
        ids = np.concatenate([document.ids + [N_VOCAB - 1] for document in documents]).astype(
            np.uint16
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, ids)
    return np.load(path)


def batch_at(ids, step, seed, batch_size, n_seq):
    """The batch of one step: [batch_size, n_seq + 1] ids from random places, a function of (seed,
    step) alone.
    """
    rng = np.random.default_rng([seed, step])
    starts = rng.integers(0, len(ids) - n_seq - 1, batch_size)
    return torch.from_numpy(np.stack([ids[s : s + n_seq + 1] for s in starts]).astype(np.int64))


# ---------------------------------------------------------------- the model, in torch


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn, self.attn_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.c_fc, self.mlp_proj = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def forward(self, x, mask):  # [batch, n_seq, n_embd] -> [batch, n_seq, n_embd]
        b, n, d = x.shape
        q, k, v = (
            t.view(b, n, self.n_head, -1).transpose(1, 2)
            for t in self.c_attn(self.ln_1(x)).split(d, -1)
        )
        # written out: at these shapes torch's fused attention is half as fast on a CPU
        scores = (q / math.sqrt(d // self.n_head) @ k.transpose(-1, -2)).masked_fill(
            mask, float("-inf")
        )
        heads = scores.softmax(-1).to(v.dtype) @ v
        x = x + self.attn_proj(heads.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, n_layer, n_embd, n_head):
        super().__init__()
        self.config = dict(
            n_layer=n_layer, n_embd=n_embd, n_head=n_head, n_ctx=N_CTX, vocab_size=N_VOCAB
        )
        self.wte, self.wpe = nn.Embedding(N_VOCAB, n_embd), nn.Embedding(N_CTX, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.register_buffer(
            "mask", torch.ones(N_CTX, N_CTX, dtype=torch.bool).triu(1), persistent=False
        )
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * n_layer) if "proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids, offset=0):  # [batch, n_seq] -> [batch, n_seq, n_vocab]
        n = ids.shape[1]
        with torch.autocast("cpu", torch.bfloat16):
            x = self.wte(ids) + self.wpe(torch.arange(n) + offset)
            for block in self.h:
                x = block(x, self.mask[:n, :n])
            return F.linear(self.ln_f(x), self.wte.weight).float()


def write_model(model, folder):
    """Store as Hugging Face stores GPT-2: float16, weights [n_in, n_out], tied head left out."""
    names = {
        "attn_proj": "attn.c_proj",
        "c_attn": "attn.c_attn",
        "c_fc": "mlp.c_fc",
        "mlp_proj": "mlp.c_proj",
    }
    tensors = {}
    for name, p in model.state_dict().items():
        parts = [names.get(part, part) for part in name.split(".")]
        transpose = p.ndim == 2 and parts[0] == "h"
        tensors[".".join(parts)] = (p.T if transpose else p).to(torch.float16).contiguous()
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
    }
    config |= {
        **model.config,
        "n_positions": N_CTX,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    }
    config |= {"bos_token_id": N_VOCAB - 1, "eos_token_id": N_VOCAB - 1, "torch_dtype": "float16"}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


# ---------------------------------------------------------------- training


class Run:
    """Optimisers, learning-rate schedule and checkpoints of one training run."""

    def __init__(self, model, path, steps, learning_rate):
        matrices = [
            p for name, p in model.named_parameters() if p.ndim == 2 and name.startswith("h.")
        ]
        rest = [
            p for name, p in model.named_parameters() if not (p.ndim == 2 and name.startswith("h."))
        ]
        self.optimizers = [
            torch.optim.Muon(
                matrices, lr=learning_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
            ),
            torch.optim.AdamW(rest, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.model, self.path, self.steps, self.learning_rate, self.first = (
            model,
            Path(path),
            steps,
            learning_rate,
            0,
        )
        if self.path.exists():
            saved = torch.load(self.path, weights_only=True)
            model.load_state_dict(saved["model"])
            for optimizer, state in zip(self.optimizers, saved["optimizers"]):
                optimizer.load_state_dict(state)
            self.first = saved["step"]

    def update(self, step, loss):
        """One optimiser step: warm-up over 2 % of the run, then linear to zero over its last 60 %."""
        scale = min(1.0, (step + 1) / (0.02 * self.steps), (self.steps - step) / (0.6 * self.steps))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * scale
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def save(self, step):
        state = {
            "model": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "step": step,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, self.path.with_suffix(".part"))
        self.path.with_suffix(".part").replace(self.path)


@torch.no_grad()
def validation_loss(model, ids, loss_of, n_batches=8):
    model.eval()
    losses = [loss_of(model, batch_at(ids, i, 0, 16, 256), 0).item() for i in range(n_batches)]
    model.train()
    return sum(losses) / n_batches


def train(
    model,
    name,
    corpus,
    models_dir,
    cache_dir,
    loss_at,
    steps,
    learning_rate,
    seed,
    stage="",
    written=None,
):
    """Run `steps` steps of 4,096 tokens; the last 30 % see the full context, the first 70 % windows
    half as long.

    written: [n, 257] ids of texts the target wrote, which every other step takes its batch from.
    """
    check_numbers(1, steps=steps)
    run = Run(model, Path(cache_dir) / f"{name}{stage}.pt", steps, learning_rate)
    ids, valid = (
        read_token_ids(corpus, split, models_dir, cache_dir) for split in ("train", "valid")
    )
    bar = tqdm(range(run.first, steps), initial=run.first, total=steps, desc=name, mininterval=5)
    for step in bar:
        n_seq = N_CTX // 2 if step < 0.7 * steps else N_CTX
        # half windows take turns at the two halves of the positions
        offset = step % 2 * (N_CTX - n_seq)
        batch = batch_at(ids, step, seed, 4096 // n_seq, n_seq)
        if written is not None and step % 2:
            rows = np.random.default_rng([seed, step]).integers(0, len(written), 16)
            batch, offset = torch.from_numpy(written[rows].astype(np.int64)), 0
        loss = loss_at(step)(model, batch, offset)
        run.update(step, loss)
        if (step + 1) % 200 == 0 or step + 1 == steps:
            run.save(step + 1)
            figure = validation_loss(model, valid, loss_at(step))
            bar.write(
                f"{name} step {step + 1} train {loss.item():.4f} valid {figure:.4f} {time.strftime('%H:%M:%S')}"
            )
    write_model(model, Path(models_dir) / name)


def samples(
    corpus="",
    models_dir=ROOT / "models",
    cache_dir=ROOT / "training",
    n_batches=80,
    batch_size=64,
    seed=3,
):
    """Let the target continue the first 32 tokens of training passages to 257: every third batch
    greedily, the rest at T=1.
    """
    check_numbers(1, n_batches=n_batches, batch_size=batch_size)
    model = utils.load_model(utils.find_folder("7M", models_dir), utils.get_backend())
    ids, written = read_token_ids(corpus, "train", models_dir, cache_dir), []
    for batch in tqdm(range(n_batches), desc="samples"):
        stream, place = seed + batch // 40, batch % 40  # the two halves were made by two processes
        rng, caches = (
            np.random.default_rng([stream, place]),
            [model.new_cache() for _ in range(batch_size)],
        )
        text = batch_at(ids, place, stream, batch_size, 31).numpy()
        while text.shape[1] < 257:
            logits = np.concatenate(model.read_batch(text.tolist(), caches, [1] * batch_size))
            # the argmax of logits + Gumbel noise is a sample
            noise = rng.gumbel(size=logits.shape) if place % 3 else 0
            text = np.concatenate([text, (logits + noise).argmax(axis=1)[:, None]], axis=1)
        written.append(text.astype(np.uint16))
    np.save(Path(cache_dir) / "samples.npy", np.concatenate(written))


def cross_entropy(model, batch, offset):
    return F.cross_entropy(model(batch[:, :-1], offset).flatten(0, 1), batch[:, 1:].flatten())


def target(
    corpus="",
    models_dir=ROOT / "models",
    cache_dir=ROOT / "training",
    steps=4000,
    learning_rate=3e-3,
    seed=1,
):
    """Train the target on text: cross entropy of the next token."""
    torch.manual_seed(seed)
    train(
        GPT2(**TARGET),
        "7M",
        corpus,
        models_dir,
        cache_dir,
        lambda step: cross_entropy,
        steps,
        learning_rate,
        seed,
    )


def distillation(cache_dir):
    """The two losses of a draft against the target's distribution q and p: (Kullback-Leibler, total
    variation).
    """
    teacher = GPT2(**TARGET).eval().requires_grad_(False)
    teacher.load_state_dict(torch.load(Path(cache_dir) / "7M.pt", weights_only=True)["model"])

    def kullback_leibler(model, batch, offset):
        p = teacher(batch[:, :-1], offset).log_softmax(-1)
        q = model(batch[:, :-1], offset).log_softmax(-1)
        return (p.exp() * (p - q)).sum(-1).mean()

    def total_variation(model, batch, offset):
        p = teacher(batch[:, :-1], offset).softmax(-1)
        q = model(batch[:, :-1], offset).softmax(-1)
        return (p - q).abs().sum(-1).mean() / 2

    return kullback_leibler, total_variation


def draft(
    corpus="",
    models_dir=ROOT / "models",
    cache_dir=ROOT / "training",
    steps=3000,
    learning_rate=4e-3,
    seed=2,
):
    """Distil the draft from the target on books: Kullback-Leibler over the first half of the run,
    then total variation.
    """
    torch.manual_seed(seed)
    losses = distillation(cache_dir)
    loss_at = lambda step: losses[step >= steps // 2]
    train(GPT2(**DRAFT), "0.7M", corpus, models_dir, cache_dir, loss_at, steps, learning_rate, seed)


def on_policy(
    corpus="",
    models_dir=ROOT / "models",
    cache_dir=ROOT / "training",
    steps=6400,
    learning_rate=3e-3,
    seed=5,
):
    """Distil it further by total variation, half on books and half on texts the target wrote
    itself.
    """
    torch.manual_seed(seed)
    model = GPT2(**DRAFT)
    model.load_state_dict(torch.load(Path(cache_dir) / "0.7M.pt", weights_only=True)["model"])
    written = np.load(Path(cache_dir) / "samples.npy")
    loss_at = lambda step, loss=distillation(cache_dir)[1]: loss
    where = (corpus, models_dir, cache_dir)
    train(model, "0.7M", *where, loss_at, steps, learning_rate, seed, "-on-policy", written)


def main(arguments):
    commands = {
        command.__name__: command for command in (tokenizer, target, draft, samples, on_policy)
    }
    name = arguments.pop(0) if arguments else ""
    if name not in commands:
        raise utils.InputError(f"command {name!r}: expected {', '.join(commands)}")
    call(commands[name], arguments)


if __name__ == "__main__":
    torch.set_num_threads(min(torch.get_num_threads(), 8))
    script(lambda: exit_code(lambda: main(sys.argv[1:])))
