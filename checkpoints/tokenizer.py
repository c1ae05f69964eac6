"""Reads the tokenizer of a checkpoint folder as an Encoder: tokenizer.json, else vocab.json and
merges.txt, or OpenAI's encoder.json and vocab.bpe. Settings that make other ids are refused.
"""

import warnings
from dataclasses import replace
from pathlib import Path

from checkpoints.files import OTHER_TOKENS, errors_about, read_json, read_text_file, require_unset
from checkpoints.folder import TOKEN_LISTS, tokenizer_files
from encoder import Encoder
from gpt2 import Config

MAX_PADDING = 1024  # rows of an embedding that are of no token; more are of another model
MAX_SPECIAL = 1024  # tokens that no merge makes; more are of another tokenizer
SPACE = "Ġ"  # the byte of a space, as files of tokenizers write it
GPT2_CLASSES = "GPT2Tokenizer GPT2TokenizerFast PreTrainedTokenizerFast TokenizersBackend".split()
UNSUPPORTED = ("add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens")
# settings of texts that this program lacks: they change none with 0, with 1, or only without value
OF_0 = """no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens min_p top_h
    epsilon_cutoff eta_cutoff""".split()
OF_1 = "repetition_penalty encoder_repetition_penalty num_beams guidance_scale typical_p".split()
REST = """bad_words_ids suppress_tokens begin_suppress_tokens forced_bos_token_id stop_strings
    forced_eos_token_id exponential_decay_length_penalty sequence_bias watermarking_config"""
IGNORED = dict.fromkeys(OF_0, 0) | dict.fromkeys(OF_1, 1) | dict.fromkeys(REST.split())

Merges = list[tuple[str, ...]]  # [(left, right)], each of which makes the token left + right


def load_encoder(folder: Path) -> Encoder:
    """The Encoder of a folder. A text ends at the eos_token_id of generation_config.json, else at
    that of config.json, else at <|endoftext|>. Warns of tokens and settings that are left out.
    Raises ValueError if files or merges are missing, damaged, or of another tokenizer than GPT-2's.
    """
    vocabulary, merges, added = read_tokenizer(folder)
    ends = end_ids(folder, len(vocabulary | added))
    note_ignored(folder)
    with errors_about(folder, "expected files of one tokenizer"):
        require_merges(vocabulary, merges)
        return Encoder(vocabulary, merges, ends, added)


def require_merges(vocabulary: dict[str, int], merges: Merges) -> None:
    """Raise ValueError if merges are missing, as where a file was cut off. That shows in two ways:
    the vocabulary has more tokens than 256 bytes, one for each merge and 1,024 others (MAX_SPECIAL)
    such as <|endoftext|>; or one that begins with a space, and is not the space, is made by none.
    """
    if len(vocabulary) > 256 + len(merges) + MAX_SPECIAL:
        raise ValueError(f"{len(merges)} merges cannot make {len(vocabulary)} tokens")
    made = {SPACE} | {"".join(pair) for pair in merges}
    for token in vocabulary:
        if token.startswith(SPACE) and token not in made:
            raise ValueError(f"no merge makes {token!r}: merges are missing")


def read_tokenizer(folder: Path) -> tuple[dict[str, int], Merges, dict[str, int]]:
    """(vocabulary {symbol: id}, merges [(symbol, symbol)], added tokens {text: id}) of a folder, as
    an Encoder takes them. Warns of added tokens that are left out. Raises ValueError for what is
    missing or damaged, and for settings that would make other ids of a prompt than an Encoder does.
    """
    require_plain_settings(folder / "config.json")  # each may be missing
    require_plain_settings(folder / "tokenizer_config.json")
    files = tokenizer_files(folder)
    if len(files) == 2:  # vocab.json and merges.txt, or OpenAI's
        vocabulary, merges = read_json(files[0]), read_merges(files[1])
    else:
        from checkpoints.formats import tokenizer_json  # here: not every folder has one

        vocabulary, merges = tokenizer_json.read_vocabulary(files[0])
    added: dict[str, int] = {}
    if any((folder / name).is_file() for name in TOKEN_LISTS):
        from checkpoints.added_tokens import read_added_tokens  # here: not every folder has any

        added = read_added_tokens(folder, vocabulary)
    return vocabulary, merges, added


def require_plain_settings(path: Path) -> None:
    """Raise ValueError, which names the file, if a config.json or tokenizer_config.json wants what
    an Encoder does not do: one of UNSUPPORTED is true, such as add_prefix_space, or the
    tokenizer_class is none of GPT2_CLASSES. The file may be missing: then it wants nothing.
    """
    settings = read_json(path, optional=True)
    with errors_about(path, OTHER_TOKENS):
        require_unset(settings, *UNSUPPORTED)
        if settings.get("tokenizer_class") not in (None, *GPT2_CLASSES):
            raise ValueError(f"tokenizer_class is {settings['tokenizer_class']!r}")


def read_merges(path: Path) -> Merges:
    """The merges in a file, [(symbol, symbol)]: a line for each, with a space between the two.
    Empty lines and those that begin with #version are passed over. Raises ValueError, which names
    the file, for any other line.
    """
    with errors_about(path):
        merges: Merges = []
        for line in read_text_file(path).decode("utf-8-sig").splitlines():
            if line and not line.startswith("#version"):
                if line.count(" ") != 1 or line.strip(" ") != line:
                    raise ValueError(f"{line!r} is no merge of two tokens")
                merges.append(tuple(line.split(" ")))
        return merges


def end_ids(folder: Path, n_vocab: int) -> list[int] | None:
    """The ids that end a text: the eos_token_id, one or a list, of generation_config.json, else of
    config.json; None if neither has one. Warns of what is no id from 0 to n_vocab - 1, left out.
    """
    for name in ("generation_config.json", "config.json"):
        stated = read_json(folder / name, optional=True).get("eos_token_id")
        listed = stated if isinstance(stated, list) else [stated]
        ids = [i for i in listed if type(i) is int and 0 <= i < n_vocab]
        if stated is not None and ids != listed:
            expected = f"expected ids below {n_vocab}; others are ignored"
            warnings.warn(f"{folder / name}: eos_token_id {stated!r:.40}: {expected}")
        if ids:
            return ids
    return None


def note_ignored(folder: Path) -> None:
    """Warn of each setting in a folder's generation_config.json, else in its config.json, that
    would change texts but is not followed here (IGNORED), such as repetition_penalty.
    """
    path = folder / "generation_config.json"
    path = path if path.is_file() else folder / "config.json"
    values = read_json(path, optional=True)
    for name, neutral in IGNORED.items():
        if values.get(name) not in (None, neutral, [], {}):
            warnings.warn(f"{path}: {name} {values[name]!r:.20} is ignored")


def fit_vocabulary(folder: Path, config: Config, encoder: Encoder) -> Config:
    """The Config of a folder's model with n_vocab lowered to that of its encoder: rows of the
    embedding behind it are padding. Raises ValueError, which names the folder, if config.n_vocab is
    lower, or higher by 1,024 (MAX_PADDING) or more: the two are not of one model then.
    """
    if not 0 <= config.n_vocab - encoder.n_vocab < MAX_PADDING:
        counts = f"the model has {config.n_vocab} tokens, its vocabulary {encoder.n_vocab}"
        raise ValueError(f"{folder}: {counts}; use the files of one model")
    return replace(config, n_vocab=encoder.n_vocab)
