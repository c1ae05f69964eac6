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
    import backends.before_numpy  # noqa: F401, chooses BLAS kernels and threads, before NumPy
    from checkpoints.errors import InputError
    from cli.exit_codes import run_for_exit_code, run_program
    from cli.parser import call
    from cli.texts import Output, Texts, check_combination, has_several_results
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
    "mistakes": "experiments.measure_mistakes",
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

    Other commands, each with its own --help:
        chat        continue prompts in a console
        play        watch both decoders on a page in the browser
        mistakes    list the known ways to get speculative decoding wrong
        benchmark   measure drafts, values of K, batches, other programs
        profile     time the parts of a forward pass
        record      store what a target and a draft say about some texts
        replay      try other settings on what was recorded
        download    fetch OpenAI's models
        check       compare a model's files with what is known of them
        export      write a model in the format of another program
    """
    # here: --help need not wait for them
    from cli import show
    from cli.from_flags import config_from, json_of, kernels_in, load_pair
    from decoding.metrics import summary
    from decoding.run import with_median_times

    # load the pair of models, and read the prompt
    check_combination(texts, settings, output)
    if has_several_results(texts, output):
        from cli.several_prompts import generate_several

        return generate_several(texts, settings, output)
    config = config_from(settings)
    pair = load_pair(settings, output.download)
    (prompt,) = texts.encode(pair, settings.seed)
    screen = show.Screen(settings, output, prompt, pair)

    # decode both ways: finish() runs sampling.autoregressive or sampling.speculative to its end
    runs = {decoder: config.new_run(pair, prompt, decoder) for decoder in settings.decoders}
    results = {}
    for decoder, run in runs.items():
        run.warm_up()
        watchers = screen.begin(run, decoder)
        result = run.finish(*watchers)
        # a report shows the seconds of each round of this one run
        results[decoder] = result if settings.report else with_median_times(result, run)
        screen.end(decoder, results[decoder])

    # compare the texts and their times
    compared = summary(config, pair, prompt, results)
    kernels = kernels_in(settings, pair)
    screen.compare(json_of(settings, config, pair, prompt, compared, kernels))


def dispatch(arguments):
    """Run the command that the words (a list of str) begin with, or `generate` if they begin with a
    flag (not --version) or are empty. Raises InputError for an unknown command.
    """
    if arguments == ["--version"]:
        print(VERSION)
        return
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    name, command = "generate", generate
    if arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
    if name not in COMMANDS:
        from cli.hints import unknown_message  # here: a word that is known needs no hint

        expected = f"{', '.join(COMMANDS)}, or flags such as --prompt TEXT; try --help"
        raise InputError(unknown_message("command", name, COMMANDS, expected))
    if name != "generate":
        command = getattr(importlib.import_module(COMMANDS[name]), name)
    call(command, arguments)  # with the dataclasses of its signature, made from the flags


def main(arguments):
    """Run a command line, given as a list of str. Returns the exit code; prints errors."""
    return run_for_exit_code(lambda: dispatch(arguments))


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
