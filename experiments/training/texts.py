"""What is read in training: a corpus cut into tokens, and texts that the target wrote.

Half of a draft's training text may be the target's own, sampled and greedy, because that is the
text on which drafts are judged.
"""

import json
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer

from checkpoints.files import first_of
from checkpoints.folder import PARTS
from cli.files import replacing
from decoding.batching import read_together
from decoding.head_files import fingerprint
from encoder import END_OF_TEXT
from experiments.corpus import documents
from utils import InputError, load_encoder

N_VOCAB = 2048
N_PROMPT = 32  # tokens of a book that the target continues
N_WRITTEN = 256  # tokens of a text that the target wrote, the last one apart
# tokens of a split: the longest window read of it, the one after it, a choice of where to begin
LEAST = {"train": 514, "valid": 258}

# ---------------------------------------------------------------- the vocabulary


def learn_vocabulary(texts, folder):
    """Store a byte-level BPE. Ids are in OpenAI's order: bytes, merges, the end."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, N_VOCAB - 1, min_frequency=0)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder))
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    vocabulary[END_OF_TEXT] = len(vocabulary)
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")


def copy_vocabulary(source, folder):
    """A model has the vocabulary of the one it comes from beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    _, vocabulary, merges, _ = PARTS
    for names in (vocabulary, merges):
        shutil.copy(first_of(source, *names), folder)


# ---------------------------------------------------------------- books


def token_ids(corpus, split, folder):
    """A whole split as one array of token ids, <|endoftext|> after every document.

    folder: of a model whose vocabulary it is
    """
    encoder = load_encoder(folder)
    ids = []
    end = [] if encoder.end_of_text is None else [encoder.end_of_text]
    for document in documents(corpus, split):
        ids += encoder.encode(document) + end
    if len(ids) < LEAST[split]:
        problem = f"{len(ids)} {split} tokens; expected at least {LEAST[split]}"
        raise InputError(f"{corpus!r}: {problem}")
    return np.array(ids, dtype=np.uint16)


def batch_at(ids, step, seed, batch_size, n_seq):
    """[batch_size, n_seq + 1] ids from random places: a function of (seed, step) alone."""
    rng = np.random.default_rng([seed, step])
    starts = rng.integers(0, len(ids) - n_seq - 1, batch_size)
    return torch.from_numpy(np.stack([ids[s : s + n_seq + 1] for s in starts]).astype(np.int64))


# ---------------------------------------------------------------- what the target wrote


def samples_path(places, folder):
    """The file of the texts that the target in a folder wrote, with the weights it has now."""
    return Path(places.cache_dir) / f"samples-{folder.name}-{fingerprint(folder)[:12]}.npy"


def save_array(array, path):
    """Store an array, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def written_batch(model, ids, seed, batch, batch_size):
    """Continuations of passages from books, a function of its arguments alone: [batch_size,
    N_WRITTEN + 1] ids.

    model: a gpt2.Model. Every third batch is greedy, the rest is sampled at temperature 1.
    """
    rng = np.random.default_rng([seed, batch])
    text = batch_at(ids, batch, seed, batch_size, N_PROMPT - 1).numpy()
    caches = [model.new_cache() for _ in text]
    while text.shape[1] < N_WRITTEN + 1:
        logits = np.concatenate(read_together(model, text.tolist(), caches, [1] * batch_size))
        if batch % 3:  # the argmax of logits + Gumbel noise is a sample
            logits = logits + rng.gumbel(size=logits.shape)
        text = np.concatenate([text, logits.argmax(axis=1)[:, None]], axis=1)
    return text.astype(np.uint16)


# ---------------------------------------------------------------- batches


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

    @classmethod
    def read(cls, places, folder, written=False, tokens=4096):
        """Those of a corpus, and if asked for those that the target in the folder wrote.

        folder: of the vocabulary
        """
        train, valid = (token_ids(places.corpus, split, folder) for split in ("train", "valid"))
        if not written:
            return cls(train, valid, tokens=tokens)
        path = samples_path(places, folder)
        if not path.is_file():
            raise InputError(f"{path}: is missing; run train.py samples first")
        return cls(train, valid, np.load(path), tokens)

    @property
    def digests(self):
        """What changes with the texts that are trained on."""
        written = b"" if self.written is None else self.written
        return [sha256(ids).hexdigest() for ids in (self.train, written)]

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
