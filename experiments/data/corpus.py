"""The texts of a corpus: a folder of `*_train.txt` and `*_valid.txt`, in UTF-8, documents ended by
a line <|endoftext|>.
"""

from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from encoder import END_OF_TEXT
from experiments.data.lines import Failed
from utils import InputError

N_PROMPT = 32  # tokens of a story that are continued
GROUP = 4  # texts, that a worker of a cluster is given at a time


def documents(corpus, split):
    """All documents of a split, "train" or "valid", in a fixed order. Raises InputError."""
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


# ---------------------------------------------------------------- held-out text


def openings(corpus, encoder, n_prompts, longest):
    """The first tokens of the first n_prompts stories that have as many; n_prompts 0 is all.

    longest: the most tokens that the context has room for. Raises InputError where there is none.
    """
    stories = map(encoder.encode, documents(corpus, "valid"))
    found = (ids[:N_PROMPT] for ids in stories if N_PROMPT <= min(len(ids), longest))
    prompts = [*islice(found, n_prompts or None)]
    if not prompts:
        raise InputError(
            f"--corpus {corpus!r}: expected stories of at least {N_PROMPT} tokens, and a context "
            "that has room for as many before --n_tokens_to_generate"
        )
    return prompts


def bits_in(pairs, texts):
    """The target's cross entropy of each text, in bits, <|endoftext|> at both ends not counted."""
    model, encoder = pairs.target, pairs.encoder
    half = model.config.n_ctx // 2
    for text in texts:
        ids, nats = [encoder.end_of_text, *encoder.encode(text)], 0.0
        for first in range(0, len(ids) - 1, half):
            # score the tokens after `first`, in windows that overlap by half
            window = ids[max(0, first - half) : first + half]
            following = ids[first + 1 : first + 1 + half]
            n_last = min(half, len(ids) - first)
            logits = model.read(window, model.new_cache(), n_last)[: len(following)]
            logits = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
            chosen = logits[range(len(following)), following]
            nats -= (chosen - np.log(np.exp(logits).sum(axis=-1))).sum()
        yield float(nats / np.log(2))


def bits_per_byte(where, corpus, failed):
    """The target's cross entropy of held-out text, in bits per byte; None if all failed."""
    texts = documents(corpus, "valid")
    name = lambda text: f"bits per byte of the story {text[:30]!r}"
    results = where.run(bits_in, texts, failed, GROUP, name)
    bits = list(tqdm(results, desc="bits per byte", total=len(texts), leave=False, disable=None))
    known = [one for one in zip(bits, texts) if not isinstance(one[0], Failed)]
    n_bytes = sum(len(text.encode()) for _, text in known)
    return sum(one for one, _ in known) / n_bytes if known else None
