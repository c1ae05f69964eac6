"""The command line: python main.py writes a text twice, autoregressively and speculatively, and
compares.

This file parses, calls and prints; the algorithm lives in sampling.py. A value that cannot be used
ends the program with one line on stderr and exit code 2.
"""

import importlib
import json as json_format
import signal
import sys

if __name__ == "__main__":
    # until there is something to interrupt, Ctrl-C just ends the program
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import backends.blas  # noqa: F401, isort: skip: chooses BLAS kernels and threads, so it comes before NumPy

try:
    import utils
    from experiments.cli.flags import call, exit_code, script
except ModuleNotFoundError as missing:
    print(
        f"error: {missing.name} is not installed: pip install -r requirements.txt", file=sys.stderr
    )
    sys.exit(2)

COMMANDS = {  # in which module; imported when asked for
    "generate": __name__,
    "chat": "experiments.commands.chat",
    "profile": "experiments.commands.profile",
    "benchmark": "experiments.commands.benchmark",
    "record": "experiments.commands.replay",
    "replay": "experiments.commands.replay",
    "advise": "experiments.commands.advise",
    "throughput": "experiments.commands.throughput",
    "mistakes": "experiments.commands.mistakes",
    "download": "experiments.commands.download",
    "check": "experiments.commands.check",
}


# flags that are no setting of a text
HOW = ("prompts", "download", "batch_size", "out", "verbose", "json")


def generate(
    prompt=("Once upon a time",),
    prompts="",
    n_tokens_to_generate=60,
    draft_model_size="0.7M",
    target_model_size="7M",
    models_dir=utils.MODELS_DIR,
    download=False,
    K="4",
    draft_confidence=0.0,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    coupled=False,
    seed=123,
    stop="",
    mode="both",
    mistake="",
    batch_size=8,
    out="",
    stream=False,
    trace=False,
    report="",
    backend="numpy",
    dtype="float32",
    kernels="auto",
    exact=False,
    verbose=False,
    json=False,
):
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Args:
        prompt: the text to continue, or - for standard input; <|endoftext|> in it is ordinary text;
            may be given again
        prompts: a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line; also
            .gz and .bz2
        n_tokens_to_generate: how many tokens, unless <|endoftext|>, the stop string or the end of
            the context comes first
        draft_model_size: a size in models_dir, a folder, or ngram, which looks up what followed in
            the text itself
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        download: fetch what is missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face repository
            as owner/name
        K: how many tokens are drafted in a round; auto chooses anew each round, from acceptance and
            what one text's rounds cost
        draft_confidence: end a draft where its model gives no token as much probability
        temperature: 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        coupled: draft and target share the noise of each position, so that the two texts are the
            same at any temperature
        seed: of the random draws; with several prompts, of the first, and one more for each after
            it. The same seed gives the
            same text, but with K auto, which depends on what passes take
        stop: end with the token that completes this string
        mode: both, autoregressive or speculative
        mistake: one of the museum's (python main.py mistakes) for the speculative decoder to make
        batch_size: of several prompts, how many are decoded together
        out: write the JSON objects of several prompts to this file, a line each; goes on where an
            interrupted run ended
        stream: print the text while it is written
        trace: print the speculative text round by round, each token marked by where it came from;
            not with json
        report: write the speculative run to this .html file, with the numbers of every decision, to
            look at in a browser
        backend: numpy or cupy
        dtype: float32, or float16 with cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64
            columns on 2 threads
        exact: let no bit of a logit depend on how many tokens share a pass, so that greedy texts
            are identical even at a tie
        verbose: say on stderr which kernels were chosen
        json: print one JSON object and nothing else; a line each for several prompts

    Other commands, each with --help: chat, profile, benchmark, record, replay, advise, throughput,
    mistakes, download, check
    """
    settings = locals()
    from experiments.decoding.recorder import Watch
    from experiments.decoding.running import streaming
    from experiments.decoding.session import Generation
    from experiments.decoding.settings import choose_texts, parse_K
    from experiments.showing.page import write_report
    from experiments.showing.text import show_comparison, show_run, show_together, title
    from experiments.showing.trace import Trace

    texts = choose_texts(**settings)
    # and what does not change a text is no setting of it
    own = {"K": parse_K(K), "prompt": texts[0]}
    settings = {name: own.get(name, value) for name, value in settings.items() if name not in HOW}
    run = Generation(settings, json, download)
    if verbose:
        print(*run.kernels(), sep="\n", file=sys.stderr)
    if len(texts) > 1 or prompts or out:
        return show_together(run, texts, batch_size, out, json)
    text, watch = texts[0], Watch(coupled) if trace or report or coupled else None
    runs, ids = {}, run.prompt_ids(text)
    for decoder in run.decoders:
        # warm-up: new memory is slow the first time
        list(run.rounds(decoder, ids, seed, watch, n_tokens=2))
        traced, begin, show = (
            trace and decoder == "speculative",
            f"Text = {run.encoder.decode(ids)}",
            None,
        )
        if not json:
            print(title(f"{decoder.capitalize()} Decode"))
            show = (
                Trace(watch, run.encoder)
                if traced
                else streaming(run.encoder, begin)
                if stream
                else None
            )
        runs[decoder] = run.run(decoder, ids, seed, show, watch)
        if not json:
            show_run(runs[decoder], "" if stream and not traced else begin)
    results = run.summary(text, ids, seed, runs)
    if report:
        write_report(report, results["settings"], ids, watch.notes, results, run.encoder)
    if json:
        print(json_format.dumps(results))
    else:
        show_comparison(results)
        print(f"Report: {report}\n" if report else "", end="")


def main(arguments):
    """Run one command; without its name, generate. Returns the exit code."""
    name = arguments.pop(0) if arguments and arguments[0] in COMMANDS else "generate"
    return exit_code(
        lambda: call(getattr(importlib.import_module(COMMANDS[name]), name), arguments)
    )


if __name__ == "__main__":
    script(lambda: main(sys.argv[1:]))
