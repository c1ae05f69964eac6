"""Byte-level byte-pair encoding, the tokenizer of GPT-2 (Radford et al. 2019, section 2.2).

Text becomes UTF-8 bytes, so nothing is ever unknown; a regular expression cuts it into words, so no
token spans two of them; inside a word the learned merges join neighbouring tokens, the earliest
learned first, until none applies.

This file knows nothing of models, files or the command line.
"""

import codecs
from functools import lru_cache
from hashlib import sha256
from heapq import heapify, heappop, heappush

import regex

END_OF_TEXT = "<|endoftext|>"

# A word takes the space before it along; contractions, letters, digits and the rest never mix.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def byte_symbols():
    """The printable character that stands for each byte in GPT-2's vocabulary files: {character:
    byte}.

    >>> symbols = byte_symbols()
    >>> symbols["A"] == ord("A"), symbols["Ġ"] == ord(" ")
    (True, True)
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(others)
    }


def merge(ids, merges):
    """Join neighbours until no merge applies: lowest rank first, leftmost first.

    `merges` maps a pair of ids to (rank, merged id). The heap holds every pair that could be
    joined, a linked list its neighbours; n ids cost O(n log n) whatever they are, where rescanning
    after each merge would cost O(n^2).

    >>> merge([0, 0, 1], {(0, 0): (5, 8), (0, 1): (2, 9)})
    [0, 9]
    """
    ids, n = list(ids), len(ids)
    following, preceding = list(range(1, n + 1)), list(range(-1, n - 1))
    pairs = [
        (merges[pair][0], i, pair) for i, pair in enumerate(zip(ids, ids[1:])) if pair in merges
    ]
    heapify(pairs)
    while pairs:
        _, left, pair = heappop(pairs)
        right = following[left]
        if right == n or (ids[left], ids[right]) != pair:
            continue  # one of the two has been merged into something else since
        ids[left], ids[right] = merges[pair][1], None
        following[left] = following[right]
        if following[left] < n:
            preceding[following[left]] = left
        for first in (preceding[left], left):
            second = following[first] if first >= 0 else n
            if second < n and (ids[first], ids[second]) in merges:
                pair = (ids[first], ids[second])
                heappush(pairs, (merges[pair][0], first, pair))
    return [i for i in ids if i is not None]


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
        if any(type(i) is not int for i in ids) or {*ids} != {*range(n)}:
            raise ValueError(f"the ids of the vocabulary are not 0 to {n - 1}")
        symbols = byte_symbols()
        if odd := [symbol for symbol in vocabulary if not {*symbol} <= symbols.keys()]:
            raise ValueError(f"the token {odd[0]!r} is not spelled in GPT-2's byte symbols")
        self._merges = {(a, b): (rank, joined) for rank, (a, b, joined) in enumerate(pairs)}
        self._byte_ids = {byte: vocabulary[s] for s, byte in symbols.items() if s in vocabulary}
        self._bytes = {i: bytes(symbols[c] for c in symbol) for symbol, i in vocabulary.items()}
        self.end_of_text = vocabulary.get(END_OF_TEXT, end_of_text)
        self.n_vocab = n
        self._encode_word = lru_cache(maxsize=65536)(self._encode_word)

    def __eq__(self, other):
        return (self._bytes, self._merges) == (other._bytes, other._merges)

    @property
    def fingerprint(self):
        """Equal for equal encoders: by it a file of token ids can say which tokenizer they are
        from.
        """
        return sha256(
            repr((sorted(self._bytes.items()), sorted(self._merges.items()))).encode()
        ).hexdigest()[:16]

    def _encode_word(self, word):
        try:
            ids = [self._byte_ids[byte] for byte in word.encode()]
        except KeyError as missing:
            raise ValueError(
                f"the vocabulary has no token for the byte 0x{missing.args[0]:02x} of {word!r}"
            ) from None
        return merge(ids, self._merges)

    def encode(self, text, special=False):
        """Token ids of a text; O(n log n) in its length. Raises ValueError for a lone surrogate,
        which is not text, and for a byte that the vocabulary lacks.

        `<|endoftext|>` inside the text is ordinary characters, unless `special` asks for its token.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            bad = f"U+{ord(text[error.start]):04X} at character {error.start}"
            raise ValueError(
                f"the text has a lone surrogate ({bad}): expected valid Unicode"
            ) from None
        ids = []
        special = special and self.end_of_text is not None
        for i, part in enumerate(text.split(END_OF_TEXT) if special else [text]):
            ids += [self.end_of_text] if i else []
            for word in WORD.findall(part):
                ids += self._encode_word(word)
        return ids

    def decode(self, ids):
        """Text of token ids; bytes that are no UTF-8 become U+FFFD. Raises ValueError for an id not
        in the vocabulary.
        """
        return self.incremental_decoder()(ids, final=True)

    def incremental_decoder(self):
        """A function (ids, final=False) -> text for streaming.

        A character split over tokens is held back until its last byte arrives, or until `final`
        says none will.
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
