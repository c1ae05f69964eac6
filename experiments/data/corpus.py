"""The texts of a corpus: a folder of `*_train.txt` and `*_valid.txt`, in UTF-8, documents ended by
a line <|endoftext|>.
"""

from pathlib import Path

from encoder import END_OF_TEXT
from utils import InputError


def paths(corpus, split):
    """The files of a split, "train" or "valid", in a fixed order. Raises InputError if there is
    none.
    """
    found = sorted(Path(corpus).glob(f"*_{split}.txt"))
    if not found:
        raise InputError(f"no *_{split}.txt in {corpus!r}: expected a folder of texts")
    return found


def documents(corpus, split):
    """All documents of a split. Raises InputError."""
    try:
        text = f"\n{END_OF_TEXT}\n".join(
            path.read_text(encoding="utf-8") for path in paths(corpus, split)
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{corpus!r}: a text is not UTF-8 ({error})") from None
    return [document.strip("\n") for document in text.split(END_OF_TEXT) if document.strip()]
