"""python main.py record and replay: try drafts, and every K, on what a target wrote, without the
target.

The text that speculative decoding writes is the target's, whatever the draft; only how it falls
into rounds is the draft's doing. So a recorded text can be put through the real loop again, with a
target that says what is in the log:

- A deterministic draft (a greedy one, or n-grams) is accepted exactly where it agrees with the recorded token, at any
  temperature of the target. Its rounds are exactly those of the live run.
- A draft that draws from q is accepted, given that the text went on with x, with probability
  min(p(x), q(x)) / p(x) = min(1, q(x) / p(x)): of the ways to write x, the share that comes from an
  accepted draft. One coin for each token, the same for every K, gives rounds with exactly the law
  of live ones; how they fall is one sample of it.

Beside that, "expected_acceptance" is the mean over all tokens of sum(min(p, q)), for drafts that
draw: no coin in it, but known only within bounds where the log keeps a rest.
"""

import json as json_format
from itertools import chain
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from experiments.cli.validators import check_numbers, parse_filters, parse_K, parse_list
from experiments.data.files import check_output
from experiments.data.prompts import choose_prompts
from experiments.data.recordings import probabilities, read_log, write_log
from experiments.decoding.decoders import NGRAM, decode
from experiments.measuring.latency import Latency
from experiments.measuring.referee import counts_of, interval, ratio
from experiments.measuring.runner import load_draft
from sampling import Filter, NeuralDrafter, NGramDrafter, one_hot, speculative
from utils import MODELS_DIR, InputError, find_folder, get_backend, load_encoder, load_pair

GREEDY = Filter(0.0)

# ---------------------------------------------------------------- record


def record(
    target_model_size="7M",
    models_dir=MODELS_DIR,
    prompts="",
    n_prompts=12,
    n_tokens_to_generate=60,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    seed=123,
    top=50,
    backend="numpy",
    kernels="auto",
    out="",
):
    """Write down what a target says after each prompt, for replay to try drafts on (format:
    experiments/data/recordings.py).

    Texts run to their full length, past <|endoftext|>, as in benchmark.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        prompts: a file of prompts (see benchmark), or the built-in ones
        n_prompts: how many of them; 0 is all
        n_tokens_to_generate: how many tokens after each prompt
        temperature: 0 is greedy; above, the log also holds the target's likeliest tokens with their
            probabilities
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        seed: of the random draws
        top: how many of the likeliest tokens to keep
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        out: the log, .jsonl or .jsonl.gz
    """
    settings = {
        name: value for name, value in locals().items() if name not in ("target_model_size", "out")
    }
    check_numbers(0, n_prompts=n_prompts, seed=seed)
    check_numbers(1, n_tokens_to_generate=n_tokens_to_generate, top=top)
    (filter,) = parse_filters(str(temperature), top_k, top_p).values()
    check_output("out", out, (".jsonl", ".jsonl.gz"))
    target, _, encoder = load_pair(
        target_model_size, None, models_dir, get_backend(backend, kernels)
    )
    texts, n_skipped = choose_prompts(
        prompts, n_prompts, encoder, target.config.n_ctx - n_tokens_to_generate
    )
    header = {
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": target_model_size,
        "settings": settings,
    }
    with write_log(out, header) as add:
        for i, ids in enumerate(
            tqdm(texts, desc="recording", unit=" texts", leave=False, disable=None)
        ):
            seen = []

            def watched(logits):
                seen.append(filter(logits)[0])
                return seen[-1][None]

            rounds = decode(
                "autoregressive",
                target,
                None,
                ids,
                n_tokens_to_generate,
                K=0,
                filter=watched,
                seed=[seed, i, 0],
            )
            tokens = [int(token) for one in rounds for token in one.tokens]
            add(
                {"prompt": ids, "tokens": tokens}
                | ({} if filter.greedy else probabilities(seen, tokens, top))
            )
    print(
        f"{len(texts)} texts of {n_tokens_to_generate} tokens in {out} ({n_skipped} prompts skipped: too long)"
    )


# ---------------------------------------------------------------- replay


class RecordedTarget:
    """A target that knows one text: after each of its tokens comes the next. Of what differs from
    it, only the first token is ever looked at, and refused."""

    def __init__(self, ids, n_vocab):
        self.ids, self.config = ids, SimpleNamespace(n_vocab=n_vocab, n_ctx=len(ids))

    def new_cache(self, n_positions=None):
        return None

    def read(self, text, cache, n_last=1):  # [n_ids] -> [n_last, n_vocab]
        return one_hot(self.ids[len(text) + 1 - n_last : len(text) + 1], self.config.n_vocab)


class CoinDrafter:
    """Drafts the recorded token where accepts[position] says so, else another; up to the end of the
    draft's context.
    """

    def __init__(self, ids, accepts, n_vocab, n_ctx):
        self.ids, self.accepts, self.n_vocab, self.n_ctx = ids, accepts, n_vocab, n_ctx

    def prefill(self, ids):
        pass

    def propose(self, ids, k):  # [n_ids] -> [k], [k, n_vocab]
        places = range(len(ids), min(len(ids) + k, self.n_ctx + 1))
        draft = [
            self.ids[t] if self.accepts[t] else (self.ids[t] + 1) % self.n_vocab for t in places
        ]
        return draft, one_hot(draft, self.n_vocab)


def acceptance_of(draft, text, filter):
    """(min(1, q(x) / p(x)) for each recorded token x, bounds of the sum over them of sum(min(p,
    q)), how many they are).

    Tokens beyond the draft's context have acceptance 0, and are not counted.
    """
    ids = (text["prompt"] + text["tokens"])[: draft.config.n_ctx + 1]
    n = len(ids) - len(text["prompt"])
    accepts, bounds = np.zeros(len(text["tokens"])), np.zeros(2)
    if n <= 0:
        return accepts, bounds, 0
    rows = filter(draft.read(ids[:-1], draft.new_cache(), n_last=n))
    for i, q in enumerate(rows):
        x, kept = text["tokens"][i], text["top_ids"][i]
        accepts[i] = min(1, q[x] / text["p"][i])
        common = np.minimum(q[kept], text["top_p"][i]).sum()
        bounds += common, common + min(text["rest"][i], max(0, 1 - q[kept].sum()))
    return accepts, bounds, n


def drafters_of(draft, log, seed):
    """(a function from a text's number to its drafter, expected acceptance or None) for one draft;
    draft is a model or NGRAM.
    """
    if draft == NGRAM:
        return lambda i: NGramDrafter(log.n_vocab), None
    if log.filter.greedy:
        return lambda i: NeuralDrafter(draft, log.filter, None), None
    found = [
        acceptance_of(draft, text, log.filter)
        for text in tqdm(log.texts, desc="draft", leave=False, disable=None)
    ]
    bounds, n = sum(bounds for _, bounds, _ in found), sum(n for *_, n in found)

    def coins(i):
        text, tosses = (
            log.texts[i],
            np.random.default_rng([seed, i]).random(len(log.texts[i]["tokens"])),
        )
        accepts = [False] * len(text["prompt"]) + (tosses < found[i][0]).tolist()
        return CoinDrafter(
            text["prompt"] + text["tokens"], accepts, log.n_vocab, draft.config.n_ctx
        )

    return coins, (bounds / n).tolist() if n else None


def replay_text(text, drafter, K):
    """The rounds in which this drafter and K would have written the text."""
    target = RecordedTarget(text["prompt"] + text["tokens"], drafter.n_vocab)
    rounds = speculative(
        target, drafter, text["prompt"], len(text["tokens"]), K, GREEDY, np.random.default_rng(0)
    )
    next(rounds)
    return list(rounds)


def row_of(draft, target, K, temperature, runs, expected, latency):
    """One row, from the rounds of each text."""
    rounds = [[(one.drafted, one.examined, one.accepted) for one in run] for run in runs]
    drafted, examined, accepted = ([sum(one[i] for one in run) for run in rounds] for i in range(3))
    tokens = [sum(len(one.tokens) for one in run) for run in runs]
    examined_at, by_position, histogram = counts_of([*chain(*rounds)], K)
    reason = latency.missing(draft, K)
    seconds = (
        None if reason else [sum(latency.cost(draft, K, one[0]) for one in run) for run in rounds]
    )
    return {
        "draft": draft,
        "target": target,
        "K": K,
        "temperature": temperature,
        "prompts": len(runs),
        "tokens": sum(tokens),
        "acceptance_rate": ratio(accepted, examined),
        "expected_acceptance": expected,
        "tokens_per_target_pass": ratio(tokens, [len(run) for run in runs]),
        "projected_speedup": ratio(tokens, seconds) if seconds else None,
        "intervals": {
            "acceptance_rate": interval(accepted, examined),
            "tokens_per_target_pass": interval(tokens, [len(run) for run in runs]),
            "projected_speedup": interval(tokens, seconds) if seconds else None,
        },
        "draft_cost": None if reason else latency.draft_cost(draft, K),
        "verify_cost": None if reason else latency.pass_cost(draft, K, K + 1),
        "acceptance_by_position": by_position,
        "examined_by_position": examined_at,
        "accepted_histogram": histogram,
        "drafted": sum(drafted),
        "wasted_drafts": sum(drafted) - sum(accepted),
        "withheld": {"projected_speedup": reason} if reason else {},
    }


def certainty(log, drafts):
    """What of the result is exact, and what an estimate."""
    if log.foreign:
        text = "foreign log: cut into tokens by the draft's tokenizer, the draft greedy; exact for a target that shares it"
    elif not log.filter.greedy and set(drafts) != {"ngram"}:
        text = "sampled log: n-gram rounds are exact; a model's are one sample of the law of live ones, and estimate its means"
    else:
        text = "exact: the rounds are those of the live run on these prompts, up to ties that float rounding breaks"
    return text + "; a projected speedup is an estimate, as good as its latency model"


def show(result):
    """The rows for people."""
    line = "{:>8} {:>4} {:>11} {:>17} {:>12} {:>18}"
    print(line.format("draft", "K", "acceptance", "expected", "tokens/pass", "projected speedup"))
    for row in result["rows"]:
        low_high = row["expected_acceptance"]
        expected = "–" if low_high is None else "{:.4f} to {:.4f}".format(*low_high)
        rate = "–" if row["acceptance_rate"] is None else f"{row['acceptance_rate']:.3f}"
        speedup = "–" if row["projected_speedup"] is None else f"{row['projected_speedup']:.2f}"
        print(
            line.format(
                row["draft"],
                row["K"],
                rate,
                expected,
                f"{row['tokens_per_target_pass']:.2f}",
                speedup,
            )
        )
    reasons = {why for row in result["rows"] for why in row["withheld"].values()}
    print(
        "",
        result["certainty"],
        *(f"no projected speedup: {why}" for why in sorted(reasons)),
        sep="\n",
    )


def replay(
    log="",
    draft_model_size="0.7M,ngram",
    models_dir=MODELS_DIR,
    K="1..10",
    costs="",
    draft_cost="",
    verify_cost="",
    tokenizer="",
    seed=123,
    backend="numpy",
    kernels="auto",
    json=False,
):
    """Put the texts of a log through the speculative loop again, with any draft and every K, and
    without the target.

    Args:
        log: what record wrote, or JSON Lines of prompt and output from another program
        draft_model_size: sizes in models_dir, folders, or ngram, separated by commas
        models_dir: where the folders of the sizes are
        K: how many tokens are drafted in a round: 1..10, or 1,2,4
        costs: a results file of benchmark, for the latency model: its draft and verify costs
        draft_cost: or: the cost of drafting a token, in target passes
        verify_cost: with it: the cost of a target pass over K + 1 rows, in passes over one; one
            number, or one for each K
        tokenizer: a size or folder whose tokenizer cuts a foreign log; by default the first draft's
        seed: of the coins, where the log was sampled
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        json: print one JSON object and nothing else
    """
    settings = {name: value for name, value in locals().items() if name != "json"}
    sizes, arrays = parse_list("draft_model_size", draft_model_size), get_backend(backend, kernels)
    check_numbers(0, seed=seed)
    if not log:
        raise InputError(
            "--log: expected the file that record wrote, or JSON Lines of prompt and output"
        )
    Ks = parse_K(K, 10**6)
    cutter = tokenizer or next((size for size in sizes if size != "ngram"), "7M")
    found = read_log(log, lambda: load_encoder(find_folder(cutter, models_dir)))
    latency = Latency(sizes, Ks, found.target, costs, draft_cost, verify_cost)
    temperature, rows = None if found.foreign else found.settings["temperature"], []
    for size in sizes:
        draft = load_draft(size, models_dir, arrays, found.tokenizer, f"the log {log}")
        drafter_of, expected = drafters_of(draft, found, seed)
        for k in tqdm(Ks, desc=size, unit=" K", leave=False, disable=None):
            runs = [replay_text(text, drafter_of(i), k) for i, text in enumerate(found.texts)]
            rows.append(row_of(size, found.target, k, temperature, runs, expected, latency))
    recorded = {"target": found.target, "tokenizer": found.tokenizer, "settings": found.settings}
    result = {
        "settings": settings,
        "log": recorded,
        "certainty": certainty(found, sizes),
        "rows": rows,
    }
    if json:
        print(json_format.dumps(result))
    else:
        show(result)
