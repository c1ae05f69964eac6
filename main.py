"""The command line: python main.py continues a prompt twice, autoregressively and speculatively,
and compares the two.

`generate` shows the job from top to bottom: load the pair of models, decode both ways, compare. The
algorithm is in sampling.py; the other commands are in experiments/commands. A value that cannot be
used ends the program with one line on stderr and exit code 2.
"""

import importlib
import json as json_format
import signal
import sys

VERSION = "1.0.0"

if __name__ == "__main__":
    # until there is something to interrupt, Ctrl-C just ends the program
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    # isort: off
    import backends.blas  # noqa: F401, chooses BLAS kernels and threads: import it before NumPy
    from experiments.cli.exit_codes import exit_code, script
    from experiments.cli.flags import call, unknown
    from experiments.cli.texts import DEFAULT, check_job, choose_texts
    from experiments.decoding.settings import Settings
    from utils import InputError
except ModuleNotFoundError as missing:
    if missing.name.split(".")[0] in ("backends", "experiments"):
        problem = "Python does not look beside main.py: unset PYTHONSAFEPATH, and leave out -P"
    else:
        problem = f"{missing.name} is not installed: pip install -r requirements.txt"
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(2)

# {command: its module}, imported when asked for
COMMANDS = {
    "generate": __name__,
    "chat": "experiments.commands.chat",
    "play": "experiments.commands.play",
    "profile": "experiments.commands.profile",
    "benchmark": "experiments.commands.benchmark",
    "record": "experiments.commands.record",
    "replay": "experiments.commands.replay",
    "advise": "experiments.commands.advise",
    "throughput": "experiments.commands.throughput",
    "candidates": "experiments.commands.candidates",
    "mistakes": "experiments.commands.mistakes",
    "download": "experiments.commands.download",
    "check": "experiments.commands.check",
    "export": "experiments.commands.export",
    "gpu": "experiments.commands.gpu",
}


def generate(
    settings: Settings,
    prompt=DEFAULT,
    prompts="",
    prompt_ids="",
    download=False,
    batch_size=8,
    out="",
    cluster="",
    verbose=False,
    json=False,
):
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Both decoders sample from the distribution of a large model, the target. The speculative one
    lets a small draft model propose tokens, and so needs fewer passes of the target. Without flags,
    models that come with this repository continue "Once upon a time".

    Text:
        prompt: the text to continue, or - for standard input; <|endoftext|> in it is ordinary text;
            repeat the flag for several prompts
        prompts: a file of prompts: JSON Lines, a JSON array, HellaSwag's form, or one a line; also
            .gz and .bz2. Prompts that are too long are skipped, and named on stderr
        prompt_ids: the prompt as token ids, such as 1,2,3

    Models:
        download: download models that are missing: 82M, 124M, 355M, 774M, 1558M, or a Hugging Face
            repository as owner/name

    Output:
        out: write one JSON object per prompt to this file, a line each; an interrupted run
            continues where it stopped
        json: print one JSON object and nothing else; one line per prompt for several
        verbose: print the chosen kernels on stderr; not with --cluster

    Machine:
        batch_size: how many of several prompts to decode together
        cluster: spread several prompts over the workers of a Dask cluster: local:4 starts four
            here, tcp://HOST:8786 is a running scheduler

    Examples:
        python main.py --prompt "Once upon a time" --K 4 --trace
        python main.py --prompts prompts.txt --temperature 0.8 --out texts.jsonl

    Other commands:
        chat, play, profile, benchmark, record, replay, advise, throughput, candidates, mistakes,
        download, check, export, gpu; each has its own --help
    """
    from experiments.candidates.paths import along_paths
    from experiments.data.prompts import note_form
    from experiments.decoding.decoders import decode
    from experiments.decoding.session import Session, models_of
    from experiments.proving.mistakes import committing, in_its_rule
    from experiments.showing.page import write_report
    from experiments.showing.text import (
        new_show,
        note_room,
        show_comparison,
        show_run,
        show_together,
        title,
    )

    check_job(settings, prompt, prompts, prompt_ids, batch_size, out, json, cluster, verbose)
    texts, form = choose_texts(prompt, prompts)

    # load the pair of models
    if settings.mistake:
        settings, decode = in_its_rule(settings), committing(settings.mistake, decode)
    if settings.paths > 1:
        decode = along_paths(settings.paths, decode)
    if cluster:
        from experiments.cluster.texts import ClusterSession

        session = ClusterSession(settings, cluster, download)
    else:
        session = Session(settings, models_of(settings, download), decode)
    if verbose:
        print(*session.kernels(), sep="\n", file=sys.stderr)
    if prompt_ids:
        chosen = [session.prompt_of_ids(prompt_ids)]
    else:
        chosen = session.prompts(texts, file=prompts)
    if prompts:
        note_form(prompts, texts, form)
    for one in chosen:
        note_room(one, settings.n_tokens_to_generate, session.target.config.n_ctx)
    if prompts or out or len(chosen) > 1:
        return show_together(session, chosen, batch_size, out, json)

    # decode both ways: session.run calls sampling.autoregressive or sampling.speculative
    (prompt,) = chosen
    results, watch = {}, session.new_watch()
    for decoder in settings.decoders:
        session.warm_up(decoder, prompt)
        if json:
            results[decoder] = session.run(decoder, prompt, None, watch)
            continue
        print(title(f"{decoder.capitalize()} Decode"))
        show = new_show(session, decoder, prompt, watch)
        results[decoder] = session.run(decoder, prompt, show, watch)
        show_run(session, prompt, results[decoder], show)

    # compare the texts and their times
    summary = session.summary(prompt, results)
    if settings.report:
        page = (summary["settings"], prompt.ids, watch.notes, summary, session.encoder)
        write_report(settings.report, *page)
    if json:
        print(json_format.dumps(summary))
    else:
        show_comparison(summary)
        if settings.report:
            print(f"Report: {settings.report}")


def run(arguments):
    """Run one command; without its name, generate."""
    if arguments == ["--version"]:
        print(VERSION)
        return
    name = "generate"
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
    if name not in COMMANDS:
        raise InputError(unknown("command", name, COMMANDS) + ", or flags such as --prompt TEXT")
    call(getattr(importlib.import_module(COMMANDS[name]), name), arguments)


def main(arguments):
    """Run one command. Returns the exit code."""
    return exit_code(lambda: run(arguments))


if __name__ == "__main__":
    script(lambda: main(sys.argv[1:]))
