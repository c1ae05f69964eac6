"""The texts of a corpus as token ids: the vocabulary they are cut with, and a step's batch."""

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from checkpoints.files import sha256_of
from encoder import END_OF_TEXT
from experiments.data import corpus as corpora
from experiments.data.files import replacing
from utils import InputError, read_json

N_VOCAB = 2048
# tokens of a split: the longest window read of it, the one after it, a choice of where to begin
LEAST = {"train": 514, "valid": 258}


def byte_level(bpe):
    """A tokenizer that splits words as GPT-2 does."""
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def learn(texts):
    """(vocabulary, merges) of a byte-level BPE; ids in OpenAI's order: bytes, merges, the end."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=N_VOCAB - 1, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    symbols = [*sorted(alphabet), *("".join(pair) for pair in merges), END_OF_TEXT]
    return {symbol: i for i, symbol in enumerate(symbols)}, merges


def write_vocabulary(folder, vocabulary, merges):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(vocabulary, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")


def vocabulary_files(folder):
    """The two files of a model's vocabulary. Raises InputError unless it is one of ours."""
    files = [folder / name for name in ("vocab.json", "merges.txt")]
    if not all(file.is_file() for file in files):
        raise InputError(
            f"{folder}: expected vocab.json and merges.txt; train.py tokenizer makes those of "
            "the sizes of this project"
        )
    n_vocab = len(read_json(files[0]))
    if n_vocab != N_VOCAB:
        raise InputError(f"{folder}: has {n_vocab} tokens; training expects {N_VOCAB}")
    return files


def digest(corpus, split, folder):
    """12 digits that change with the texts of a split and with the vocabulary in a folder. Raises
    InputError.
    """
    return sha256_of([*corpora.paths(corpus, split), *vocabulary_files(folder)])[:12]


def read_token_ids(corpus, split, folder, cache_dir):
    """A whole split as one array of token ids, <|endoftext|> after every document. Raises
    InputError.

    folder: of a model whose vocabulary it is. The ids are kept in cache_dir.
    """
    path = Path(cache_dir) / f"{split}-{digest(corpus, split, folder)}.npy"
    if not path.exists():
        tokenizer = byte_level(models.BPE.from_file(*map(str, vocabulary_files(folder))))
        texts = tokenizer.encode_batch(corpora.documents(corpus, split))
        ids = [np.array(text.ids + [N_VOCAB - 1], dtype=np.uint16) for text in texts]
        n, least = sum(map(len, ids)), LEAST[split]
        if n < least:
            raise InputError(f"{corpus!r}: {n} {split} tokens; expected at least {least}")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_array(np.concatenate(ids), path)
    return np.load(path)


def save_array(array, path):
    """Store an array, whole or not at all."""
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.save(file, array)


def batch_at(ids, step, seed, batch_size, n_seq):
    """The batch of one step: [batch_size, n_seq + 1] ids from random places, a function of (seed,
    step) alone.
    """
    rng = np.random.default_rng([seed, step])
    starts = rng.integers(0, len(ids) - n_seq - 1, batch_size)
    return torch.from_numpy(np.stack([ids[s : s + n_seq + 1] for s in starts]).astype(np.int64))
