"""Byte-level byte-pair encoding, the tokenizer of GPT-2 (Radford et al. 2019, section 2.2).

A regular expression cuts the text into words, and no token spans two of them. The UTF-8 bytes of a
word are its first tokens, so no character is unknown. Then the learned merges join neighbouring
tokens, the earliest learned first, until none applies.
"""

import codecs
from functools import lru_cache
from hashlib import sha256

import regex

END_OF_TEXT = "<|endoftext|>"

# A word includes the space before it. Contractions, letters, digits and the rest never mix.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def byte_symbols():
    """{character: byte}. Vocabulary files write a token as one printable character per byte: a
    printable byte as itself, the others as characters from 256 on.

    >>> symbols = byte_symbols()
    >>> symbols["A"] == ord("A"), symbols["Ġ"] == ord(" ")
    (True, True)
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    symbols = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return symbols | {chr(256 + i): byte for i, byte in enumerate(others)}


def merge(ids, merges):
    """Join neighbouring ids until no merge applies, and return the ids left. The pair with the
    lowest rank, which was learned first, is joined first. merges: {(id, id): (rank, merged id)}

    >>> merge([0, 0, 1], {(0, 0): (5, 8), (0, 1): (2, 9)})
    [0, 9]
    """
    ids = list(ids)
    while known := [(merges[pair], pair) for pair in zip(ids, ids[1:]) if pair in merges]:
        (_, joined), pair = min(known)
        merged, i = [], 0
        while i < len(ids):
            if tuple(ids[i : i + 2]) == pair:
                merged.append(joined)
                i += 2
            else:
                merged.append(ids[i])
                i += 1
        ids = merged
    return ids


class Encoder:
    """Text to token ids and back.

    vocabulary: {symbol: id}, merges: [(left symbol, right symbol)] in the order they were learned,
    both spelled as in encoder.json / vocab.bpe (or vocab.json / merges.txt). Raises ValueError if
    they do not belong together.

    A vocabulary may lack bytes: `encode` then refuses a text that needs one. `end_of_text` is the
    id of the token that ends a text: that of <|endoftext|>, else the one given, or None.
    """

    def __init__(self, vocabulary, merges, end_of_text=None):
        try:
            pairs = [(vocabulary[a], vocabulary[b], vocabulary[a + b]) for a, b in merges]
        except KeyError as missing:
            raise ValueError(
                f"the vocabulary lacks {missing.args[0]!r}, which the merges need"
            ) from None
        n, ids = len(vocabulary), vocabulary.values()
        if any(type(i) is not int for i in ids) or {*ids} != {*range(n)}:  # JSON's true == 1
            raise ValueError(f"the ids of the vocabulary are not 0 to {n - 1}")
        symbols = byte_symbols()
        if odd := [symbol for symbol in vocabulary if not {*symbol} <= symbols.keys()]:
            raise ValueError(f"the token {odd[0]!r} is not spelled in GPT-2's byte symbols")
        self._merges = {(a, b): (rank, joined) for rank, (a, b, joined) in enumerate(pairs)}
        self._byte_ids = {byte: vocabulary[s] for s, byte in symbols.items() if s in vocabulary}
        self._bytes = {i: bytes(symbols[c] for c in symbol) for symbol, i in vocabulary.items()}
        self.end_of_text = vocabulary.get(END_OF_TEXT, end_of_text)
        self.n_vocab = n
        self._encode_word = lru_cache(maxsize=65536)(self._encode_word)  # one cache per encoder

    def __eq__(self, other):
        return (self._bytes, self._merges) == (other._bytes, other._merges)

    @property
    def fingerprint(self):
        """16 hexadecimal digits, the same for equal encoders. A file of token ids stores them, to
        name its tokenizer.
        """
        everything = repr((sorted(self._bytes.items()), sorted(self._merges.items())))
        return sha256(everything.encode()).hexdigest()[:16]

    def _encode_word(self, word):
        """The token ids of one match of WORD. Raises ValueError for a byte without a token."""
        try:
            ids = [self._byte_ids[byte] for byte in word.encode()]
        except KeyError as missing:
            raise ValueError(
                f"the vocabulary has no token for the byte 0x{missing.args[0]:02x} of {word!r}: "
                "expected text without it"
            ) from None
        return merge(ids, self._merges)

    def encode(self, text):
        """The token ids of a text, a list. <|endoftext|> in it is text like any other.

        Raises ValueError for a lone surrogate, and for a byte that the vocabulary lacks.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            bad = f"U+{ord(text[error.start]):04X} at character {error.start}"
            raise ValueError(
                f"the text has a lone surrogate ({bad}): expected valid Unicode"
            ) from None
        ids = []
        for word in WORD.findall(text):
            ids += self._encode_word(word)
        return ids

    def decode(self, ids):
        """The text of token ids. Bytes that are not UTF-8 become U+FFFD. Raises ValueError for an
        id that is not in the vocabulary.
        """
        return self.incremental_decoder()(ids, final=True)

    def without_end(self, ids):
        """The ids without the last id, if that is end_of_text."""
        return ids[:-1] if ids and ids[-1] == self.end_of_text else ids

    def incremental_decoder(self):
        """A function decode(ids, final=False) -> text, to be called with one part of a text's ids
        after the other. Raises ValueError for an id that is not in the vocabulary.

        A character may be split over several tokens. Its bytes are held back until the last one
        arrives, or `final` says that none will.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def decode(ids, final=False):
            try:
                return decoder.decode(b"".join([self._bytes[int(i)] for i in ids]), final)
            except KeyError as unknown:
                raise ValueError(
                    f"token id {unknown.args[0]} is not in the vocabulary of {self.n_vocab}"
                ) from None

        return decode
