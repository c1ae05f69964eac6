"""python main.py benchmark: which draft, which K, at which temperature, measured in turns.

docs/benchmarks.md explains the method and the columns.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any, Literal

from bench.plot import DASHES, draw
from bench.rows import make_row
from bench.table import to_markdown
from bench.turns import PLAIN, decode_texts, has_bug, measure_in_turns
from checkpoints.registry import MODELS_DIR
from cli.command import values_of
from cli.machine import describe_machine
from cli.messages import require_at_least
from cli.output import line_writer, new_file, require_new
from cli.prompts import STORIES, read_prompts
from decoding.decode import HEADS, encode_any, load_drafts
from decoding.random_models import random_models
from encoder import Encoder
from gpt2 import Model
from sampling import RULES, SamplingParams
from utils import load_models

# flags that decide all rows alike; the others are columns, or decide nothing
SETTINGS = ["top_k", "top_p", "n_prompts", "n_tokens_to_generate", "repeats", "seed", "weights"]
SETTINGS += ["synthetic_acceptance", "backend"]
LISTS = {  # flags that may be lists, and what of
    "draft_model_size": str,
    "target_model_size": str,
    "K": int,
    "temperature": float,
    "verification": str,
    "batch_size": int,
}
MOST_VALUES = 1000  # of a list such as 1..6


def benchmark(
    *,
    draft_model_size: str = "0.7M-17M,ngram",
    target_model_size: str = "17M",
    K: str = "1..6",
    temperature: str = "0,1",
    verification: str = "token",
    batch_size: str = "1",
    top_k: int = 0,
    top_p: float = 1.0,
    prompts: str = "",
    n_prompts: int = 12,
    n_tokens_to_generate: int = 60,
    repeats: int = 3,
    seed: int = 123,
    weights: Literal["checkpoint", "random"] = "checkpoint",
    synthetic_acceptance: float = 0.0,
    models_dir: str = MODELS_DIR,
    backend: Literal["numpy", "cupy", "cupy-float16"] = "numpy",
    out: str = "",
    plot: str = "",
    json: bool = False,
) -> None:
    """Measure the speedup of every draft with every target, K and temperature, and compare it with
    what theory predicts.

    Examples:
        python main.py benchmark --K 1..8 --out rows.jsonl --plot speedup.svg
        python main.py benchmark --draft_model_size 0.7M-17M --K 4 --batch_size 1,8

    Flags; the first six may be lists, such as 1,2,4, or 1..4 for whole numbers:
        draft_model_size: names in models_dir, folders, ngram, eagle or medusa
        target_model_size: names in models_dir, or folders
        K: how many tokens to draft per round
        temperature: 0 is greedy decoding
        verification: the accept/reject rule: token, block
        batch_size: how many texts to decode together
        top_k: sample from the top_k most likely tokens; 0 keeps all
        top_p: sample from the fewest most likely tokens that together reach this probability
        prompts: a file of prompts, as for batch; without it, built-in stories. Equal ones count
            once, because the intervals take prompts for independent
        n_prompts: how many of them to use
        n_tokens_to_generate: how many tokens to write after each
        repeats: how often to measure each; medians are reported
        seed: of the random draws and of the order of the turns
        weights: random takes the shapes of models whose files are not there; their texts mean
            nothing, and the output says so
        synthetic_acceptance: accept each drafted token with this probability, whatever the models
            compute; 0 leaves it to the rule
        models_dir: the folder that holds a folder for each model
        backend: numpy, or on a GPU cupy or cupy-float16
        out: a new file, .jsonl, that gets each row as it comes
        plot: a new file, .svg, for a picture of the speedups
        json: print a JSON object for each row, and nothing else
    """
    flags = values_of(benchmark, locals())  # {flag: its value}
    settings = {name: flags[name] for name in SETTINGS}
    settings["prompts"] = Path(prompts or STORIES).name
    about = {"settings": settings, "machine": describe_machine(backend)}
    what_to_measure = read_flags(flags)
    writers: list[Callable[[str], None]] = []  # each gets the JSON of every row, as it comes
    if json:
        writers.append(partial(print, flush=True))
    if out:
        writers.append(line_writer(require_new(out, ".jsonl")))
    if plot:
        require_new(plot, ".svg")
        if len(what_to_measure["temperature"]) > len(DASHES):  # each has its own
            expected = f"at most {len(DASHES)} for a plot"
            raise ValueError(f"--temperature {temperature}: expected {expected}")
    texts = list(dict.fromkeys(read_prompts(prompts or STORIES)))  # each once, in order

    rows = []
    for measured in measure(what_to_measure, texts[:n_prompts]):
        row = measured | about
        rows.append(row)
        for write in writers:
            write(dumps(row))

    if not json:
        print(to_markdown(rows))
    if plot:
        with new_file(plot) as part:
            part.write_text(draw(rows), encoding="utf-8")


def read_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Read the flags of `benchmark`, {flag: value as it was given}, and return them as {flag:
    value}: the six that may be lists, draft_model_size, target_model_size, K, temperature,
    verification and batch_size, as lists ("1..3" as [1, 2, 3]); the others as they are; and as
    "to_probs" a SamplingParams for each temperature. Raises ValueError, which names the flag, for a
    value that cannot be used: a list that is none, a count below 1, a negative seed, an unknown
    rule, an acceptance that is no probability, top_k or top_p out of range, a head (eagle or
    medusa) with random weights.
    """
    lists = {name: read_list(name, flags[name], kind) for name, kind in LISTS.items()}
    top_k, top_p = flags["top_k"], flags["top_p"]
    to_probs = [SamplingParams(temperature, top_k, top_p) for temperature in lists["temperature"]]
    counts = {name: flags[name] for name in ("n_prompts", "n_tokens_to_generate", "repeats")}
    require_at_least(1, **counts)
    require_at_least(0, seed=flags["seed"])
    for rule in lists["verification"]:
        if rule not in RULES:
            raise ValueError(f"--verification {rule!r}: expected {' or '.join(RULES)}")
    acceptance = flags["synthetic_acceptance"]
    if not 0 <= acceptance <= 1:
        raise ValueError(f"--synthetic_acceptance {acceptance}: expected 0 to 1")
    heads = [draft for draft in lists["draft_model_size"] if draft in HEADS]
    if heads and flags["weights"] == "random":
        raise ValueError(f"--draft_model_size {heads[0]}: fits no random weights; leave it out")
    return {**flags, **lists, "to_probs": to_probs}


def measure(flags: Mapping[str, Any], texts: list[str]) -> Iterator[dict[str, Any]]:
    """Measure, and yield a row of the table, a dict, for each combination of target, draft,
    temperature, rule, batch size and K: these six, and what make_row returns, such as "speedup".
    Loads one target after the other, each with all drafts, and measures all that share target,
    temperature and batch size in turns.

    flags: {flag of `benchmark`: its value}, as read_flags returns them: lists for the names of
        models, K, "verification" and "batch_size"; and "to_probs", a SamplingParams for each
        temperature
    texts: the prompts
    Raises ValueError for a model that cannot be used, and for too few or too long prompts.
    """
    drafts, n_tokens = flags["draft_model_size"], flags["n_tokens_to_generate"]
    load = random_models if flags["weights"] == "random" else load_models
    for name in flags["target_model_size"]:
        target, models, encoder = load_drafts(
            name, drafts, flags["models_dir"], flags["backend"], load
        )
        ids = encode_fitting(texts, encoder, target, n_tokens)
        for to_probs, n_texts in itertools.product(flags["to_probs"], flags["batch_size"]):
            batches = batches_of(ids, n_texts)
            for row in measure_drafts(flags, target, models, to_probs, batches):
                yield {"target": Path(name).name, **row}


def measure_drafts(
    flags: Mapping[str, Any],
    target: Model,
    models: dict[str, Any],
    to_probs: SamplingParams,
    batches: list[list[list[int]]],
) -> Iterator[dict[str, Any]]:
    """Measure all drafts of a target, with every K and rule, in turns, and yield a row of the table
    for each: a dict with "draft", "temperature", "verification", "batch_size" and "K", and what
    make_row returns, such as "speedup".

    flags: {flag of `benchmark`: its value}, of which these count: draft_model_size, K and
        verification, which are lists, n_tokens_to_generate, synthetic_acceptance, repeats and seed
    models: {name of a draft: a Model, a head, or None for n-grams}
    to_probs: makes p and q of logits
    batches: lists of equally many prompts, which are token ids
    """
    n_tokens, acceptance = flags["n_tokens_to_generate"], flags["synthetic_acceptance"]
    decode = partial(decode_texts, target, models, n_tokens, to_probs, acceptance)
    drafts = flags["draft_model_size"]
    speculative = list(itertools.product(drafts, flags["K"], flags["verification"]))
    variants = [PLAIN, *speculative]
    runs = measure_in_turns(decode, variants, batches, flags["repeats"], flags["seed"])
    must_be_equal = to_probs.greedy and not acceptance  # the texts with and without drafts
    for variant in speculative:
        draft, K, rule = variant
        bug = must_be_equal and has_bug(target, batches, runs, variant)
        yield {
            "draft": Path(draft).name,
            "temperature": to_probs.temperature,
            "verification": rule,
            "batch_size": len(batches[0]),
            "K": K,
            **make_row(runs[PLAIN], runs[variant], K, bug),
        }


def read_list(flag: str, text: str, kind: Callable = str) -> list:
    """The values of a list such as "1,2,4", each once, in their order. Raises ValueError, which
    names the flag, for a text that is no such list, for more than 1,000 values (MOST_VALUES), and
    for different paths that end in the same name: here/17M and there/17M.

    kind: of the values: str, float, or int from 1 on, for which "1..4" is 1, 2, 3 and 4
    """
    expected = "numbers such as 0,0.7"
    if kind is int:
        expected = "whole numbers of 1 or more, such as 1,2,4 or 1..4"
    try:
        values = whole_numbers(text) if kind is int else [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{flag} {text!r}: expected {expected}") from None
    if len(values) > MOST_VALUES:
        raise ValueError(f"--{flag} {text!r}: expected at most {MOST_VALUES} values")
    values = list(dict.fromkeys(values))
    names = [Path(str(value)).name for value in values]  # which stand for folders in the rows
    if kind is str and len({*names}) < len(names):
        raise ValueError(f"--{flag} {text!r}: expected folders of different names")
    return values


def whole_numbers(text: str) -> list[int]:
    """The numbers of a list such as "1,2,4" or "1..4,8", in their order; of a range such as
    "1..4000" the first 1,001: MOST_VALUES and one more, so that the caller sees too many. Raises
    ValueError for a text that is no such list, has an empty range only, or a number below 1.
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if dots:
            end = min(int(last), int(first) + MOST_VALUES)
            numbers += range(int(first), end + 1)
        else:
            numbers.append(int(part))
    if not numbers or min(numbers) < 1:
        raise ValueError  # the caller says what was expected
    return numbers


def encode_fitting(
    texts: list[str], encoder: Encoder, target: Model, n_tokens: int
) -> list[list[int]]:
    """Encode prompts, the texts, and return the ids of each that is short enough: after it the
    target's context has room for n_tokens. The others are left out, with one warning. Raises
    ValueError if none is short enough.
    """
    room = target.config.n_ctx - n_tokens
    ids = [encode_any(text, encoder) for text in texts]
    fitting = [prompt for prompt in ids if len(prompt) <= room]
    if not fitting:
        shortest = min(map(len, ids))
        expected = f"at most {target.config.n_ctx}, --n_tokens_to_generate {n_tokens} among them"
        raise ValueError(f"the shortest prompt has {shortest} tokens: expected {expected}")
    if len(fitting) < len(ids):
        warnings.warn(f"{len(ids) - len(fitting)} prompts have more than {room} tokens: left out")
    return fitting


def batches_of(ids: list[list[int]], n_texts: int) -> list[list[list[int]]]:
    """Cut a list of prompts, the ids of each, into batches of n_texts; a smaller rest is left out.
    Raises ValueError if there are fewer prompts.
    """
    if n_texts > len(ids):
        raise ValueError(f"--batch_size {n_texts}: expected at most {len(ids)}, as many as prompts")
    n_batches = len(ids) // n_texts
    return [ids[i * n_texts : (i + 1) * n_texts] for i in range(n_batches)]
