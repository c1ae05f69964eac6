"""Make the models in models/: a vocabulary, targets, draft models distilled from them, and heads.

    pip install --group train      # pip 25.1 or newer
    python -m train.train COMMAND DIR

COMMAND is tokenizer, target, samples, draft or head; each has its own --help. DIR holds
`*_train.txt` and `*_valid.txt`: plain text, stories ended by a line `<|endoftext|>`.
models/README.md lists the commands that made each model, and the books it has read.

The same command resumes its run from the last checkpoint in the folder training/; --steps and
--learning_rate may be others then. The batch of a step depends on (seed, step) alone. At the end of
a run its result is written to models/, in place of an older one.
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load, Ctrl-C just ends the program

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import backends.before_numpy  # noqa: F401, isort: skip: before NumPy

import numpy as np
from tqdm import tqdm

from backends.backend import get_backend
from checkpoints.files import sha256_of
from checkpoints.folder import read_config, weights_files
from checkpoints.registry import MODELS_DIR
from checkpoints.tokenizer import fit_vocabulary, load_encoder
from cli.command import require_at_least, run_program
from cli.output import named
from cli.prompts import read_utf8
from decoding.batching import read_together
from decoding.streams import Purpose, stream
from encoder import END_OF_TEXT
from gpt2 import Config, Model
from train.grow import grow as grow_tensors
from utils import load_model, stored_weights

try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import save
    from tokenizers import ByteLevelBPETokenizer
    from torch import Tensor, nn
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Block
    from transformers.pytorch_utils import Conv1D
except ModuleNotFoundError as missing:
    how = "pip install --group train, with pip 25.1 or newer"
    print(f"error: training needs {missing.name}: {how}", file=sys.stderr)
    sys.exit(2)

N_VOCAB, N_CTX = 2048, 512
TARGET_SHAPE = (8, 256, 4)  # layers, width, heads of attention
EAGLE_WIDTH, EAGLE_HEADS = 256, 4  # of its block; heads of attention
MEDUSA_HEADS = 3  # one for each token of a draft
PROMPT_TOKENS, WRITTEN_TOKENS = 32, 256  # of a text that the target continues; of the whole text
SAMPLES_BATCH = 64  # texts that it continues together
MIN_TOKENS = {"train": N_CTX + 2, "valid": 258}  # the longest passage, and what must follow
STEPS_PER_CHECKPOINT = 200
MODELS = Path(MODELS_DIR)
CACHE = Path("training")  # where checkpoints and samples are kept
WEIGHT_DECAY = 0.05

Loss = Callable[[Any, Tensor, int], Tensor]  # (model, ids, offset) -> scalar


def write(path: Path, data: bytes) -> None:
    """Put a file in the place of an older one, whole. A missing folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        with named(path):
            part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Let what goes wrong when a file of a run is read name the file."""
    try:
        yield
    except Exception as error:
        problem = f"cannot be read, {type(error).__name__}; delete it, and it is made again"
        raise ValueError(f"{path}: {problem}") from error


@contextmanager
def memory_named() -> Iterator[None]:
    """Raise MemoryError, with what to do, where torch cannot allocate a tensor of some size."""
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if not re.search("allocate memory|out of memory|[Oo]verflow", str(error)):
            raise
        problem = "not enough memory for this model; make it smaller, or lower --tokens_per_step"
        raise MemoryError(problem) from error


# ---------------------------------------------------------------- texts


def read_documents(corpus: str, split: str) -> list[str]:
    """Read all documents of a split, "train" or "valid", always in the same order."""
    paths = sorted(Path(corpus).glob(f"*_{split}.txt"))
    if not paths:
        raise ValueError(f"no *_{split}.txt in {corpus!r}: expected a folder of texts")
    text = f"\n{END_OF_TEXT}\n".join(map(read_utf8, paths))
    return [document.strip("\n") for document in text.split(END_OF_TEXT) if document.strip()]


def encode_split(corpus: str, split: str, folder: Path) -> np.ndarray:  # -> [n_ids]
    """Read a whole split with the vocabulary of a model's folder; <|endoftext|> ends a document."""
    encoder = load_encoder(folder)
    ids = []
    for document in read_documents(corpus, split):
        ids += [*encoder.encode(document), encoder.end_of_text]
    if len(ids) < MIN_TOKENS[split]:
        expected = f"expected at least {MIN_TOKENS[split]}"
        raise ValueError(f"{corpus!r}: {len(ids)} {split} tokens; {expected}")
    return np.array(ids, dtype=np.uint16)


def random_passages(
    ids: np.ndarray, purpose: Purpose, seed: int, batch: int, n_rows: int, n_seq: int
) -> Tensor:  # [n_ids] -> [n_rows, n_seq + 1]
    """Cut passages out of ids at random places, which the three numbers decide."""
    rng = np.random.default_rng(stream(purpose, seed, batch))
    # never the last possible passage: to include it would change the batches of every run
    starts = rng.integers(0, len(ids) - n_seq - 1, n_rows)
    return torch.from_numpy(np.stack([ids[i : i + n_seq + 1] for i in starts]).astype(np.int64))


def continue_passages(
    model: Model, ids: np.ndarray, seed: int, batch: int, n_texts: int
) -> np.ndarray:  # [n_ids] -> [n_texts, WRITTEN_TOKENS + 1]
    """Let a target continue passages of books: greedily in every third batch, else sampled at
    temperature 1. The texts begin with the passages.
    """
    rng = np.random.default_rng(stream(Purpose.CONTINUATIONS, seed, batch))
    n_seq = PROMPT_TOKENS - 1  # random_passages returns one more
    text = random_passages(ids, Purpose.BEGINNINGS, seed, batch, n_texts, n_seq).numpy()
    caches = [model.new_cache() for _ in text]
    while text.shape[1] < WRITTEN_TOKENS + 1:
        logits = np.concatenate(read_together(model, text.tolist(), caches, [1] * n_texts))
        if batch % 3:  # the argmax of logits + Gumbel noise is a sample
            logits = logits + rng.gumbel(size=logits.shape)
        text = np.concatenate([text, logits.argmax(axis=1)[:, None]], axis=1)
    return text.astype(np.uint16)


def version_of(folder: Path) -> str:
    """Tell the weights in a folder from others of that name, by the first digits of a hash."""
    return sha256_of(weights_files(folder))[:8]


def version_of_ids(*arrays: np.ndarray | None) -> str:
    """Tell token ids from others, by the first digits of a hash; None is passed over."""
    parts = [array.tobytes() for array in arrays if array is not None]
    return sha256(b"".join(parts)).hexdigest()[:8]


def samples_path(folder: Path) -> Path:
    """Return where the texts lie that the target in a folder wrote."""
    return CACHE / f"samples-{folder.name}-{version_of(folder)}.npy"


def write_array(array: np.ndarray, path: Path) -> None:
    """Write an array to a .npy file."""
    file = BytesIO()
    np.save(file, array)
    write(path, file.getvalue())


def read_array(path: Path) -> np.ndarray:
    """Read an array from a .npy file."""
    with damage_named(path):
        return np.load(path)


@dataclass(frozen=True)
class Texts:
    """What a run reads: ids of books, and texts that the target wrote, for every other step."""

    train: np.ndarray  # [n_ids]
    valid: np.ndarray  # [n_ids]
    written: np.ndarray | None  # [n_texts, WRITTEN_TOKENS + 1]
    tokens_per_step: int

    def batch(self, step: int, n_steps: int, seed: int, n_ctx: int) -> tuple[Tensor, int]:
        """Return what a step trains on: (ids [n_rows, n_seq + 1], the position of the first).

        Odd steps read what the target wrote, if there is any. Other steps read passages of books:
        in the first 70 % of the steps half as long as the context, in its first or its second half
        by turns; after that a passage fills the context.
        """
        if self.written is not None and step % 2:
            rng = np.random.default_rng(stream(Purpose.WRITTEN, seed, step))
            rows = rng.integers(0, len(self.written), self.tokens_per_step // WRITTEN_TOKENS)
            return torch.from_numpy(self.written[rows].astype(np.int64)), 0
        n_seq, offset = n_ctx, 0
        if step < 0.7 * n_steps:
            n_seq = n_ctx // 2
            book_step = step if self.written is None else step // 2
            offset = n_seq * (book_step % 2)
        n_rows = self.tokens_per_step // n_seq
        return random_passages(self.train, Purpose.PASSAGES, seed, step, n_rows, n_seq), offset


def read_texts(corpus: str, folder: Path, written: bool, tokens_per_step: int = 4096) -> Texts:
    """Read the corpus with the vocabulary of the target in a folder; if `written`, also what this
    target wrote.
    """
    splits = (encode_split(corpus, split, folder) for split in ("train", "valid"))
    if not written:
        return Texts(*splits, None, tokens_per_step)
    path = samples_path(folder)
    if not path.is_file():
        raise ValueError(f"{path}: is missing; make it with the command samples")
    return Texts(*splits, read_array(path), tokens_per_step)


# ---------------------------------------------------------------- models
#
# They are made of transformers' parts, so their parameters have the names and shapes of the files.


def transformers_config(config: Config) -> GPT2Config:
    return GPT2Config(
        vocab_size=config.n_vocab,
        n_positions=config.n_ctx,
        n_embd=config.n_embd,
        n_head=config.n_head,
        n_layer=config.n_layer,
        layer_norm_epsilon=config.epsilon,
        activation_function="gelu" if config.exact_gelu else "gelu_new",
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=config.n_vocab - 1,
        eos_token_id=config.n_vocab - 1,
        architectures=["GPT2LMHeadModel"],
        dtype="float16",  # on disk
        attn_implementation="eager",  # at these shapes a fused attention is slower on a CPU
    )


Logits = Iterator[tuple[int, Tensor]]  # (i, logits of token i of drafts)


class GPT2(GPT2LMHeadModel):
    """A target or a draft model. Without tensors, {name as stored: array}, weights are random."""

    def __init__(self, config: Config, tensors: dict[str, np.ndarray] | None = None):
        super().__init__(transformers_config(config))
        if tensors:
            state = {name: torch.from_numpy(array) for name, array in tensors.items()}
            self.transformer.load_state_dict(state)

    def embed(self, ids: Tensor, offset: int) -> Tensor:  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """Return the sums of token and position embeddings; offset: the position of the first."""
        positions = torch.arange(offset, offset + ids.shape[1])
        return self.transformer.wte(ids) + self.transformer.wpe(positions)

    def hidden(
        self, ids: Tensor, offset: int = 0
    ) -> Tensor:  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """Return the output of the last block after the final norm."""
        positions = torch.arange(offset, offset + ids.shape[1])[None]
        output = self.transformer(ids, position_ids=positions, use_cache=False)
        return output.last_hidden_state

    def logits(
        self, hidden: Tensor
    ) -> Tensor:  # [..., n_embd] -> [..., n_vocab], float32 in mixed precision, too
        return self.lm_head(hidden).float()

    def draft_logits(self, ids: Tensor, offset: int, hidden: Tensor, teacher: "GPT2") -> Logits:
        """Yield (0, logits [batch, n_seq, n_vocab]): of the next token at every position. The heads
        below, which are called in the same way, need the target's hidden states and the target.
        """
        yield 0, self.logits(self.hidden(ids, offset))


class Eagle(nn.Module):
    """One block that guesses the target's next hidden state from the hidden state before and a
    token.

    When it drafts, it reads its own guesses, so it is trained on these as well: on a whole text at
    once, as if a draft began at every position. The i-th token of a draft attends to the text
    before the draft, with the target's hidden states, and then to the draft's own tokens.

    n_draft_tokens: tokens of a draft in training; in use there may be more
    """

    def __init__(self, target: Config, n_embd: int, n_head: int, n_draft_tokens: int = 4):
        super().__init__()
        self.n_head, self.n_draft_tokens = n_head, n_draft_tokens
        block = replace(target, n_embd=n_embd, n_head=n_head, n_layer=1)
        self.fc, self.proj = Conv1D(n_embd, 2 * target.n_embd), Conv1D(target.n_embd, n_embd)
        self.h = nn.ModuleList([GPT2Block(transformers_config(block))])

    def draft_logits(self, ids: Tensor, offset: int, hidden: Tensor, teacher: "GPT2") -> Logits:
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 0, 1, ...: what the head predicts
        for token i of drafts that begin at every position. Row j is to be like the target's logits
        at position i + j.

        ids, hidden: [batch, n_seq], [batch, n_seq, n_hidden], a text and the target's hidden states
        offset: the position of the first token; teacher: the target, whose embeddings, final norm
        and output head are used
        """
        norm = teacher.transformer.ln_f
        embedded = teacher.embed(ids, offset)
        # the state before the first token: in use the cache holds 0 there, and Eagle.embed norms it
        nothing = norm(torch.zeros_like(hidden[:, :1]))
        keys, values = [], []  # guess_hidden appends those of each token of the draft
        for i in range(self.n_draft_tokens):
            hidden_before = torch.cat([nothing, hidden[:, :-1]], 1)
            hidden = norm(self.guess_hidden(hidden_before, embedded, keys, values))
            # what is guessed at the first i places belongs to drafts that began before the text
            yield i, teacher.logits(hidden[:, i:])

    def guess_hidden(
        self, hidden_before, embedded, keys: list[Tensor], values: list[Tensor]
    ):  # -> [batch, n_seq, n_hidden]
        """Return a guess of the hidden state at every position, before the norm.

        hidden_before, embedded: [batch, n_seq, n_hidden], at the position before, and of the tokens
        keys, values: of the earlier tokens of the drafts, which get those of this one appended
        """
        block = self.h[0]
        x = self.fc(torch.cat([hidden_before, embedded], -1))
        qkv = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
        # [batch, n_seq, n_embd] -> [batch, n_head, n_seq, d_head]
        q, k, v = (part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in qkv)
        keys.append(k)
        values.append(v)
        heads = self.attend(q, keys, values)
        x = x + block.attn.c_proj(heads.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.ln_2(x))
        return self.proj(x)

    def attend(
        self, q, keys: list[Tensor], values: list[Tensor]
    ):  # [batch, n_head, n_seq, d_head] -> the same
        """Let every position attend to the text before its draft, and to the draft's tokens."""
        n_seq = q.shape[-2]
        n_before = len(keys) - 1  # tokens of the draft before this one
        ones = torch.ones(n_seq, n_seq, dtype=torch.bool)
        # Row i of the mask is for the token at position i. keys[0]: the text, up to where its draft
        # began; keys[1], keys[2], ...: one token of the draft each, n_back positions before
        masks = [ones.tril(-n_before)]
        masks += [ones.tril(-n_back).triu(-n_back) for n_back in reversed(range(n_before))]
        mask = torch.cat(masks, -1)  # [n_seq, (n_before + 1) n_seq]
        return F.scaled_dot_product_attention(q, torch.cat(keys, 2), torch.cat(values, 2), mask)


class Medusa(nn.Module):
    """A head for each token of a draft, a residual block on the target's hidden state."""

    def __init__(self, target: Config, n_heads: int):
        super().__init__()
        heads = [GPT2MLP(target.n_embd, transformers_config(target)) for _ in range(n_heads)]
        for head in heads:  # at first every head gives the target's own logits
            nn.init.zeros_(head.c_proj.weight)
        self.heads = nn.ModuleList(heads)

    def draft_logits(self, ids: Tensor, offset: int, hidden: Tensor, teacher: "GPT2") -> Logits:
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 1, 2, ...: what head i predicts
        from the hidden state at every position, as Eagle.draft_logits does.
        """
        for i, head in enumerate(self.heads, 1):
            hidden_before = hidden[:, :-i].contiguous()  # Conv1D views it as a matrix
            yield i, teacher.logits(hidden_before + head(hidden_before))


def read_model(folder: Path) -> tuple[Config, dict[str, np.ndarray]]:
    """Read (shape, {name as stored: parameters in float32}) of a model's folder. Raises ValueError
    if its context is shorter than the passages of training.
    """
    config = fit_vocabulary(folder, read_config(folder), load_encoder(folder))
    if config.n_ctx < N_CTX:
        raise ValueError(f"{folder}: a context of {config.n_ctx} tokens, expected {N_CTX} or more")
    read = stored_weights(folder, config)
    return config, {name: read(name) for name in config.shapes()}


def new_model(folder: Path, n_layer: int, n_embd: int, n_head: int, seed: int) -> GPT2:
    """Make a GPT2 with random weights and the vocabulary size of a model's folder."""
    if n_embd % n_head:
        raise ValueError(f"--n_embd {n_embd}: expected a multiple of --n_head {n_head}")
    seed_weights(seed)
    return GPT2(Config(load_encoder(folder).n_vocab, N_CTX, n_embd, n_head, n_layer))


def read_layers(text: str, config: Config) -> list[int]:
    """Read indices of layers such as "0,2". Raises ValueError if the model has no such layer."""
    if not re.fullmatch(r"(\d+(,\d+)*)?", text):
        raise ValueError(f"--grow {text!r}: expected layers such as 0,2")
    layers = [int(layer) for layer in text.split(",") if layer]
    if unknown := [layer for layer in layers if not 0 <= layer < config.n_layer]:
        raise ValueError(f"layer {unknown[0]}: expected 0 to {config.n_layer - 1}")
    return layers


def seed_weights(seed: int) -> None:
    """Seed torch's global generator, which draws the weights of models made from now on."""
    torch.manual_seed(int(stream(Purpose.WEIGHTS, seed).generate_state(1)[0]))


def write_tensors(module: nn.Module, path: Path, **notes: str) -> None:
    """Write the parameters of a module to a safetensors file in float16, in place of an older one.

    notes: for the file's metadata
    """
    halves = {name: tensor.half() for name, tensor in module.state_dict().items()}
    write(path, save(halves, metadata={"format": "pt"} | notes))


def write_model(model: GPT2, folder: Path, source: Path) -> None:
    """Write a model into a folder, which is made, as Hugging Face stores GPT-2, with the vocabulary
    of another folder. The output head is not written, because it is the token embedding.
    """
    write_tensors(model.transformer, folder / "model.safetensors")
    if source != folder:
        for name in ("vocab.json", "merges.txt"):
            write(folder / name, (source / name).read_bytes())
    write(folder / "config.json", model.config.to_json_string().encode())


# ---------------------------------------------------------------- losses


def cross_entropy(model: GPT2, ids: Tensor, offset: int) -> Tensor:
    """Return the mean cross-entropy of the next token in nats, of ids [batch, n_seq + 1]."""
    logits = model.logits(model.hidden(ids[:, :-1], offset))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def kullback_leibler(p, q):  # 2 x [..., n_vocab], logits -> scalar, the mean over positions
    p, q = p.log_softmax(-1), q.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()


def total_variation(p, q):  # 2 x [..., n_vocab], logits -> scalar, the mean over positions
    return (p.softmax(-1) - q.softmax(-1)).abs().sum(-1).mean() / 2


def distillation_loss(
    teacher: GPT2, distance: Callable, draft: Any, ids: Tensor, offset: int
) -> Tensor:
    """Return the distance of a draft's distributions from the teacher's, for each token of a draft
    the mean over positions, added up. A GPT2 drafts one token here, a head several.
    """
    with torch.no_grad():
        hidden = teacher.hidden(ids[:, :-1], offset)  # the last ids are for cross_entropy only
        p = teacher.logits(hidden)
    logits = draft.draft_logits(ids[:, :-1], offset, hidden, teacher)
    # token i of a draft: its row j is for the target's position i + j
    return sum(distance(p[:, i:], q) for i, q in logits)


def distillation_losses(teacher: GPT2) -> tuple[Loss, Loss]:
    """Return the losses of the two halves of a run that distils a teacher (DistillSpec, Zhou et al.
    2023, arXiv 2310.08461): first Kullback-Leibler, whose gradients are large while the draft knows
    nothing, then total variation, because acceptance at temperature 1 is exactly 1 - TV(p, q)
    (Leviathan et al. 2023, corollary 3.6).
    """
    teacher.eval().requires_grad_(False)
    loss_of = partial(distillation_loss, teacher)
    return partial(loss_of, kullback_leibler), partial(loss_of, total_variation)


# ---------------------------------------------------------------- a run


def orthogonalize(matrix):  # [n, m] -> [n, m]
    """Bring all singular values of a matrix near 1, by Newton-Schulz iteration."""
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
        (group,) = self.param_groups  # torch keeps a list; all matrices are in one group
        for p in group["params"]:
            average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - group["momentum"])
            update = orthogonalize(p.grad.lerp(average, group["momentum"]))  # Nesterov's
            p.mul_(1 - group["lr"] * group["weight_decay"])
            # AdamW's updates have a root mean square of about 0.2, an orthogonal matrix one of 1
            # over the square root of its longer side (Liu et al. 2025, arXiv 2502.16982)
            p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def new_optimizers(model: nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Make [Muon, AdamW]: the one moves the matrices, the other embeddings, norms and biases."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, p in model.named_parameters():
        is_embedding = name.endswith(("wte.weight", "wpe.weight"))
        (matrices if p.ndim == 2 and not is_embedding else others).append(p)
    adamw = torch.optim.AdamW(others, learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon(matrices, learning_rate, WEIGHT_DECAY), adamw]


def mixed_precision() -> torch.autocast:
    """Return a context in which matrix products are in bfloat16 if the CPU has instructions for it.
    Without them, bfloat16 is several times slower than float32.
    """
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu._is_avx512_bf16_supported())


def rate_at(step: int, steps: int, learning_rate: float) -> float:
    """Return the learning rate of a step. It rises over the first 2 % of the run, and falls to zero
    over its last 60 %.
    """
    return learning_rate * min(1.0, (step + 1) / (0.02 * steps), (steps - step) / (0.6 * steps))


def train(
    name: str,
    model: nn.Module,
    losses: tuple[Loss, Loss],
    texts: Texts,
    n_ctx: int,
    steps: int,
    learning_rate: float,
    seed: int,
    *identity: Any,
) -> None:
    """Take the remaining steps of a run. Every STEPS_PER_CHECKPOINT steps and at the end, write the
    checkpoint and print the losses.

    losses: of the two halves; n_ctx: of the target. identity: what names the checkpoint, besides
    name, seed and texts; with other values it is another run
    """
    require_at_least(1, steps=steps)
    require_name(name)
    if not 0 < learning_rate < 1:
        raise ValueError(f"--learning_rate {learning_rate}: expected more than 0, less than 1")
    optimizers, step = new_optimizers(model, learning_rate), 0
    resumed: list[Any] = [model, *optimizers]  # what a checkpoint holds the states of
    identity += (version_of_ids(texts.train, texts.valid, texts.written),)
    checkpoint = CACHE / f"{'-'.join(map(str, [name, seed, *identity]))}.pt"
    if checkpoint.exists():
        with damage_named(checkpoint):
            saved = torch.load(checkpoint, weights_only=True)
            step = saved["step"]
            for one, state in zip(resumed, saved["states"], strict=True):
                one.load_state_dict(state)
    bar = tqdm(total=steps, initial=step, desc=name, mininterval=5)
    while step < steps:
        loss_of = losses[step >= steps // 2]
        ids, offset = texts.batch(step, steps, seed, n_ctx)
        with mixed_precision():
            loss = loss_of(model, ids, offset)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, steps, learning_rate)
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        bar.update()
        if step % STEPS_PER_CHECKPOINT == 0 or step == steps:
            states = [one.state_dict() for one in resumed]
            file = BytesIO()
            torch.save({"step": step, "states": states}, file)
            write(checkpoint, file.getvalue())
            valid = validate(model, loss_of, texts)
            bar.write(f"{name} step {step} train {loss:.4f} valid {valid:.4f}")
    bar.close()


def require_name(name: str) -> None:
    """Raise ValueError for what is no name of a folder in models/."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"a model named {name!r}: expected letters, digits, -, _ and .")


@torch.no_grad()
def validate(model: nn.Module, loss_of: Loss, texts: Texts, n_batches: int = 8) -> float:
    """Return the mean loss on passages that no run trains on."""
    model.eval()
    losses = []
    for i in range(n_batches):
        ids = random_passages(texts.valid, Purpose.VALIDATION, 0, i, n_rows=16, n_seq=256)
        with mixed_precision():
            losses.append(loss_of(model, ids, 0).item())
    model.train()
    return sum(losses) / n_batches


# ---------------------------------------------------------------- commands


def tokenizer(corpus: str, *, target_model_size: str = "7M") -> None:
    """Learn the vocabulary of all models, a byte-level BPE of 2,048 tokens, or as many as the text
    is enough for. Other commands, each with its own --help: target, samples, draft, head.

    CORPUS is the folder of *_train.txt and *_valid.txt.

    Flags:
        target_model_size: the folder in models/ that it is written to
    """
    require_name(target_model_size)
    learner = ByteLevelBPETokenizer()
    n_learned = N_VOCAB - 1  # bytes, then merges; the last id is for <|endoftext|>
    learner.train_from_iterator(read_documents(corpus, "train"), n_learned, min_frequency=0)
    learned = json.loads(learner.to_str())["model"]
    vocabulary = sorted(learned["vocab"], key=learned["vocab"].get) + [END_OF_TEXT]
    if len(vocabulary) < N_VOCAB:
        warnings.warn(f"{corpus}: is enough for {len(vocabulary)} tokens, not {N_VOCAB}")
    ids = {token: i for i, token in enumerate(vocabulary)}
    merges = ["#version: 0.2", *map(" ".join, learned["merges"]), ""]
    folder = MODELS / target_model_size
    write(folder / "vocab.json", json.dumps(ids, ensure_ascii=False).encode())
    write(folder / "merges.txt", "\n".join(merges).encode())


def target(
    corpus: str,
    *,
    target_model_size: str = "7M",
    start: str = "",
    grow: str = "",
    steps: int = 4000,
    learning_rate: float = 3e-3,
    seed: int = 1,
) -> None:
    """Train a target for the next token of the corpus.

    CORPUS is the folder of *_train.txt and *_valid.txt.

    Flags:
        target_model_size: the folder in models/ that it is written to; without --start, it must
            hold a vocabulary
        start: a model to start from; without it, 8 layers of width 256 with random weights
        grow: layers of --start to keep, at twice its width: 0,1,2,4,7 for example
        steps: how many steps, of 4,096 tokens each
        learning_rate: the highest of the run
        seed: of weights and batches
    """
    folder = MODELS / target_model_size
    source = MODELS / (start or target_model_size)  # of the vocabulary, at least
    if grow and not start:
        raise ValueError(f"--grow {grow}: expected --start with it, the model that grows")
    if start:
        config, tensors = read_model(source)
        if layers := read_layers(grow, config):
            rng = np.random.default_rng(stream(Purpose.WEIGHTS, seed))
            tensors = grow_tensors(tensors, layers, rng, noise=0.02)
            width, n_head = 2 * config.n_embd, 2 * config.n_head
            config = replace(config, n_embd=width, n_head=n_head, n_layer=len(layers))
        model = GPT2(config, tensors)
    else:
        model = new_model(source, *TARGET_SHAPE, seed)
    texts, losses = read_texts(corpus, source, written=False), (cross_entropy, cross_entropy)
    train(
        target_model_size, model, losses, texts, model.config.n_positions, steps, learning_rate,
        seed, start, grow,
    )  # fmt: skip
    write_model(model, folder, source)


def draft(
    corpus: str,
    *,
    target_model_size: str = "7M",
    draft_model_size: str = "0.7M",
    start: str = "",
    n_layer: int = 2,
    n_embd: int = 128,
    n_head: int = 4,
    written: bool = False,
    steps: int = 3000,
    tokens_per_step: int = 4096,
    learning_rate: float = 4e-3,
    seed: int = 1,
) -> None:
    """Distil a draft model from a target by total variation, 1 - its acceptance rate. If it begins
    with random weights, the first half of the run is by Kullback-Leibler divergence.

    CORPUS is the folder of *_train.txt and *_valid.txt.

    Flags:
        target_model_size: the model to learn from
        draft_model_size: the folder in models/ that it is written to
        start: a draft model to start from; without it, the weights are random
        n_layer: layers of a model with random weights
        n_embd: its width
        n_head: its heads of attention
        written: half of the text is what the target wrote (the command samples)
        steps: how many steps
        tokens_per_step: how many tokens each of them reads, at most: passages are whole
        learning_rate: the highest of the run
        seed: of weights and batches
    """
    require_at_least(1, n_layer=n_layer, n_head=n_head)
    require_at_least(2, n_embd=n_embd)  # one column makes no matrix
    require_at_least(N_CTX, tokens_per_step=tokens_per_step)
    if draft_model_size == target_model_size:
        raise ValueError(f"--draft_model_size {draft_model_size}: is the target; give another name")
    source = MODELS / target_model_size
    teacher = GPT2(*read_model(source))
    losses = distillation_losses(teacher)
    if start:
        if load_encoder(MODELS / start) != load_encoder(source):
            raise ValueError(f"--start {start}: expected the vocabulary of {target_model_size}")
        model = GPT2(*read_model(MODELS / start))
        losses = losses[1], losses[1]  # it knows enough for total variation
    else:
        model = new_model(source, n_layer, n_embd, n_head, seed)
    texts = read_texts(corpus, source, written, tokens_per_step)
    train(
        draft_model_size, model, losses, texts, model.config.n_positions, steps, learning_rate,
        seed, target_model_size, version_of(source), start, written, tokens_per_step, n_layer,
        n_embd, n_head,
    )  # fmt: skip
    write_model(model, MODELS / draft_model_size, source)


def samples(
    corpus: str,
    *,
    target_model_size: str = "7M",
    n_batches: int = 80,
    seed: int = 1,
) -> None:
    """Let a target continue passages of the corpus, for drafts to learn from.

    CORPUS is the folder of *_train.txt and *_valid.txt.

    Flags:
        target_model_size: the target
        n_batches: how many batches of 64 texts; every third is greedy, the others are sampled
        seed: of the passages and samples
    """
    require_at_least(1, n_batches=n_batches)
    folder = MODELS / target_model_size
    path = samples_path(folder)
    model, ids = load_model(folder, get_backend()), encode_split(corpus, "train", folder)
    batches = []
    for i in tqdm(range(n_batches), desc="samples"):
        of_batch = path.with_name(f"{path.stem}-{version_of_ids(ids)}-{seed}-{i}.npy")
        if not of_batch.is_file():
            written = continue_passages(model, ids, seed, i, SAMPLES_BATCH)
            write_array(written, of_batch)
        batches.append(read_array(of_batch))
    write_array(np.concatenate(batches), path)


def head(
    corpus: str,
    *,
    kind: Literal["eagle", "medusa"] = "eagle",
    target_model_size: str = "7M",
    steps: int = 1000,
    seed: int = 1,
) -> None:
    """Train EAGLE's head or Medusa's for a target, and write it into the target's folder. Half of
    the text is what the command samples wrote.

    CORPUS is the folder of *_train.txt and *_valid.txt.

    Flags:
        kind: eagle, with steps of 4,096 tokens, or medusa, with steps of 1,024
        target_model_size: the target
        steps: how many steps
        seed: of weights and batches
    """
    folder = MODELS / target_model_size
    (config, tensors), notes = read_model(folder), {"target": sha256_of(weights_files(folder))}
    seed_weights(seed)
    module: nn.Module
    if kind == "eagle":
        module, learning_rate, tokens_per_step = Eagle(config, EAGLE_WIDTH, EAGLE_HEADS), 3e-3, 4096
        notes["n_head"] = str(EAGLE_HEADS)  # which no shape of a tensor tells
    else:
        # small steps: heads that begin as copies of the target's own need many, not large ones
        module, learning_rate, tokens_per_step = Medusa(config, MEDUSA_HEADS), 1e-2, 1024
    losses = distillation_losses(GPT2(config, tensors))
    texts, name = read_texts(corpus, folder, True, tokens_per_step), f"{kind}-{target_model_size}"
    version = version_of(folder)
    train(name, module, losses, texts, config.n_ctx, steps, learning_rate, seed, version)
    write_tensors(module, folder / f"{kind}.safetensors", **notes)


if __name__ == "__main__":
    commands = [tokenizer, target, samples, draft, head]
    run_program({command.__name__: memory_named()(command) for command in commands})
