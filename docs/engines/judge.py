"""Does an engine's speculative decoding keep the target's distribution? Measured on the pair 17M.

    python docs/engines/judge.py openvino                  with a draft model, in 90 seconds
    python docs/engines/judge.py openvino lookup           with prompt look-up
    python docs/engines/judge.py llama_cpp ngram-simple --seconds 180 --json

An engine is a file engine_NAME.py beside this one. It writes short texts after a few prompts, in
several settings, alone and together; this project computes how probable each text is, and bets on
the texts against that (proof/bet.py): an exact engine is called wrong in one judgement of a million
at most. The exit code is 0 if it is not told apart from an exact one, 1 if it is wrong, 2 for bad
input.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import backends.before_numpy  # noqa: E402, F401, isort: skip

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

from proof.bet import Bet  # noqa: E402
from sampling import SamplingParams  # noqa: E402
from utils import get_backend, load_models  # noqa: E402

ALPHA = 1e-6  # of all bets on an engine together
ROUNDING = 1e-4  # of a text's probability: the engine computes in float32, in another order
K = 5  # drafted tokens in a round, at most
N_GREEDY = 10  # texts without chance: more of them tell nothing
PAIR = [ROOT / "models" / name for name in ("17M", "0.7M-17M")]


@dataclass(frozen=True)
class Job:
    """What an engine is asked for: n_tokens after each prompt, all prompts at once. In those below
    no text ends early, and none is near a tie at the edge of top_k or top_p.
    """

    prompts: tuple[str, ...]
    n_tokens: int
    temperature: float
    top_k: int
    top_p: float = 1.0

    def __str__(self):
        settings = f"temperature {self.temperature:g}, top_k {self.top_k}"
        settings += f", top_p {self.top_p:g}" if self.top_p < 1 else ""
        together = f"{len(self.prompts)} together" if len(self.prompts) > 1 else "alone"
        return f"{self.n_tokens} tokens, {settings}, {together}"


# they begin again, so that look-up has something to propose
KING = "Once upon a time there lived a king. Once upon a time there lived a"
SON = "The king had a son, and the queen had a daughter. The king had a son, and the"
WOMAN = "The old woman went into the forest. The old woman went into"
FOX = "The fox said to the crow, the fox"
JOBS = [
    Job((KING,), 3, 1.0, 3),
    Job((SON,), 6, 0.7, 2),  # long enough for a rejection at each place of a draft
    Job((WOMAN,), 3, 1.5, 5, 0.85),
    Job((FOX,), 12, 0.0, 1),
    Job((SON, KING), 3, 1.0, 3),
    Job((KING, KING, SON, WOMAN, FOX), 4, 1.2, 2),
]


# ---------------------------------------------------------------- what is right


def law(target, ids, job):
    """The law of the n_tokens that follow a prompt: {text: probability}."""
    to_probs, cache = SamplingParams(job.temperature, job.top_k, job.top_p), target.new_cache()
    texts = {(): 1.0}
    for _ in range(job.n_tokens):
        longer = {}
        for text, probability in texts.items():
            row = to_probs(target.read([*ids, *text], cache))[0]
            longer |= {(*text, int(x)): probability * row[x] for x in np.flatnonzero(row)}
        texts = longer
    return texts


def next_tokens(texts, beginning=()):
    """{token: its share} of the tokens that follow a beginning, the most common first.

    texts: {text: probability or count}; texts and the beginning are tuples of tokens
    """
    shares, n = Counter(), len(beginning)
    for text, share in texts.items():
        if text[:n] == beginning and len(text) > n:
            shares[text[n]] += share
    return {token: share / sum(shares.values()) for token, share in shares.most_common()}


def independent(laws):
    """The law of the first tokens of several texts that know nothing of each other."""
    firsts = [next_tokens(right) for right in laws]
    return {
        tokens: math.prod(first[token] for first, token in zip(firsts, tokens))
        for tokens in product(*firsts)
    }


# ---------------------------------------------------------------- what the engine does


class Trial:
    """A job and the bets on its texts: one for each prompt; of several, one on all first tokens."""

    def __init__(self, job, target, encoder):
        """Compute the laws of the texts of a Job, with the target that the engine should follow, a
        gpt2.Model, and its Encoder.
        """
        self.job = job
        self.prompts = [encoder.encode(prompt) for prompt in job.prompts]
        law_after = {prompt: law(target, encoder.encode(prompt), job) for prompt in {*job.prompts}}
        laws = [law_after[prompt] for prompt in job.prompts]
        if len(laws) > 1:
            laws.append(independent(laws))
        self.bets = [Bet(right, ALPHA / n_bets(), ROUNDING) for right in laws]
        self.names = [*map(repr, job.prompts), "the first tokens of all texts"]  # of the bets
        self.wrong_after = None  # runs until a bet was won
        self.n_tokens = self.n_passes = 0
        self.seconds = 0.0  # of writing

    @property
    def runs(self):
        """How often the job's texts were written: each bet counts them."""
        return self.bets[0].runs

    @property
    def over(self):
        """Whether more runs would tell nothing."""
        return self.job.temperature == 0 and self.runs >= N_GREEDY

    def run(self, write):
        """Let the engine write the job's texts once, bet on them, which counts the run, and count
        their tokens, passes and seconds. Sets wrong_after at the first bet won.

        write(prompts, job, seed) -> (texts, passes of the target), from the engine's `start`
        """
        began = time.perf_counter()
        texts, n_passes = write(self.prompts, self.job, self.runs)
        self.seconds += time.perf_counter() - began
        texts = [tuple(map(int, text)) for text in texts]
        self.n_tokens += sum(map(len, texts))
        self.n_passes += n_passes
        if len(texts) > 1:
            first_tokens = tuple(token for text in texts for token in text[:1])
            texts.append(first_tokens)  # for the last bet
        for bet, text in zip(self.bets, texts):
            bet.add(text)
        if self.wrong_after is None and any(bet.wrong for bet in self.bets):
            self.wrong_after = self.runs


def n_bets():
    """Of all JOBS together, among which ALPHA is divided."""
    return sum(len(job.prompts) + (len(job.prompts) > 1) for job in JOBS)


def measure(trials, write, seconds):
    """Run the trials for so many seconds, with a bar. The next is always the one that has had the
    least time; those that are `over` are left out, and at least one never is.

    write: what the engine's `start` returns
    """
    began = time.perf_counter()
    with tqdm(total=round(seconds), unit="s", leave=False, disable=None) as bar:
        while (spent := time.perf_counter() - began) < seconds:
            unfinished = [trial for trial in trials if not trial.over]
            min(unfinished, key=lambda trial: trial.seconds).run(write)
            bar.update(int(spent) - bar.n)
            n_wrong = sum(trial.wrong_after is not None for trial in trials)
            bar.set_description(f"{sum(trial.runs for trial in trials)} runs, {n_wrong} wrong")


# ---------------------------------------------------------------- what is said


def report(trial, encoder):
    """What one trial found, as a dict: one of the "jobs" of a result. "first_wrong" is about the
    bet with the highest odds, None unless the trial is wrong: where its texts begin most wrongly,
    how often they do ("yours", "right"), and the shares of the last token there ("next_...").
    """
    bet, name = max(zip(trial.bets, trial.names), key=lambda pair: pair[0].most)
    found = dict(
        job=str(trial.job),
        **asdict(trial.job),
        verdict="not told apart" if trial.wrong_after is None else "wrong",
        runs=trial.runs,
        tokens_per_pass=trial.n_tokens / trial.n_passes if trial.n_passes else None,
        log10_odds=bet.most / math.log(10) if math.isfinite(bet.most) else None,
        would_show=max(bet.would_show() for bet in trial.bets),
        wrong_after=trial.wrong_after,
        first_wrong=None,
    )
    if trial.wrong_after:
        text, yours, right = bet.worst()
        n_impossible = sum(n for text, n in bet.counts.items() if not bet.right.get(text))
        in_words = lambda shares: {encoder.decode([token]): x for token, x in shares.items()}
        found["first_wrong"] = dict(
            of=name,
            text=list(text),
            words=[encoder.decode([token]) for token in text],
            yours=yours,
            right=right,
            never=n_impossible / bet.runs,
            next_yours=in_words(next_tokens(bet.counts, text[:-1])),
            next_right=in_words(next_tokens(bet.right, text[:-1])),
        )
    return found


def describe(result):
    """A result of `judge` as text: a line of verdict, and a line or three for each job."""
    lines = ["{engine}, {way}: {verdict}, in {runs:,} runs and {seconds:.0f} s".format(**result)]
    for job in result["jobs"]:
        if job["verdict"] == "wrong":
            shown = f"WRONG after {job['wrong_after']:,}"
        elif job["temperature"] == 0:
            shown = "right each time"
        else:
            shown = f"a distance of {job['would_show']:.2f} would have shown"
        if job["tokens_per_pass"]:
            shown += f"; {job['tokens_per_pass']:.2f} tokens a pass"
        lines.append(f"  {job['job']}: {job['runs']:,} runs; {shown}")
        if wrong := job["first_wrong"]:
            text = "".join(wrong["words"])
            right = format_shares(wrong["next_right"])
            lines += [
                f"    After {wrong['of']} it writes {text!r} with {wrong['yours']:.3f}, and should "
                f"with {wrong['right']:.3f}; texts of probability 0: {wrong['never']:.3f}.",
                f"    The last token there: {format_shares(wrong['next_yours'])}; right: {right}.",
            ]
    return "\n".join(lines)


def format_shares(shares):
    """The first four of {word: share}, as text."""
    return ", ".join(f"{word!r} {share:.3f}" for word, share in [*shares.items()][:4])


def judge(name, way, seconds):
    """Judge one way of an engine to decode, for so many seconds of writing. Returns the result, the
    dict that --json prints. Raises ValueError for an unknown engine or way, or an engine that is
    not installed.

    way: one of the engine's WAYS; the first if it is empty
    """
    files = Path(__file__).parent.glob("engine_*.py")
    names = sorted(file.stem.removeprefix("engine_") for file in files)
    if name not in names:
        raise ValueError(f"engine {name!r}: expected one of {', '.join(names)}")
    try:
        engine = import_module(f"engine_{name}")
    except ModuleNotFoundError as missing:
        how = "pip install --group engines"
        raise ValueError(f"{missing.name} is not installed: {how}") from missing
    way = way or [*engine.WAYS][0]
    if way not in engine.WAYS:
        raise ValueError(f"way {way!r}: expected one of {', '.join(engine.WAYS)}")
    began = time.perf_counter()
    (target,), encoder = load_models([str(PAIR[0])], "", get_backend())
    trials = [Trial(job, target, encoder) for job in JOBS if len(job.prompts) <= engine.TOGETHER]
    with tempfile.TemporaryDirectory() as folder:
        write = engine.start(way, *PAIR, K, Path(folder))
        measure(trials, write, seconds)
    tried = [trial for trial in trials if trial.runs]
    jobs = [report(trial, encoder) for trial in tried]
    return dict(
        engine=engine.VERSION,
        way=engine.WAYS[way],
        K=K,
        verdict="wrong" if any(job["verdict"] == "wrong" for job in jobs) else "not told apart",
        runs=sum(job["runs"] for job in jobs),
        seconds=time.perf_counter() - began,
        date=time.strftime("%Y-%m-%d"),
        jobs=jobs,
    )


def main():
    """The command. Exits with the code that the top of this file says."""
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(
        description=lines[0],
        epilog="\n".join(lines[1:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("engine")
    parser.add_argument("way", nargs="?", help="of drafting; the engine's first by default")
    parser.add_argument("--seconds", type=float, default=90.0, help="of measuring")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    try:
        result = judge(arguments.engine, arguments.way, arguments.seconds)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(json.dumps(result) if arguments.json else describe(result))
    sys.exit(1 if result["verdict"] == "wrong" else 0)


if __name__ == "__main__":
    main()
