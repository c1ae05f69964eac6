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
from bench.table import counted, markdown_table, number
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
HEADINGS = {  # of the table: {key of a row: heading of its column}
    "draft": "draft",
    "K": "K",
    "acceptance_rate": "acceptance",
    "tokens_per_target_pass": "tokens/pass",
}


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
    names = read_list("draft_model_size", draft_model_size)
    Ks = read_list("K", K, int)
    for name in names:
        if name in HEADS:
            problem = "expected a model or ngram, as a head needs to see its target"
            raise ValueError(f"--draft_model_size {name}: {problem}")
    folder = find_folder(target_model_size, models_dir)
    encoder = load_encoder(folder)
    texts = read_texts(file, target_model_size, encoder, read_config(folder).n_ctx)

    rows = []
    for name in names:
        model = None  # for n-grams
        if name != NGRAM:
            model = load_draft(name, models_dir, encoder, target_model_size)
        drafts = [drafts_along(model, text, max(Ks), encoder.n_vocab) for text in texts]
        for k in Ks:
            rows.append({"draft": name, "K": k, **replay_row(drafts, k)})

    if json:
        for row in rows:
            print(dumps(row))
    else:
        print_table(rows, len(texts))


def print_table(rows: list[dict[str, Any]], n_texts: int) -> None:
    """Print rows as a Markdown table, and below it of how many texts and tokens they are.

    rows: dicts with "draft", "K", "acceptance_rate", "tokens_per_target_pass" and "tokens", the
        number in all texts, which is the same in all rows
    n_texts: how many texts there are
    """
    cells = []
    for row in rows:
        cells.append([number(row[key]) for key in HEADINGS])  # the draft, a text, stays as it is
    print(markdown_table(list(HEADINGS.values()), cells))
    n_tokens = rows[0]["tokens"]
    print(f"\n{counted(n_texts, 'text')}, {counted(n_tokens, 'token')}")


class Text(NamedTuple):
    """A text that was written after a prompt."""

    prompt: list[int]  # token ids
    ids: list[int]
    ended: bool  # whether it ended by itself, before it was cut off


def read_texts(path: str, target: str, encoder: Encoder, n_ctx: int) -> list[Text]:
    """Read texts that were written already: a list with a Text (prompt, ids, whether it ended by
    itself) for each line of the file at `path`. A line is a JSON object: one that the command batch
    wrote, which has "settings", or {"prompt": text, "output": text} of another program. Lines of
    prompts that batch refused, which have an "error", are left out. Texts that batch sampled, at a
    temperature above 0, are returned, too, with one warning.

    target: the name of the model that wrote them
    encoder, n_ctx: its tokenizer, and how many tokens its context has
    Raises ValueError for a line of another form, one without a text, or one that batch wrote with
    another target, and names it "text 3", if it is the third that is not blank; and for a file
    without texts.
    """
    texts: list[Text] = []
    n_sampled = 0
    for n, line in enumerate(read_lines(path), 1):
        where = f"{path}, text {n}"
        try:
            record = loads(line)
            settings = record.get("settings", {})  # other programs write none
            if "settings" in record and record.get("error"):
                continue
            writer = settings.get("target_model_size", target)
            if writer == target:
                texts.append(text_of(record, encoder, n_ctx))
                if settings.get("temperature", 0.0) > 0:
                    n_sampled += 1
        # whatever a line of another form provokes
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            expected = "expected what batch writes, or JSON with a prompt and an output, not empty"
            raise ValueError(f"{where}: {expected}, in tokens of the draft") from None
        if writer != target:  # not in the try: this ValueError keeps its message
            advice = f"give --target_model_size {writer}, and no other model's texts"
            raise ValueError(f"{where}: was written by {writer}, not {target}; {advice}")
    if not texts:
        raise ValueError(f"{path}: has no text; expected lines without an error")
    if n_sampled:
        warnings.warn(f"{n_sampled} of {len(texts)} texts were sampled: this tells of greedy ones")
    return texts


def text_of(record: dict[str, Any], encoder: Encoder, n_ctx: int) -> Text:
    """The Text (prompt, ids, whether it ended by itself) of one line, `record`, a JSON object:
    {"settings": ..., "prompt_token_ids": ..., and texts}, as batch writes it, or {"prompt": text,
    "output": text} of another program, which is encoded and counts as cut off.

    encoder, n_ctx: the tokenizer and the context of the model that wrote it
    Raises ValueError if prompt or text is empty, or has ids of no token, and KeyError, TypeError or
    the like for any other object.
    """
    if "settings" in record:
        text = written_by_batch(record, encoder, n_ctx)
    else:
        prompt = encode_any(record["prompt"], encoder)
        text = Text(prompt, encoder.encode(record["output"]), ended=False)
    are_ids = all(type(i) is int and 0 <= i < encoder.n_vocab for i in text.prompt + text.ids)
    if not (text.prompt and text.ids and are_ids):
        raise ValueError("no text, or ids of another vocabulary")
    return text


def written_by_batch(record: dict[str, Any], encoder: Encoder, n_ctx: int) -> Text:
    """The Text in a line of batch or generate --json, a JSON object {"settings": {flag: value},
    "prompt_token_ids": ids, "autoregressive" and "speculative": {"token_ids": ids} or None}. It has
    the text of the first of the two that is there. It ended by itself if it is shorter than allowed
    and its last token ends a text, or completes the string of --stop.

    encoder, n_ctx: the tokenizer and the context of the model that wrote it
    Raises KeyError, TypeError or the like for any other object.
    """
    settings, prompt = record["settings"], record["prompt_token_ids"]
    results = [record[name] for name in DECODERS if record.get(name)]
    ids = results[0]["token_ids"]  # IndexError if neither is there
    room = min(settings["n_tokens_to_generate"], n_ctx - len(prompt))
    is_done = stop_condition(encoder, read_stop(settings.get("stop", "")))
    return Text(prompt, ids, ended=len(ids) < room and is_done(ids))


def load_draft(name: str, models_dir: str, encoder: Encoder, target: str) -> Model:
    """Load a draft model and return it. Raises ValueError if its vocabulary is not the target's.

    name: of its folder in models_dir, or the path of a folder
    encoder, target: the tokenizer of the target, and the target's name, for the error
    """
    models, own_encoder = load_models([name], models_dir, get_backend())
    if own_encoder != encoder:
        raise ValueError(f"draft {name} and target {target} have different vocabularies")
    return models[0]


# ---------------------------------------------------------------- rounds


def drafts_along(model: Model | None, text: Text, most: int, n_vocab: int) -> Drafts:
    """For each token of a text, (length, agree): how many tokens a greedy draft that begins there
    can have; and how many tokens, from the first on, are as the draft has them.

    model: a draft model, or None to look up n-grams
    text: a draft may reach to its end; but the last token of one that was cut off is never drafted
    most: the most tokens of a draft; it is shorter where fewer are left of the text
    n_vocab: as many tokens are in the vocabulary, for n-grams
    Raises FloatingPointError if the model's logits are not finite.
    """
    n_draftable = len(text.ids)
    if not text.ended:  # a loop leaves the last place to the target's own token
        n_draftable -= 1
    limits = [min(most, n_draftable - i) for i in range(len(text.ids))]
    if model is None:
        return look_ups_along(text.prompt, text.ids, limits, n_vocab)
    return model_along(model, text.prompt, text.ids, limits)


def look_ups_along(prompt: list[int], text: list[int], limits: list[int], n_vocab: int) -> Drafts:
    """(length of the draft by n-grams, how many of its first tokens agree with the text) at each
    position of a text. Shows a bar on a terminal.

    prompt, text: token ids; limits: the most tokens to draft at each position of the text
    """
    ids, drafter = prompt + text, NGramDrafter(n_vocab)
    string = as_string(ids)  # one character for each token: it can be cut like ids, and searched
    drafts = []
    # disable=None: a bar on a terminal only
    for i, k in enumerate(tqdm(limits, unit=" tokens", delay=1, leave=False, disable=None)):
        end = len(prompt) + i
        draft = drafter.look_up(ids[:end], string[:end], k)
        n_same = 0
        while n_same < len(draft) and draft[n_same] == text[i + n_same]:
            n_same += 1
        drafts.append((len(draft), n_same))
    return drafts


def model_along(model: Model, prompt: list[int], text: list[int], limits: list[int]) -> Drafts:
    """Of each position of a text, (the length of the draft that a model would write there, how many
    of its first tokens agree with the text). The second may exceed the length, as it would be for a
    longer draft: rounds_along takes the smaller. Raises FloatingPointError if the model's logits
    are not finite.

    prompt, text: token ids; limits: the most tokens to draft at each position of the text

    The model reads the text once: as long as a draft agrees with the text, its next token depends
    on the text alone.
    """
    ids, n_prompt, n_ctx = prompt + text, len(prompt), model.config.n_ctx
    n_read = min(len(ids) - 1, n_ctx)  # nothing follows the last id
    n_last = max(0, n_read - n_prompt + 1)  # from the prompt's last id on: row i is for text[i]
    logits = model.read(ids[:n_read], model.new_cache(), n_last=n_last)
    greedy = (logits == largest(logits)).argmax(axis=-1)  # the first with the largest logit

    # of each position, how many tokens in a row are the model's likeliest; 0 behind the text
    agree = [0] * (len(text) + 1)
    for i in reversed(range(n_last)):  # none behind the context
        if greedy[i] == text[i]:
            agree[i] = 1 + agree[i + 1]

    drafts = []
    for i, limit in enumerate(limits):
        # + 1: the last drafted token is never read, so it needs no place in the context
        room = max(0, n_ctx + 1 - n_prompt - i)
        drafts.append((min(limit, room), agree[i]))
    return drafts


def rounds_along(drafts: Drafts, K: int) -> Iterator[tuple[int, int]]:
    """Yield (examined, accepted), numbers of tokens, for each round of a text with this K: a round
    drafts min(K, length) tokens, accepts those that agree with the text, examines one more if there
    is one, and ends after one token of the target's own.

    drafts: (length, agree) of each position: how many tokens can be drafted there, and how many of
        these, from the first on, agree with the text
    """
    i = 0
    while i < len(drafts):
        length, agree = drafts[i]
        drafted = min(K, length)
        accepted = min(drafted, agree)
        yield min(drafted, accepted + 1), accepted  # the first rejected one is examined, too
        i += accepted + 1  # and the target's own token


def replay_row(drafts_of_texts: list[Drafts], K: int) -> dict:
    """Return the figures of all texts for one K: {"tokens": how many they have together,
    "acceptance_rate": None if nothing was examined, "tokens_per_target_pass"}. drafts_of_texts: of
    each text what drafts_along returned
    """
    n_tokens = n_rounds = n_examined = n_accepted = 0
    for drafts in drafts_of_texts:
        n_tokens += len(drafts)  # one for each position
        for examined, accepted in rounds_along(drafts, K):
            n_rounds += 1
            n_examined += examined
            n_accepted += accepted
    return {
        "tokens": n_tokens,
        "acceptance_rate": n_accepted / n_examined if n_examined else None,
        "tokens_per_target_pass": n_tokens / n_rounds,
    }
