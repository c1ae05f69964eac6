"""python main.py replay: try drafts, and every K, on texts that are there already.

Whatever the draft, greedy speculative decoding writes the target's text; the draft only decides how
it is divided into rounds. So the text alone tells the rounds of every draft and K: as many drafted
tokens are accepted as agree with what follows. That is exact if the text was written greedily and
the target has the drafts' tokenizer, up to ties that rounding breaks.
"""

import warnings
from collections.abc import Iterator
from json import dumps, loads
from typing import Any, NamedTuple

from tqdm import tqdm

from backends.backend import get_backend
from bench.benchmark import read_list
from bench.intervals import ratio
from bench.table import markdown_table, number
from checkpoints.folder import read_config
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from checkpoints.tokenizer import load_encoder
from cli.prompts import read_lines
from decoding.decode import DECODERS, HEADS, NGRAM, encode_any, read_stop
from decoding.ngrams import NGramDrafter, as_string
from encoder import Encoder
from gpt2 import Model
from sampling import largest, stop_condition
from utils import load_models

Drafts = list[tuple[int, int]]  # of each position of a text, as drafts_along returns them
COLUMNS = ("draft", "K", "acceptance_rate", "tokens_per_target_pass")


def replay(
    file: str,
    *,
    draft_model_size: str = "0.7M-17M,ngram",
    target_model_size: str = "17M",
    K: str = "1..10",
    models_dir: str = MODELS_DIR,
    json: bool = False,
) -> None:
    """Tell how many tokens per pass drafts would give with every K in texts that are there already,
    without the target that wrote them.

        python main.py batch prompts.txt --out texts.jsonl
        python main.py replay texts.jsonl --draft_model_size 0.7M-17M,ngram

    FILE holds the lines that batch wrote, or those of any program: JSON objects with a prompt and
    an output.

    Flags:
        draft_model_size: names in models_dir, folders, or ngram, separated by commas
        target_model_size: the model that wrote the texts, or whose tokenizer encodes those of
            other programs
        K: how many tokens to draft per round, such as 1..10 or 1,2,4
        models_dir: the folder that holds a folder for each model
        json: print a JSON object for each row, and nothing else
    """
    names, Ks = read_list("draft_model_size", draft_model_size), read_list("K", K, int)
    for name in names:
        if name in HEADS:
            problem = "expected a model or ngram, as a head needs to see its target"
            raise ValueError(f"--draft_model_size {name}: {problem}")
    folder = find_folder(target_model_size, models_dir)
    encoder = load_encoder(folder)
    texts = read_texts(file, target_model_size, encoder, read_config(folder).n_ctx)
    rows = []
    for name in names:
        model = None if name == NGRAM else load_draft(name, models_dir, encoder, target_model_size)
        drafts = [drafts_along(model, *text, max(Ks), encoder.n_vocab) for text in texts]
        rows += [{"draft": name, "K": k, **replay_row(drafts, k)} for k in Ks]
    if json:
        print("\n".join(map(dumps, rows)))
    else:
        cells = [[number(row[column]) for column in COLUMNS] for row in rows]
        print(markdown_table(["draft", "K", "acceptance", "tokens/pass"], cells))
        print(f"\n{counted(len(texts), 'text')}, {counted(rows[0]['tokens'], 'token')}")


class Text(NamedTuple):
    """A text that was written after a prompt."""

    prompt: list[int]  # token ids
    ids: list[int]
    ended: bool  # whether it ended by itself, before it was cut off


def counted(n: int, noun: str) -> str:
    """A number of things in words: "1 text", "2 texts"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def read_texts(path: str, target: str, encoder: Encoder, n_ctx: int) -> list[Text]:
    """The Text of each line of a file, which is one of batch, or JSON with a prompt and an output;
    lines of prompts that batch refused are left out. target: the name of the model that wrote them;
    encoder, n_ctx: its own. Raises ValueError for a line without a text, a text of another target,
    or a file without texts. Warns of texts that were not written greedily, and returns them, too.
    """
    texts: list[Text] = []
    n_sampled = 0
    for n, line in enumerate(read_lines(path), 1):
        writer = target
        try:
            record = loads(line)
            if "settings" not in record:  # a line of another program
                prompt = encode_any(record["prompt"], encoder)
                text = Text(prompt, encoder.encode(record["output"]), ended=False)
                texts.append(checked(text, encoder))
            elif not record.get("error"):
                writer = record["settings"].get("target_model_size", target)
                n_sampled += record["settings"].get("temperature", 0.0) > 0
                if writer == target:
                    texts.append(checked(written_by_batch(record, encoder, n_ctx), encoder))
        # whatever a line of another form provokes
        except (ValueError, TypeError, AttributeError, LookupError, StopIteration, RecursionError):
            expected = "expected what batch writes, or JSON with a prompt and an output, not empty"
            raise ValueError(f"{path}, text {n}: {expected}, in tokens of the draft") from None
        if writer != target:
            advice = f"give --target_model_size {writer}, and no other model's texts"
            raise ValueError(f"{path}, text {n}: was written by {writer}, not {target}; {advice}")
    if not texts:
        raise ValueError(f"{path}: has no text; expected lines without an error")
    if n_sampled:
        warnings.warn(f"{n_sampled} of {len(texts)} texts were sampled: this tells of greedy ones")
    return texts


def written_by_batch(record: dict[str, Any], encoder: Encoder, n_ctx: int) -> Text:
    """The Text of a line of batch or generate --json, of the first decoder that it has. Raises
    KeyError, TypeError or the like for a line that is none.
    """
    settings, prompt = record["settings"], record["prompt_token_ids"]
    text = next(record[name] for name in DECODERS if record.get(name))["token_ids"]
    room = min(settings["n_tokens_to_generate"], n_ctx - len(prompt))
    is_done = stop_condition(encoder, read_stop(settings.get("stop", "")))
    return Text(prompt, text, len(text) < room and is_done(text))


def checked(text: Text, encoder: Encoder) -> Text:
    """The same Text. Raises ValueError if prompt or text is empty, or has ids of no token."""
    are_ids = all(type(i) is int and 0 <= i < encoder.n_vocab for i in text.prompt + text.ids)
    if not (text.prompt and text.ids and are_ids):
        raise ValueError("no text, or ids of another vocabulary")
    return text


def load_draft(name: str, models_dir: str, encoder: Encoder, target: str) -> Model:
    """Load a draft model by its name. Raises ValueError if its vocabulary is not that of encoder,
    which is the target's. target: its name, for the error
    """
    models, own_encoder = load_models([name], models_dir, get_backend())
    if own_encoder != encoder:
        raise ValueError(f"draft {name} and target {target} have different vocabularies")
    return models[0]


# ---------------------------------------------------------------- rounds


def drafts_along(
    model: Model | None, prompt: list[int], text: list[int], ended: bool, most: int, n_vocab: int
) -> Drafts:
    """For each position of a text (how many tokens a round that begins there drafts greedily, at
    most `most`; how many of these agree with the text, from the first on).

    model: a draft model; None looks up n-grams. ended: whether the text ended by itself, which a
        drafted token may have done; where it was cut off, the last token was the target's own
    Raises FloatingPointError if the model's logits are not finite.
    """
    limits = [min(most, len(text) - i - (not ended)) for i in range(len(text))]
    if model is None:
        return look_ups_along(prompt, text, limits, n_vocab)
    return model_along(model, prompt, text, limits)


def look_ups_along(prompt: list[int], text: list[int], limits: list[int], n_vocab: int) -> Drafts:
    """(length of the draft by n-grams, how many of its first tokens agree with the text) at each
    position of a text. limits: the most tokens at each. Shows a bar on a terminal.
    """
    ids, drafter = prompt + text, NGramDrafter(n_vocab)
    string = as_string(ids)
    drafts = []
    for i, k in enumerate(tqdm(limits, unit=" tokens", delay=1, leave=False, disable=None)):
        end = len(prompt) + i
        draft = drafter.look_up(ids[:end], string[:end], k)
        same = [a == b for a, b in zip(draft, text[i:])]
        drafts.append((len(draft), [*same, False].index(False)))
    return drafts


def model_along(model: Model, prompt: list[int], text: list[int], limits: list[int]) -> Drafts:
    """(length of the draft by a model, how many of its first tokens agree with the text) at each
    position of a text. limits: the most tokens at each. The model reads the text once: as long as a
    draft agrees with the text, its next token depends on the text alone. Raises FloatingPointError
    if its logits are not finite.
    """
    ids, n_prompt, n_ctx = prompt + text, len(prompt), model.config.n_ctx
    n_read = min(len(ids) - 1, n_ctx)  # nothing follows the last id
    n_last = max(0, n_read - n_prompt + 1)  # from the prompt's last id on: row i is for text[i]
    logits = model.read(ids[:n_read], model.new_cache(), n_last=n_last)
    largest(logits)  # raises FloatingPointError for NaN
    greedy = logits.argmax(axis=-1)
    drafts, agree = [], 0  # agree: of the tokens from position i on, in a row
    for i in reversed(range(len(text))):
        agree = agree + 1 if i < n_last and greedy[i] == text[i] else 0
        # + 1: the last drafted token is never read, so it needs no place in the context
        drafts.append((max(0, min(limits[i], n_ctx + 1 - n_prompt - i)), agree))
    return drafts[::-1]


def rounds_along(drafts: Drafts, K: int) -> Iterator[tuple[int, int]]:
    """Yield (examined, accepted), numbers of tokens, for each round of a text with this K. drafts:
    of each position, how many tokens can be drafted there, and how many of them agree with the text
    """
    i = 0
    while i < len(drafts):
        length, agree = drafts[i]
        drafted = min(K, length)
        accepted = min(drafted, agree)
        yield min(drafted, accepted + 1), accepted  # the first rejected one is examined, too
        i += accepted + 1  # and the target's own token


def replay_row(drafts_of_texts: list[Drafts], K: int) -> dict:
    """Return the figures of all texts for one K, {column: value}."""
    rounds = [one for drafts in drafts_of_texts for one in rounds_along(drafts, K)]
    examined, accepted = zip(*rounds)
    n_tokens = sum(map(len, drafts_of_texts))
    return {
        "tokens": n_tokens,
        "acceptance_rate": ratio(accepted, examined),
        "tokens_per_target_pass": n_tokens / len(rounds),
    }
