"""The texts of training: a corpus of books as token ids, and texts that the target wrote.

A corpus is a folder of `*_train.txt` and `*_valid.txt`, in UTF-8. A line <|endoftext|> ends each
document.

Half of a draft's training text may be written by the target, sampled and greedy, because drafts are
judged on such text.
"""

import json
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from cli.input_files import read_lines
from decoding.head_files import fingerprint
from tokenizers import ByteLevelBPETokenizer

from checkpoints.errors import InputError
from checkpoints.files import first_of
from checkpoints.folder import PARTS
from checkpoints.output import replace_atomically
from checkpoints.vocabulary import load_encoder
from decoding.batching import read_together
from decoding.streams import Purpose, stream
from encoder import END_OF_TEXT

N_VOCAB = 2048
PROMPT_TOKENS = 32  # tokens of a book that the target continues
WRITTEN_TOKENS = 256  # tokens of a text that the target wrote, without the last one
# tokens of a split: the longest passage, the token after it, and one that no passage reaches
MIN_TOKENS = {"train": 514, "valid": 258}

# ---------------------------------------------------------------- the vocabulary


def learn_vocabulary(texts, folder):
    """Learn a byte-level BPE of 2,048 tokens from a list of texts. Write vocab.json and merges.txt
    into a folder, a Path, which is made. Ids are in OpenAI's order: bytes, merges, <|endoftext|>.
    """
    tokenizer = ByteLevelBPETokenizer()
    n_learned = N_VOCAB - 1  # the last id is for <|endoftext|>
    tokenizer.train_from_iterator(texts, n_learned, min_frequency=0)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder))
    path = folder / "vocab.json"
    vocabulary = json.loads(path.read_text(encoding="utf-8"))
    vocabulary[END_OF_TEXT] = len(vocabulary)
    path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")


def copy_vocabulary(source, folder):
    """Copy the vocabulary files of a model folder into another folder, which is made. Both are
    Paths. Raises InputError if a file is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _, vocabulary_names, merges_names, _ = PARTS
    # a file may have one of two names
    for names in (vocabulary_names, merges_names):
        shutil.copy(first_of(source, *names), folder)


# ---------------------------------------------------------------- books


def read_documents(corpus, split):
    """Read all documents of a split, "train" or "valid", of a corpus folder. Returns a list of str,
    always in the same order. Raises InputError if there is no file, or one cannot be read as UTF-8.
    """
    paths = sorted(Path(corpus).glob(f"*_{split}.txt"))
    if not paths:
        raise InputError(f"no *_{split}.txt in {corpus!r}: expected a folder of texts")
    text = f"\n{END_OF_TEXT}\n".join("\n".join(read_lines(path)) for path in paths)
    return [document.strip("\n") for document in text.split(END_OF_TEXT) if document.strip()]


def encode_split(corpus, split, folder):
    """Read a whole split, "train" or "valid", of a corpus folder as one uint16 array [n_ids], with
    <|endoftext|> after every document.

    folder: of the model whose vocabulary is used. Raises InputError if the split or the vocabulary
    cannot be read, or if the split is too short.
    """
    encoder = load_encoder(folder)
    ids = []
    for document in read_documents(corpus, split):
        ids += encoder.encode(document)
        if encoder.end_of_text is not None:
            ids.append(encoder.end_of_text)
    if len(ids) < MIN_TOKENS[split]:
        problem = f"{len(ids)} {split} tokens; expected at least {MIN_TOKENS[split]}"
        raise InputError(f"{corpus!r}: {problem}")
    return np.array(ids, dtype=np.uint16)


def random_passages(ids, purpose, seed, batch, batch_size, n_seq):
    """Cut passages out of an array of ids, [n_ids], at random places. Returns an int64 tensor
    [batch_size, n_seq + 1].

    purpose, seed, batch: a Purpose and two ints, which decide the places; batch: its number
    """
    rng = np.random.default_rng(stream(purpose, seed, batch))
    # never the last possible passage: to include it would change the batches of every run
    starts = rng.integers(0, len(ids) - n_seq - 1, batch_size)
    passages = np.stack([ids[start : start + n_seq + 1] for start in starts])
    return torch.from_numpy(passages.astype(np.int64))


# ---------------------------------------------------------------- what the target wrote


def samples_path(cache_dir, folder):
    """Return the Path in cache_dir of the file for the texts that a target writes. Its name changes
    with the target's weights. folder: the target's, a Path
    """
    return Path(cache_dir) / f"samples-{folder.name}-{fingerprint(folder)[:12]}.npy"


def save_array(array, path):
    """Write an array to a .npy file at a Path, atomically; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def continue_passages(model, ids, seed, batch, batch_size):
    """Let a target continue random passages of books. Returns an array of uint16 ids, [batch_size,
    WRITTEN_TOKENS + 1], which begin with the passages. They depend on the arguments alone.

    model: the target, a gpt2.Model; ids: [n_ids], of the books
    batch: the number of the batch. Every third batch is greedy, the others are sampled at
        temperature 1
    """
    rng = np.random.default_rng(stream(Purpose.CONTINUATIONS, seed, batch))
    n_seq = PROMPT_TOKENS - 1  # random_passages returns one more
    text = random_passages(ids, Purpose.BEGINNINGS, seed, batch, batch_size, n_seq).numpy()
    caches = [model.new_cache() for _ in text]
    is_greedy = batch % 3 == 0
    while text.shape[1] < WRITTEN_TOKENS + 1:
        logits = np.concatenate(read_together(model, text.tolist(), caches, [1] * batch_size))
        if not is_greedy:  # the argmax of logits + Gumbel noise is a sample
            logits = logits + rng.gumbel(size=logits.shape)
        text = np.concatenate([text, logits.argmax(axis=1)[:, None]], axis=1)
    return text.astype(np.uint16)


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class TrainingTexts:
    """What a run reads: token ids of books, and texts that the target wrote.

    train, valid: [n_ids], of books
    written: [n_texts, WRITTEN_TOKENS + 1], which every other step reads; None if no step does
    tokens_per_step: how many tokens a step trains on
    """

    train: np.ndarray
    valid: np.ndarray
    written: np.ndarray | None = None
    tokens_per_step: int = 4096

    @classmethod
    def read(cls, settings, folder, written=False, tokens_per_step=4096):
        """Read the TrainingTexts of a corpus; if `written`, also the texts that a target wrote.

        settings: train.PathSettings. folder: of the target, whose vocabulary is used
        tokens_per_step: how many tokens a step trains on
        Raises InputError if a file is missing, or the corpus is too short.
        """
        train = encode_split(settings.corpus, "train", folder)
        valid = encode_split(settings.corpus, "valid", folder)
        if not written:
            return cls(train, valid, tokens_per_step=tokens_per_step)
        path = samples_path(settings.cache_dir, folder)
        if not path.is_file():
            raise InputError(f"{path}: is missing; run train.py samples first")
        return cls(train, valid, np.load(path), tokens_per_step)

    @property
    def digests(self):
        """The SHA-256 digests of the books and of the target's texts that are trained on: a list of
        two str, in hexadecimal digits.
        """
        written = b"" if self.written is None else self.written
        return [sha256(ids).hexdigest() for ids in (self.train, written)]

    def batch(self, step, n_steps, seed, n_ctx):
        """Return what a step trains on: (ids, an int64 tensor [n_rows, n_seq + 1]; the offset, the
        position in the context at which each row begins, an int).

        step: its number, from 0, of n_steps; n_ctx: the length of the context
        If there are texts that the target wrote, odd steps read these. Other steps read passages
        of books. In the first 70 % of the steps a passage is half as long as the context, and
        stands in its first or its second half by turns. After that a passage fills the context.
        """
        if self.written is not None and step % 2 == 1:
            rng = np.random.default_rng(stream(Purpose.WRITTEN, seed, step))
            rows = rng.integers(0, len(self.written), self.tokens_per_step // WRITTEN_TOKENS)
            return torch.from_numpy(self.written[rows].astype(np.int64)), 0
        n_seq, offset = n_ctx, 0
        if step < 0.7 * n_steps:
            n_seq = n_ctx // 2
            # counts the steps that read books
            book_step = step if self.written is None else step // 2
            if book_step % 2 == 1:
                offset = n_ctx - n_seq
        n_rows = self.tokens_per_step // n_seq
        ids = random_passages(self.train, Purpose.PASSAGES, seed, step, n_rows, n_seq)
        return ids, offset
