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

COMMANDS = {  # in which module; imported when asked for
    "generate": __name__,
    "chat": "experiments.console",
    "profile": "experiments.profiling",
    "benchmark": "experiments.benchmark",
    "record": "experiments.replay",
    "replay": "experiments.replay",
    "advise": "experiments.advise",
    "mistakes": "experiments.mistakes",
    "download": "checkpoints.download",
    "check": "checkpoints.doctor",
}


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
        if "usual_acceptance_rate" in one:
            from experiments.coupling import WHY_LOWER

            print(f"The usual rule would accept {one['usual_acceptance_rate']:.3f} of the same drafts, on average.")
            print(WHY_LOWER)
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
    download=False,
    K=4,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    seed=123,
    stop="",
    mode="both",
    stream=False,
    backend="numpy",
    dtype="float32",
    kernels="auto",
    exact=False,
    mistake="",
    verbose=False,
    json=False,
    trace=False,
    report="",
    coupled=False,
):
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Args:
        prompt: the text to continue, or - for standard input; <|endoftext|> in it is ordinary text
        n_tokens_to_generate: how many tokens, unless <|endoftext|>, the stop string or the end of the context comes first
        draft_model_size: a size in models_dir, a folder, or ngram, which looks up what followed in the text itself
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        download: fetch what is missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face repository as owner/name
        K: how many tokens are drafted in a round
        temperature: 0 is greedy decoding
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        seed: of the random draws
        stop: end with the token that completes this string
        mode: both, autoregressive or speculative
        stream: print the text while it is written
        backend: numpy or cupy
        dtype: float32, or float16 with cupy
        kernels: how NumPy multiplies: auto measures, plain is NumPy's own, 64x2 is tiles of 64 columns on 2 threads
        exact: let no bit of a logit depend on how many tokens share a pass, so that greedy texts are identical even at a tie
        mistake: one of the museum's (python main.py mistakes) for the speculative decoder to make
        verbose: say on stderr which kernels were chosen
        json: print one JSON object and nothing else
        trace: print the speculative text round by round, each token marked by where it came from; not with json
        report: write the speculative run to this .html file, with the numbers of every decision, to look at in a browser
        coupled: draft and target share the noise of each position, so that the two texts are the same at any temperature

    Other commands, each with --help: chat, profile, benchmark, record, replay, advise, mistakes, download, check
    """
    settings = {name: value for name, value in locals().items() if name not in ("json", "verbose", "download")}
    from experiments.coupling import Noisy
    from experiments.inputs import check_settings, prompt_ids, read_prompt, token_ids
    from experiments.report import write_report
    from experiments.running import compare, decode, speculation, streaming, timed_run
    from experiments.watching import Trace, Watch

    if mistake:
        from experiments.mistakes import committing

        decode = committing(mistake, decode)
    filter = check_settings(**settings, json=json)
    arrays = utils.get_backend(backend, kernels, exact, dtype)
    draft_size = draft_model_size if mode != "autoregressive" else None
    target, draft, encoder = utils.load_pair(target_model_size, draft_size, models_dir, arrays, download)
    if verbose:
        for role, model in (("target", target), ("draft", draft)):
            for shape, kernel in utils.kernels_of(model).items() if model else ():
                print(f"{role} {shape}: {kernel}", file=sys.stderr)
    token_ids("stop", stop, encoder)  # refuses what is no text
    text = read_prompt(prompt)
    ids = prompt_ids(text, encoder, target.config.n_ctx, n_tokens_to_generate)
    ended, watch, begin = stop_at(encoder, stop), Watch(coupled), encoder.decode(ids)
    sampled, own = (Noisy(target, filter, seed), Filter()) if coupled else (target, filter)

    def rounds_of(decoder, n_tokens):
        if decoder == "speculative" and (trace or report or coupled):
            return watch.decode(target, draft, ids, n_tokens, K, filter, seed, ended)
        return decode(decoder, sampled, draft, ids, n_tokens, K, own, seed, ended)

    results = {"autoregressive": None, "speculative": None}
    for decoder in results if mode == "both" else [mode]:
        list(rounds_of(decoder, 2))  # warm-up: new memory is slow the first time, which one side only would pay
        traced, show = trace and decoder == "speculative", None
        if not json:
            print(f"{decoder.capitalize()} Decode\n{'-' * len(decoder + ' decode')}")
            show = Trace(watch, encoder) if traced else streaming(encoder, f"Text = {begin}") if stream else None
        done, result = timed_run(rounds_of(decoder, n_tokens_to_generate), n_tokens_to_generate, encoder, show, watch.clock)
        results[decoder] = result | (speculation(done) if decoder == "speculative" else {})
        if not json:
            show_run(result, None if stream and not traced else begin)
    if coupled and results["speculative"]:
        results["speculative"]["usual_acceptance_rate"] = watch.usual_acceptance_rate()
    results |= compare(*results.values(), sampled, ids, own)
    if report:
        write_report(report, settings | {"prompt": text}, ids, watch.notes, results, encoder)
    if json:
        print(json_format.dumps({"settings": settings, "prompt_token_ids": ids, **results}))
    else:
        show_comparison(results, temperature)
        print(f"Report: {report}" if report else "", end="\n" if report else "")


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
