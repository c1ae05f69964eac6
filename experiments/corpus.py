"""The texts of a corpus: a folder of `*_train.txt` and `*_valid.txt`, in UTF-8, documents ended by
a line <|endoftext|>.
"""

from itertools import islice
from pathlib import Path

from encoder import END_OF_TEXT
from utils import InputError

N_OPENING = 32  # tokens of a story that are continued


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
    found = (ids[:N_OPENING] for ids in stories if N_OPENING <= min(len(ids), longest))
    prompts = [*islice(found, n_prompts or None)]
    if not prompts:
        raise InputError(
            f"--corpus {corpus!r}: expected stories of at least {N_OPENING} tokens, and a context "
            "that has room for as many before --n_tokens_to_generate"
        )
    return prompts
