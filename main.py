"""The command line: python main.py continues a prompt twice, autoregressively and speculatively,
and compares the two.

`generate` shows the job from top to bottom: load the pair of models, decode both ways, compare. The
algorithm is in sampling.py, and decoding/run.py calls it. The flags and their defaults are in
cli/flags.py, the other commands in cli/ and experiments/. A value that cannot be used ends the
program with one line on stderr and exit code 2.
"""

import importlib
import signal
import sys

VERSION = "1.0.0"

if __name__ == "__main__":
    # until there is something to interrupt, Ctrl-C just ends the program
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    # isort: off
    import backends.blas  # noqa: F401, chooses BLAS kernels and threads: import it before NumPy
    from checkpoints.files import InputError
    from cli.exit_codes import exit_code, script
    from cli.parser import call, unknown
    from cli.texts import Output, Texts, check_together, several
    from cli.flags import Settings
except ModuleNotFoundError as missing:
    message = f"error: {missing.name} is not installed: pip install -r requirements.txt"
    print(message, file=sys.stderr)
    sys.exit(2)

# {command: the module that has it}, imported when asked for; generate is below
COMMANDS = {
    "generate": "main",
    "chat": "cli.chat",
    "play": "cli.play",
    "download": "cli.download",
    "check": "cli.check",
    "export": "cli.export",
    "mistakes": "experiments.mistakes",
    "profile": "experiments.benchmark.profile",
    "benchmark": "experiments.benchmark.benchmark",
    "record": "experiments.replay.record",
    "replay": "experiments.replay.replay",
}


def generate(texts: Texts, settings: Settings, output: Output):
    """Continue a prompt autoregressively and speculatively, and compare the texts and their times.

    Both decoders sample from the distribution of a large model, the target. The speculative one
    lets a small draft model propose tokens, and so needs fewer passes of the target. Without flags,
    models that come with this repository continue "Once upon a time".

    Examples:
        python main.py --prompt "Once upon a time" --K 4 --trace
        python main.py --prompts prompts.txt --temperature 0.8 --out texts.jsonl

    Other commands:
        chat, play, profile, benchmark, record, replay, mistakes, download, check, export;
        each has its own --help
    """
    # here: --help need not wait for them
    from cli import show
    from decoding.metrics import summary
    from decoding.load import load_pair
    from decoding.run import Run

    # load the pair of models, and read the prompt
    check_together(texts, settings, output)
    if several(texts, output):
        from cli.several import generate_several

        return generate_several(texts, settings, output)
    pair = load_pair(settings, output.download)
    (prompt,) = texts.read(settings, pair)
    screen = show.Screen(settings, output, prompt, pair)

    # decode both ways: finish() runs sampling.autoregressive or sampling.speculative to its end
    runs = {decoder: Run.of(settings, pair, prompt, decoder) for decoder in settings.decoders}
    results = {}
    for decoder, run in runs.items():
        run.warm_up()
        watchers = screen.begin(run, decoder)
        results[decoder] = run.finish(*watchers)
        screen.end(decoder, results[decoder])

    # compare the texts and their times
    screen.compare(summary(settings, pair, prompt, results))


def dispatch(arguments):
    """Run one command; without its name, generate."""
    if arguments == ["--version"]:
        print(VERSION)
        return
    name, command = "generate", generate
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
    if name not in COMMANDS:
        raise InputError(unknown("command", name, COMMANDS) + ", or flags such as --prompt TEXT")
    if name != "generate":
        command = getattr(importlib.import_module(COMMANDS[name]), name)
    call(command, arguments)  # with the dataclasses of its signature, made from the flags


def main(arguments):
    """Run one command. Returns the exit code."""
    return exit_code(lambda: dispatch(arguments))


if __name__ == "__main__":
    script(lambda: main(sys.argv[1:]))
