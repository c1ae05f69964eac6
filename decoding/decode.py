"""One text: the models that write it, a loop of sampling.py, a clock around it, and what came out.

target, draft_model, encoder = load_pair("17M", "0.7M-17M", MODELS_DIR)
ids = encode_prompt("Once upon a time", encoder, target)
rounds = begin("speculative", target, draft_model, encoder, ids, 60, to_probs=SamplingParams(0.8))
print(decode(rounds, encoder)["text"])
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal

from backends.backend import get_backend
from checkpoints.search import find_folder
from encoder import Encoder
from gpt2 import Model
from sampling import (
    RULES,
    NeuralDrafter,
    Rng,
    Round,
    SamplingParams,
    autoregressive,
    never,
    speculative,
    stop_condition,
)
from utils import load_models

Decoder = Literal["autoregressive", "speculative"]
DECODERS: tuple[Decoder, Decoder] = ("autoregressive", "speculative")
Watcher = Callable[[Iterator[Round]], Iterator[Round]]
NGRAM = "ngram"  # the draft that looks up n-grams, without a model
HEADS = ("eagle", "medusa")  # drafts by heads of the target


def load_drafts(
    target: str,
    drafts: list[str],
    models_dir: str,
    backend: str = "numpy",
    load: Callable = load_models,
) -> tuple[Model, dict[str, Any], Encoder]:
    """Load a target and its drafts. Returns (the target, {name of a draft: its Model or its head;
    "ngram": None}, their encoder). Raises ValueError if one is not there or cannot be used.

    target, drafts: names; each is a size in models_dir, a folder, or an owner/name of Hugging Face,
        that of a draft also one of HEADS, which lie beside the target, or "ngram"
    load: loads the models but for the heads, as utils.load_models does
    """
    sizes = [name for name in drafts if name not in (NGRAM, *HEADS)]
    models, encoder = load([target] + sizes, models_dir, get_backend(backend))
    for model in models:
        model.read([0], model.new_cache(1))  # a warm-up: the first pass is slow
    target_model, *draft_models = models
    loaded: dict[str, Any] = dict(zip(sizes, draft_models))
    loaded[NGRAM] = None
    for name in HEADS:
        if name in drafts:
            from decoding.heads import load_head  # here and below: most runs have none

            loaded[name] = load_head(name, find_folder(target, models_dir), target_model)
    return target_model, loaded, encoder


@lru_cache(maxsize=1)  # a console, or a worker of a cluster, asks for every text
def load_pair(
    target: str, draft: str, models_dir: str, backend: str = "numpy"
) -> tuple[Model, Any, Encoder]:
    """Load (target, draft, encoder) as load_drafts does, and keep the last three in memory."""
    model, drafts, encoder = load_drafts(target, [draft], models_dir, backend)
    return model, drafts[draft], encoder


def names_of(settings: Mapping[str, Any]) -> tuple[str, str, str]:
    """(target, draft, models_dir): the names of the models of {flag: value}. Where only the
    autoregressive decoder runs, the draft is n-grams, which need no model.
    """
    draft = NGRAM if settings.get("mode") == "autoregressive" else settings["draft_model_size"]
    return settings["target_model_size"], draft, settings["models_dir"]


def pair_of(settings: Mapping[str, Any]) -> tuple[Model, Any, Encoder]:
    """(target, draft, encoder) that {flag: value} name, as load_pair loads or has kept them."""
    return load_pair(*names_of(settings), settings["backend"])


def options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `begin` that a text's settings, {flag of generate: value}, stand
    for: n_tokens, K, to_probs, seed, stop, verification and coupled. Raises ValueError for a number
    out of its range, and for coupled with a verification other than "token".
    """
    options = {name: settings[name] for name in ("K", "seed", "verification", "coupled")}
    n_tokens, K, seed = settings["n_tokens_to_generate"], settings["K"], settings["seed"]
    if n_tokens < 1:
        raise ValueError(f"n_tokens_to_generate {n_tokens}: expected 1 or more")
    if K != "auto" and K < 1:
        raise ValueError(f"K = {K}: expected 1 or more")
    if seed < 0:
        raise ValueError(f"seed {seed}: expected 0 or more")
    if settings["coupled"] and settings["verification"] != "token":
        raise ValueError("coupled: expected no verification with it; it has a rule of its own")
    to_probs = SamplingParams(settings["temperature"], settings["top_k"], settings["top_p"])
    stop = read_stop(settings["stop"])
    return options | {"n_tokens": n_tokens, "to_probs": to_probs, "stop": stop}


def decoders_of(mode: str) -> tuple[Decoder, ...]:
    """The decoders that --mode names, in the order of their turns."""
    return DECODERS if mode == "both" else (mode,)  # type: ignore[return-value]


def read_stop(flag: str) -> str:
    r"""The string that --stop means: \n in it is a new line, and \\ a backslash.

    >>> read_stop(r"\n"), read_stop(r"\\n")
    ('\n', '\\n')
    """
    return "\\".join(piece.replace("\\n", "\n") for piece in flag.split("\\\\"))  # cut at each \\


def make_drafter(draft_model: Any, target: Model, to_probs: SamplingParams, rng: Any) -> Any:
    """A new drafter for one text: it has `prefill`, and `propose`, which drafts. draft_model: a
    Model, a head of the target, or None to look up n-grams. to_probs makes q of the draft's logits,
    rng samples from q; n-grams need neither.
    """
    if draft_model is None:
        from decoding.ngrams import NGramDrafter

        return NGramDrafter(target.config.n_vocab)
    if hasattr(draft_model.config, "n_places"):  # only heads have places
        from decoding.heads import HeadDrafter

        return HeadDrafter(draft_model, to_probs, rng)
    return NeuralDrafter(draft_model, to_probs, rng)


def note_limits(config: Any, n_tokens: int, K: int | Literal["auto"]) -> None:
    """Warn of limits of a draft with this config, a Model's or a head's: if a head drafts fewer
    than K tokens in a round, unless K is at most 4, the default; and if the draft's context ends
    before a text of n_tokens, prompt included.
    """
    most = getattr(config, "n_places", None)  # only heads have places
    if most and K != "auto" and K > max(most, 4):
        warnings.warn(f"this draft has at most {most} tokens a round, not {K}")
    # the last drafted token is not read, and the target adds one
    if config.n_ctx + 2 < n_tokens:
        warnings.warn(f"the draft model's context ends after {config.n_ctx} tokens: no more drafts")


def encode_prompt(text: str, encoder: Encoder, target: Model) -> list[int]:
    """The token ids of a prompt, at least one. Raises ValueError if it leaves no room for another
    token in the target's context.
    """
    n_ctx = target.config.n_ctx
    if len(text) > n_ctx * encoder.longest:  # even of the longest tokens: it may take minutes
        size = f"{len(text)} characters"
        raise ValueError(f"the prompt has {size}: expected less than {n_ctx} tokens")
    ids = encode_any(text, encoder)
    if len(ids) >= n_ctx:
        raise ValueError(f"the prompt has {len(ids)} tokens: expected less than {n_ctx}")
    return ids


def encode_any(text: str, encoder: Any) -> list[int]:
    """The token ids of a prompt, at least one: of no text, the token that ends a text, or 0."""
    return encoder.encode(text) or [encoder.end_of_text or 0]


def begin(
    decoder: Decoder,
    target: Model,
    draft_model: Any,
    encoder: Encoder | None,
    ids: list[int],
    n_tokens: int,
    *,
    K: int | Literal["auto"] = 4,
    to_probs: SamplingParams = SamplingParams(),
    seed: Any = 123,
    stop: str = "",
    verification: Literal["token", "block"] = "token",
    coupled: bool = False,
    rng: Any = None,
    rule: Callable | None = None,
    around_drafter: Callable = lambda drafter: drafter,
) -> Iterator[Round]:
    """Begin one text: the Rounds that a loop of sampling.py yields, the first of which is the
    prefill. Warns of limits of the draft (note_limits). Raises ValueError for another decoder. The
    autoregressive one uses no draft_model, K, verification, rule or around_drafter.

    draft_model: a Model, a head of the target, or None for n-grams
    encoder: knows when a text ends, at `stop` or <|endoftext|>; with None it does not end early
    ids: of the prompt, at least one; n_tokens: how many to write at most
    K: tokens to draft in a round, or "auto"; to_probs: makes probabilities of logits; seed: an int,
        or if not coupled a SeedSequence; stop: a string that ends the text
    verification: "token" or "block"; coupled: whether both share their noise (decoding/coupled.py)
    rng, rule: in place of those that `seed` and `verification`, or `coupled`, stand for
    around_drafter(drafter): returns what drafts in its place, such as a drafter with a clock
    """
    if decoder not in DECODERS:
        raise ValueError(f"decoder {decoder!r}: expected {' or '.join(DECODERS)}")
    if coupled:
        from decoding.coupled import SharedNoise, verify_shared_noise

        rng = rng or SharedNoise(seed, len(ids))
        rule = rule or verify_shared_noise
    else:
        rng, rule = rng or Rng(seed), rule or RULES[verification]
    is_done = stop_condition(encoder, stop) if encoder else never
    if decoder == "autoregressive":
        return autoregressive(target, ids, n_tokens, to_probs, rng, is_done)
    if draft_model is not None:  # n-grams have no limits
        note_limits(draft_model.config, min(len(ids) + n_tokens, target.config.n_ctx), K)
    drafter = around_drafter(make_drafter(draft_model, target, to_probs, rng))
    next_K: Any = K
    if K == "auto":
        from decoding.auto_k import AutoK

        next_K = AutoK()
    return speculative(target, drafter, ids, n_tokens, next_K, to_probs, rng, is_done, rule)


def decode(rounds: Iterator[Round], encoder: Encoder, watch: Watcher = iter) -> dict[str, Any]:
    """Run the Rounds of a text, a prefill and at least one more, to their end. Returns {"text" and
    "token_ids": what was written; "prefill_seconds"; of all other rounds "seconds" and
    "tokens_per_second", "rounds": how many; "drafted", "examined", "accepted": numbers of tokens;
    "acceptance_rate": None if none was examined; "tokens_per_target_pass"}.

    encoder: of the text; watch: a generator that passes Rounds on, and may print what they hold.
        Its own time does not count
    """
    times: list[float] = []  # of each round, in seconds
    tokens: list[int] = []
    drafted = examined = accepted = 0
    for this_round in watch(timed(rounds, times)):
        tokens += this_round.tokens
        drafted += len(this_round.draft)
        examined += this_round.examined
        accepted += this_round.accepted
    n_rounds, seconds = len(times) - 1, sum(times[1:])  # without the prefill
    return {
        "text": encoder.decode(encoder.without_end(tokens)),
        "token_ids": tokens,
        "seconds": seconds,
        "prefill_seconds": times[0],
        "tokens_per_second": len(tokens) / seconds,
        "rounds": n_rounds,
        "drafted": drafted,
        "examined": examined,
        "accepted": accepted,
        "acceptance_rate": accepted / examined if examined else None,
        "tokens_per_target_pass": len(tokens) / n_rounds,
    }


def timed(rounds: Iterator[Round], seconds: list[float]) -> Iterator[Round]:
    """Pass Rounds on, and append to `seconds` how long each of them took until it came here."""
    begun = time.perf_counter()
    for this_round in rounds:
        seconds.append(time.perf_counter() - begun)
        yield this_round
        begun = time.perf_counter()


def median_turn(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several results of `decode`, the one with the median time, among those that came about as
    the first did: with K auto, which looks at times, others may have another text or other rounds.
    """
    how = itemgetter("token_ids", "rounds", "examined", "accepted")  # a result -> these four
    alike = [turn for turn in turns if how(turn) == how(turns[0])]
    return sorted(alike, key=itemgetter("seconds"))[len(alike) // 2]


def compare(
    turns: Mapping[Decoder, list[dict[str, Any]]],
    target: Model,
    ids: list[int],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Compare what two decoders wrote in turns. Returns {"speedup": the median of "speedups",
    "speedups": of each turn the tokens per second, speculative over autoregressive, "identical":
    whether the first turns wrote equal texts}, and where they should have and did not (greedy or
    coupled) "difference": what explain_difference returned. Returns {} of a single decoder.

    turns: {decoder: [what `decode` returned]}; target, ids, options: those that `begin` was given
    """
    if len(turns) < 2:
        return {}
    plain_turns, speculative_turns = turns["autoregressive"], turns["speculative"]
    speedups = []
    for plain, speculated in zip(plain_turns, speculative_turns):
        speedups.append(speculated["tokens_per_second"] / plain["tokens_per_second"])
    median = sorted(speedups)[len(speedups) // 2]
    first, second = plain_turns[0]["token_ids"], speculative_turns[0]["token_ids"]
    compared = {"speedup": median, "speedups": speedups, "identical": first == second}
    to_probs, coupled = options["to_probs"], options["coupled"]
    if first != second and (to_probs.greedy or coupled):
        from decoding.text_difference import explain_difference  # rare

        seed = options["seed"] if coupled else None  # of the shared noise
        compared["difference"] = explain_difference(target, ids, first, second, to_probs, seed)
    return compared
