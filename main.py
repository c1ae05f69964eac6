"""The command line: python main.py writes a text twice, autoregressively and speculatively, and compares.

This file parses, calls and prints; the algorithm lives in sampling.py. A value that cannot be used ends the program with
one line on stderr and exit code 2.
"""

import importlib
import json as json_format
import os
import sys

import backends.blas  # noqa: F401, isort: skip: chooses BLAS kernels and threads, so it comes before NumPy

import utils
from experiments.arguments import call
from sampling import Filter, stop_at
from utils import InputError

COMMANDS = {"generate": __name__, "profile": "experiments.profiling"}  # in which module; imported when asked for
COMMANDS |= {"benchmark": "experiments.benchmark", "advise": "experiments.advise"}
COMMANDS |= dict.fromkeys(("record", "replay"), "experiments.replay")

# ---------------------------------------------------------------- what the user gave


def read_prompt(prompt):
    """The prompt itself, or standard input for "-", without its last line break."""
    if prompt != "-":
        return prompt
    if sys.stdin is None:
        raise InputError("--prompt -: standard input is closed; give the text after --prompt")
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input: byte {error.start} is not UTF-8; convert the text first") from None


def check_settings(K, n_tokens_to_generate, seed, mode, temperature, top_k, top_p, **others):
    """The Filter of these settings. Raises InputError for one that makes no sense."""
    for name, value, least in (("K", K, 1), ("n_tokens_to_generate", n_tokens_to_generate, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"--{name} {value}: expected {least} or more")
    if mode not in ("both", "autoregressive", "speculative"):
        raise InputError(f"--mode {mode!r}: expected both, autoregressive or speculative")
    try:
        return Filter(temperature, top_k, top_p)
    except ValueError as error:
        raise InputError(f"--{error}") from None


def token_ids(name, text, encoder):
    try:
        return encoder.encode(text)
    except ValueError as error:
        raise InputError(f"--{name}: {error}") from None


def prompt_ids(prompt, encoder, n_ctx, n_tokens):
    """The prompt as token ids; an empty one starts from <|endoftext|>. Raises InputError if it does not fit."""
    ids = token_ids("prompt", read_prompt(prompt), encoder) or [encoder.end_of_text]
    if len(ids) >= n_ctx:
        raise InputError(f"the prompt has {len(ids)} tokens: expected at most {n_ctx - 1}, the context less one; shorten it")
    if len(ids) + n_tokens > n_ctx:
        print(f"note: the context ends after {n_ctx - len(ids)} of {n_tokens} tokens", file=sys.stderr)
    return ids


# ---------------------------------------------------------------- the command


def show_run(result, prompt):
    """One block of the output; the text is left out where it was streamed."""
    print("Time = {seconds:.2f}s after {prefill_seconds:.2f}s of prefill,".format(**result), end=" ")
    print("{tokens_per_second:.1f} tokens/s".format(**result))
    print("" if prompt is None else f"Text = {prompt}{result['text']}\n")


def show_comparison(results, temperature):
    """What the two decoders have in common, below their blocks."""
    one, difference = results["speculative"], results.get("difference")
    if one and one["examined"]:
        print(f"Acceptance rate = {one['acceptance_rate']:.3f} ({one['accepted']} of {one['examined']} examined drafts)")
    if one:
        print(f"Tokens per target pass = {one['tokens_per_target_pass']:.2f}")
    if results["speedup"]:
        print(f"Speedup = {results['speedup']:.2f}")
    if results["identical"]:
        print("The two texts are identical.")
    elif difference:
        print("The two texts differ from token {position} on: {verdict}.".format(**difference), end=" ")
        print("The two best logits there are {gap:.2g} apart, float error is {float_error:.2g}.".format(**difference))
    elif results["identical"] is False:
        print(f"The two texts differ, as two draws from one distribution do at temperature {temperature}.")


def generate(
    prompt="Once upon a time",
    n_tokens_to_generate=60,
    draft_model_size="0.7M",
    target_model_size="7M",
    models_dir=utils.MODELS_DIR,
    K=4,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    seed=123,
    stop="",
    mode="both",
    stream=False,
    backend="numpy",
    kernels="auto",
    verbose=False,
    json=False,
):
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Args:
        prompt: the text to continue, or - for standard input; <|endoftext|> in it is ordinary text
        n_tokens_to_generate: how many tokens, unless <|endoftext|>, the stop string or the end of the context comes first
        draft_model_size: a size in models_dir, a folder, or ngram, which looks up what followed in the text itself
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        K: how many tokens are drafted in a round
        temperature: 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        seed: of the random draws
        stop: end with the token that completes this string
        mode: both, autoregressive or speculative
        stream: print the text while it is written
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64 columns on 2 threads
        verbose: say on stderr which kernels were chosen
        json: print one JSON object and nothing else

    Other commands, each with --help: python main.py profile, benchmark, advise, record, replay
    """
    settings = {name: value for name, value in locals().items() if name not in ("json", "verbose")}
    from experiments.running import compare, decode, speculation, timed_run

    filter = check_settings(**settings)
    arrays = utils.get_backend(backend, kernels)
    draft_size = draft_model_size if mode != "autoregressive" else None
    target, draft, encoder = utils.load_pair(target_model_size, draft_size, models_dir, arrays)
    if verbose:
        for role, model in (("target", target), ("draft", draft)):
            for shape, kernel in utils.kernels_of(model).items() if model else ():
                print(f"{role} {shape}: {kernel}", file=sys.stderr)
    token_ids("stop", stop, encoder)  # refuses what is no text
    ids = prompt_ids(prompt, encoder, target.config.n_ctx, n_tokens_to_generate)
    ended = stop_at(encoder, stop)

    def rounds_of(decoder, n_tokens):
        return decode(decoder, target, draft, ids, n_tokens, K, filter, seed, ended)

    show = (lambda text: print(text, end="", flush=True)) if stream and not json else None
    results = {"autoregressive": None, "speculative": None}
    for decoder in results if mode == "both" else [mode]:
        list(rounds_of(decoder, 2))  # warm-up: new memory is slow the first time, which one side only would pay
        if not json:
            print(f"{decoder.capitalize()} Decode\n{'-' * len(decoder + ' decode')}")
            print(f"Text = {encoder.decode(ids)}" if stream else "", end="", flush=True)
        done, result = timed_run(rounds_of(decoder, n_tokens_to_generate), n_tokens_to_generate, encoder, show)
        results[decoder] = result | (speculation(done) if decoder == "speculative" else {})
        if not json:
            show_run(result, None if stream else encoder.decode(ids))
    results |= compare(*results.values(), target, ids, filter)
    if json:
        print(json_format.dumps({"settings": settings, "prompt_token_ids": ids, **results}))
    else:
        show_comparison(results, temperature)


def main(arguments):
    """Run one command; without its name, generate. Returns the exit code."""
    name = arguments.pop(0) if arguments and arguments[0] in COMMANDS else "generate"
    try:
        command = getattr(importlib.import_module(COMMANDS[name]), name)
        call(command, arguments)
        sys.stdout.flush()
        return 0
    except InputError as error:
        print("error:", "\\n".join(str(error).splitlines()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # nobody reads our output any more, or its disk is full; leave nothing to be flushed later
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"error: {error}", file=sys.stderr)
        return 141 if isinstance(error, BrokenPipeError) else 1


if __name__ == "__main__":
    sys.stdout = sys.stdout or open(os.devnull, "w")  # the shell may have closed it
    sys.stdout.reconfigure(errors="replace")
    sys.exit(main(sys.argv[1:]))
