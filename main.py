"""The command line: python main.py continues a prompt twice, autoregressively and speculatively,
and compares the two. `generate` shows the job from top to bottom; the algorithm is in sampling.py.
"""

import signal
import sys

if sys.version_info < (3, 10):
    print(
        "error: this Python is {}.{}: use 3.10 or newer".format(*sys.version_info), file=sys.stderr
    )
    sys.exit(2)
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load, Ctrl-C just ends the program

from collections.abc import Callable
from json import dumps
from typing import Any, Literal

try:
    import backends.before_numpy  # noqa: F401, isort: skip: BLAS kernels and threads, before NumPy

    from checkpoints.registry import MODELS_DIR
    from cli import show
    from cli.command import run_program, values_of
    from decoding.decode import (
        begin,
        compare,
        decode,
        decoders_of,
        encode_prompt,
        median_turn,
        options_of,
        pair_of,
    )
except ModuleNotFoundError as missing:
    problem = f"{missing.name} is not installed: pip install {missing.name}"
    if missing.name == "backends":
        problem = "python -I and -P leave out the folder of main.py; run it without them"
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)

VERSION = "2.1.0"
N_TURNS = 3  # of both decoders; one if they take longer than this many seconds
LONG = 5.0


def generate(
    *,
    prompt: str = "Once upon a time there lived a king",
    n_tokens_to_generate: int = 60,
    stop: str = "",
    mode: Literal["both", "autoregressive", "speculative"] = "both",
    target_model_size: str = "17M",
    draft_model_size: str = "0.7M-17M",
    models_dir: str = MODELS_DIR,
    K: int | Literal["auto"] = 4,
    verification: Literal["token", "block"] = "token",
    coupled: bool = False,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 123,
    trace: bool = False,
    stream: bool = False,
    json: bool = False,
    backend: Literal["numpy", "cupy", "cupy-float16"] = "numpy",
) -> None:
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Both decoders sample from the distribution of a large model, the target. The speculative one
    lets a small draft model propose tokens, and so needs fewer passes of the target.

        python main.py --prompt "The fox said to the crow" --K 6 --temperature 0.8

    Other commands, each with its own --help:
        batch       continue the prompts of a file
        chat        continue prompts as you type them
        play        watch both decoders on a page in the browser
        prove       judge whether your sampler keeps the distribution
        cases       write cases for a sampler in another language, to be judged by prove
        mistakes    see known mistakes at work
        benchmark   measure drafts, values of K, temperatures, batches
        replay      count the tokens that drafts would get right in recorded texts
        download    fetch models from Hugging Face
        check       compare a model's files with what is known of them

    Flags:
        prompt: the text to continue, or - for standard input
        n_tokens_to_generate: how many tokens to write; the text may end before
        stop: stop after the token that completes this string; \\n is a new line, \\\\ a backslash
        mode: which decoders to run: both, autoregressive or speculative
        target_model_size: the model you want text from: a name in models_dir, or a folder
        draft_model_size: the model that proposes tokens; or ngram, eagle or medusa
        models_dir: the folder that holds a folder for each model
        K: how many tokens to draft per round; auto chooses for each round
        verification: the accept/reject rule: for each token, or for a round as a block
        coupled: draft and target share their noise, so that the two texts are the same
        temperature: 0 is greedy decoding
        top_k: sample from the top_k most likely tokens; 0 keeps all
        top_p: sample from the fewest most likely tokens that together reach this probability
        seed: of the random numbers; the same command gives the same text, except with K auto
        trace: print the speculative text round by round, every token marked
        stream: print the text while it is written
        json: print one JSON object and nothing else
        backend: numpy, or cupy on a GPU, or cupy-float16
    """
    if prompt == "-":
        prompt = sys.stdin.read().removesuffix("\n")
    flags = values_of(generate, locals())  # {flag: value}
    if json and (trace or stream):
        raise ValueError("--json: expected no --trace and no --stream with it")
    options = options_of(flags)  # of a text: its length, K, the temperature, the seed, ...

    # load the models, and encode the prompt
    target, draft_model, encoder = pair_of(flags)
    ids = encode_prompt(prompt, encoder, target)

    # decode with each of the two loops, and show the texts
    turns: dict[Any, list[dict]] = {decoder: [] for decoder in decoders_of(mode)}
    for decoder, results in turns.items():
        rounds = begin(decoder, target, draft_model, encoder, ids, **options)
        results.append(show.first_text(decoder, rounds, encoder, flags))

    # decode short texts again, for a median time
    seconds = sum(results[0]["seconds"] for results in turns.values())
    n_turns = N_TURNS if mode == "both" and seconds <= LONG else 1
    for _ in range(1, n_turns):
        for decoder, results in turns.items():
            rounds = begin(decoder, target, draft_model, encoder, ids, **options)
            results.append(decode(rounds, encoder, show.progress))

    # compare; the target's logits tell rounding from a bug, if the texts differ
    compared = compare(turns, target, ids, options)
    median = {decoder: median_turn(results) for decoder, results in turns.items()}
    if json:
        print(dumps({"settings": flags, "prompt_token_ids": ids, **median, **compared}))
    else:
        show.comparison(median, compared)


def version() -> None:
    """Print the version of this program."""
    print(VERSION)


COMMANDS: dict[str, Callable | str] = {
    "generate": generate,
    "batch": "cli.batch",
    "chat": "cli.chat",
    "play": "page.play",
    "prove": "proof.command",
    "cases": "proof.json_cases",
    "mistakes": "proof.mistakes",
    "benchmark": "bench.benchmark",
    "replay": "bench.replay",
    "download": "cli.download",
    "check": "cli.check",
    "version": version,
}


def main() -> None:
    """Run the command line of this process: the `speculate` of an installed package."""
    run_program(COMMANDS)


if __name__ == "__main__":
    main()
