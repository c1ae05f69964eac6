"""Read the texts of a training: a corpus cut into tokens, and texts that the target wrote.

A corpus is a folder of `*_train.txt` and `*_valid.txt`, in UTF-8, documents ended by a line
<|endoftext|>.

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

from checkpoints.errors import InputError
from checkpoints.files import first_of
from checkpoints.folder import PARTS
from checkpoints.output import replace_atomically
from checkpoints.vocabulary import load_encoder
from decoding.batching import read_together
from decoding.head_files import fingerprint
from decoding.streams import Purpose, stream
from encoder import END_OF_TEXT

N_VOCAB = 2048
PROMPT_TOKENS = 32  # tokens of a book that the target continues
WRITTEN_TOKENS = 256  # tokens of a text that the target wrote, the last one apart
# tokens of a split: the longest window read of it, the one after it, a choice of where to begin
MIN_TOKENS = {"train": 514, "valid": 258}

# ---------------------------------------------------------------- the vocabulary


def learn_vocabulary(texts, folder):
    """Learn a byte-level BPE from texts, and write vocab.json and merges.txt into a folder.

    Ids are in OpenAI's order: bytes, merges, <|endoftext|>.
    """
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, N_VOCAB - 1, min_frequency=0)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder))
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    vocabulary[END_OF_TEXT] = len(vocabulary)
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")


def copy_vocabulary(source, folder):
    """Copy the vocabulary files of a model folder into another folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    _, vocabulary, merges, _ = PARTS
    for names in (vocabulary, merges):
        shutil.copy(first_of(source, *names), folder)


# ---------------------------------------------------------------- books


def read_documents(corpus, split):
    """Read all documents of a split, "train" or "valid", in a fixed order. Raises InputError."""
    paths = sorted(Path(corpus).glob(f"*_{split}.txt"))
    if not paths:
        raise InputError(f"no *_{split}.txt in {corpus!r}: expected a folder of texts")
    try:
        text = f"\n{END_OF_TEXT}\n".join(path.read_text(encoding="utf-8") for path in paths)
    except UnicodeDecodeError as error:
        raise InputError(f"{corpus!r}: a text is not UTF-8 ({error})") from None
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; expected a file") from None
    return [document.strip("\n") for document in text.split(END_OF_TEXT) if document.strip()]


def encode_split(corpus, split, folder):
    """Return a whole split as one uint16 array [n_ids], <|endoftext|> after every document.

    folder: of the model whose vocabulary is used. Raises InputError if the split is too short.
    """
    encoder = load_encoder(folder)
    ids = []
    end = [] if encoder.end_of_text is None else [encoder.end_of_text]
    for document in read_documents(corpus, split):
        ids += encoder.encode(document) + end
    if len(ids) < MIN_TOKENS[split]:
        problem = f"{len(ids)} {split} tokens; expected at least {MIN_TOKENS[split]}"
        raise InputError(f"{corpus!r}: {problem}")
    return np.array(ids, dtype=np.uint16)


def random_passages(ids, purpose, seed, batch, batch_size, n_seq):
    """Cut [batch_size, n_seq + 1] ids at random places, which depend on the Purpose, the seed and
    the number of the batch alone.
    """
    rng = np.random.default_rng(stream(purpose, seed, batch))
    starts = rng.integers(0, len(ids) - n_seq - 1, batch_size)
    return torch.from_numpy(np.stack([ids[s : s + n_seq + 1] for s in starts]).astype(np.int64))


# ---------------------------------------------------------------- what the target wrote


def samples_path(places, folder):
    """Return the path of the texts that the target in a folder wrote with its present weights."""
    return Path(places.cache_dir) / f"samples-{folder.name}-{fingerprint(folder)[:12]}.npy"


def save_array(array, path):
    """Write an array to a .npy file, atomically; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def write_batch(model, ids, seed, batch, batch_size):
    """Let a target continue passages from books. Returns uint16 ids [batch_size, WRITTEN_TOKENS +
    1],
    which depend on the arguments alone.

    model: a gpt2.Model; ids: [n_ids] of the books; batch: its number. Every third batch is greedy,
    the other batches are sampled at temperature 1.
    """
    rng = np.random.default_rng(stream(Purpose.CONTINUATIONS, seed, batch))
    beginnings = random_passages(
        ids, Purpose.BEGINNINGS, seed, batch, batch_size, PROMPT_TOKENS - 1
    )
    text = beginnings.numpy()
    caches = [model.new_cache() for _ in text]
    while text.shape[1] < WRITTEN_TOKENS + 1:
        logits = np.concatenate(read_together(model, text.tolist(), caches, [1] * batch_size))
        if batch % 3:  # the argmax of logits + Gumbel noise is a sample
            logits = logits + rng.gumbel(size=logits.shape)
        text = np.concatenate([text, logits.argmax(axis=1)[:, None]], axis=1)
    return text.astype(np.uint16)


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class TrainingTexts:
    """What a run reads: token ids of books, and texts that the target wrote, or None.

    train, valid: [n_ids]; written: [n_texts, WRITTEN_TOKENS + 1]: every other step reads it
    tokens: of a step
    """

    train: np.ndarray
    valid: np.ndarray
    written: np.ndarray | None = None
    tokens: int = 4096

    @classmethod
    def read(cls, places, folder, written=False, tokens=4096):
        """Read a corpus, and if `written` the texts that the target in the folder wrote.

        folder: of the vocabulary. Raises InputError if a file is missing.
        """
        train, valid = (encode_split(places.corpus, split, folder) for split in ("train", "valid"))
        if not written:
            return cls(train, valid, tokens=tokens)
        path = samples_path(places, folder)
        if not path.is_file():
            raise InputError(f"{path}: is missing; run train.py samples first")
        return cls(train, valid, np.load(path), tokens)

    @property
    def digests(self):
        """SHA-256 digests of the two kinds of text that are trained on, a list of two."""
        written = b"" if self.written is None else self.written
        return [sha256(ids).hexdigest() for ids in (self.train, written)]

    def batch(self, step, steps, seed, n_ctx):
        """(ids of a step, the position of the first): half windows of the context in the first 70 %
        of a run, which take turns at the two halves of the positions, then whole ones.
        """
        if self.written is not None and step % 2:
            rng = np.random.default_rng(stream(Purpose.WRITTEN, seed, step))
            rows = rng.integers(0, len(self.written), self.tokens // WRITTEN_TOKENS)
            return torch.from_numpy(self.written[rows].astype(np.int64)), 0
        n_seq = n_ctx // 2 if step < 0.7 * steps else n_ctx
        turn = step if self.written is None else step // 2
        offset = turn % 2 * (n_ctx - n_seq)
        n_rows = self.tokens // n_seq
        ids = random_passages(self.train, Purpose.PASSAGES, seed, step, n_rows, n_seq)
        return ids, offset
