"""Byte-level byte-pair encoding, the tokenizer of GPT-2 (Radford et al. 2019, section 2.2).

A regular expression cuts the text into words, and no token spans two of them. The UTF-8 bytes of a
word are its first tokens, so no character is unknown. Then the learned merges join neighbouring
tokens, the earliest learned first, until none applies.
"""

import codecs
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from heapq import heappop, heappush

import regex

END_OF_TEXT = "<|endoftext|>"

# A word includes the space before it. Contractions, letters, digits and the rest never mix.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

Merges = dict[tuple[int, int], tuple[int, int]]  # {(id, id): (rank, merged id)}


def byte_symbols() -> dict[str, int]:
    """{character: byte}. Vocabulary files write a token as one printable character per byte: a
    printable byte as itself, the others, in their order, as the characters 256, 257 and so on.

    >>> symbols = byte_symbols()
    >>> symbols["A"] == ord("A"), symbols["Ġ"] == ord(" ")
    (True, True)
    """
    printable = [byte for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
    symbols = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return symbols | {chr(256 + i): byte for i, byte in enumerate(others)}


def merge(ids: list[int], merges: Merges) -> list[int]:
    """Join neighbouring ids until no merge applies, and return the ids left. merges: {(id, id):
    (rank, merged id)}. The pair of the lowest rank is joined first, of equal pairs the leftmost.

    A heap has the pairs that can be joined, so n ids take n log n steps: after each, only the
    neighbours of the joined pair are looked at again. docs/one_file.py has the plain loop.

    >>> merge([0, 0, 1], {(0, 0): (5, 8), (0, 1): (2, 9)})
    [0, 9]
    """
    n = len(ids)
    kept: list[int | None] = [*ids, None]  # None where an id was joined to another, and at n, -1
    before = [*range(-1, n)]  # for each index, that of the id kept before it; -1: none
    after = [*range(1, n + 1)]  # and that of the next
    heap: list = []  # (rank, merged id, index of the first of the two)

    def push(i):
        pair = kept[i], kept[after[i]]
        if pair in merges:
            heappush(heap, (*merges[pair], i))

    for i in range(n):
        push(i)
    while heap:
        rank, merged, i = heappop(heap)
        joined = after[i]
        if merges.get((kept[i], kept[joined])) != (rank, merged):
            continue  # since this was pushed, one of the two was joined to another
        kept[i], kept[joined] = merged, None
        after[i] = after[joined]
        before[after[i]] = i
        push(before[i])
        push(i)
    return [one for one in kept if one is not None]


def ids_of_merges(merges: Iterable[tuple[str, ...]], vocabulary: dict[str, int]) -> Merges:
    """{(id, id): (rank, merged id)} of merges, pairs of symbols in the order they were learned. The
    merged symbol is the two in a row. vocabulary: {symbol: id}; ValueError for one that it lacks.
    """
    of_ids = {}
    try:
        for rank, (a, b) in enumerate(merges):
            pair = vocabulary[a], vocabulary[b]
            of_ids[pair] = rank, vocabulary[a + b]
    except KeyError as missing:
        raise ValueError(f"the vocabulary lacks {missing}, which a merge needs") from None
    return of_ids


def bytes_of(vocabulary: dict[str, int], added: dict[str, int]) -> dict[int, bytes]:
    """{id: its bytes} of all tokens. An added token has those of its text, also if the vocabulary
    {symbol: id} has it. Raises ValueError for ids other than 0 to n - 1, and a misspelled symbol.
    """
    n = len(vocabulary | added)
    ids = {*vocabulary.values(), *added.values()}
    if ids != {*range(n)} or not all(type(i) is int for i in ids):
        raise ValueError(f"the ids of the {n} tokens are not 0 to {n - 1}")
    byte_of = byte_symbols()
    of_tokens = {}
    for spelled, i in vocabulary.items():
        if spelled not in added:
            if any(symbol not in byte_of for symbol in spelled):
                raise ValueError(f"{spelled!r} is not spelled in GPT-2's byte symbols")
            of_tokens[i] = bytes(byte_of[symbol] for symbol in spelled)
    return of_tokens | {i: text.encode() for text, i in added.items()}


class Encoder:
    """Text to token ids and back.

    vocabulary: {symbol: id}, merges: [(left symbol, right symbol)] in the order they were learned,
    both spelled as in encoder.json / vocab.bpe (or vocab.json / merges.txt). added: {text: id} of
    tokens such as <|user|>, in the vocabulary or not; `encode` looks for them before it cuts words.
    ends: the ids that end a text; None for that of <|endoftext|> alone. Raises ValueError if a
    merge needs a symbol that is missing, a symbol is misspelled, or the ids are not 0 to n - 1.

    A vocabulary may lack bytes: `encode` then refuses a text that needs one. `end_of_text` is what
    stands between two texts, and for an empty one: <|endoftext|>, else one of `ends`, or None.
    """

    def __init__(
        self,
        vocabulary: dict[str, int],
        merges: Iterable[tuple[str, ...]],
        ends: Iterable[int] | None = None,
        added: dict[str, int] | None = None,
    ):
        self._merges = ids_of_merges(merges, vocabulary)
        self._added = added or {}
        self._bytes = bytes_of(vocabulary, self._added)  # {id: its bytes}
        self.n_vocab = len(self._bytes)
        self.longest = max(map(len, self._bytes.values()))  # bytes
        symbols = byte_symbols().items()
        self._byte_ids = {byte: vocabulary[s] for s, byte in symbols if s in vocabulary}
        # a group, so that split keeps the texts; re, as regex is slow to compile thousands of them
        longest_first = sorted(map(re.escape, self._added), key=len, reverse=True)
        self._added_pattern = re.compile(f"({'|'.join(longest_first)})") if longest_first else None
        end_of_text = (vocabulary | self._added).get(END_OF_TEXT)
        if ends is None:
            ends = [] if end_of_text is None else [end_of_text]
        self.ends = frozenset(ends)
        self.end_of_text = min(self.ends, default=None) if end_of_text is None else end_of_text
        self._encode_word = lru_cache(maxsize=65536)(self._encode)  # one cache per encoder

    def __eq__(self, other):
        return (self._bytes, self._merges) == (other._bytes, other._merges)

    def _encode(self, word: str) -> list[int]:
        """The token ids of a word, one match of the pattern WORD in a text. Raises ValueError for a
        byte that the vocabulary lacks. `encode` calls it through a cache, `_encode_word`.
        """
        try:
            ids = [self._byte_ids[byte] for byte in word.encode()]
        except KeyError as missing:
            problem = f"has no token for the byte 0x{missing.args[0]:02x} of {word!r}"
            raise ValueError(f"the vocabulary {problem}: expected text without it") from None
        return merge(ids, self._merges)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text. <|endoftext|> in it is text like any other, unless it is one of
        the added tokens. Raises ValueError for a lone surrogate, and a byte the vocabulary lacks.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            bad = f"U+{ord(text[error.start]):04X} at character {error.start}"
            problem = f"the text has {bad}, a lone surrogate or a byte that is no UTF-8"
            raise ValueError(f"{problem}: expected Unicode") from None
        parts = self._added_pattern.split(text) if self._added_pattern else [text]
        ids = []
        for part in parts:
            if part in self._added:
                ids.append(self._added[part])
            else:
                for word in WORD.findall(part):
                    ids += self._encode_word(word)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids. Bytes that are not UTF-8 become U+FFFD. Raises ValueError for an
        id that is not in the vocabulary.
        """
        return self.incremental_decoder()(ids, final=True)

    def without_end(self, ids: list[int]) -> list[int]:
        """The ids without the last id, if that ends a text."""
        return ids[:-1] if ids and ids[-1] in self.ends else ids

    def incremental_decoder(self) -> Callable[..., str]:
        """A function decode(ids, final=False), to be called with one part of a text's ids after the
        other. Raises ValueError for an id that is not in the vocabulary.

        A character may be split over several tokens. Its bytes are held back until the last one
        arrives, or `final` says that none will.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

        def decode(ids: Iterable[int], final: bool = False) -> str:
            try:
                return decoder.decode(b"".join([self._bytes[int(i)] for i in ids]), final)
            except KeyError as unknown:
                problem = f"is not in the vocabulary of {self.n_vocab}"
                raise ValueError(f"token id {unknown.args[0]} {problem}") from None

        return decode
