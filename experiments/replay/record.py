"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/replay/recordings.py.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tqdm import tqdm

from checkpoints.files import name_of
from cli.files import check_output
from cli.flags import Machine, PromptFile, Sampling, Target, Workers, flag
from cli.lines import Lines
from decoding.cluster.failed import require_all
from decoding.cluster.place import place
from decoding.load import ModelNames
from decoding.run import Run
from experiments.replay.recordings import FORMAT
from experiments.replay.simulate import record_text
from sampling import Chance

GROUP = 4  # texts, that a worker of a cluster is given at a time


@dataclass(frozen=True)
class RecordSettings(Machine, Sampling, PromptFile, Target):
    """What decides the texts of a log; its first line has them."""

    top: int = flag(
        50,
        "at a temperature above 0: how many of the most likely tokens to keep in the log, with "
        "their probabilities",
        least=1,
    )

    def portable(self):
        """The settings without where this machine keeps its files."""
        settings = self.as_dict() | {
            "target_model_size": name_of(self.target_model_size),
            "prompts": Path(self.prompts).name,
        }
        del settings["models_dir"]
        return settings


@dataclass(frozen=True)
class LogFile(Workers):
    out: str = flag("", "the log to write, a new .jsonl or .jsonl.gz file")

    def check(self):
        check_output("out", self.out, (".jsonl", ".jsonl.gz"))


def record(settings: RecordSettings, output: LogFile):
    """Store what a target writes after each prompt, so that replay can evaluate drafts without
    running the target. experiments/replay/recordings.py describes the file.

    Texts continue past <|endoftext|>, as in benchmark. An interrupted recording continues with the
    same command.
    """
    target, n_tokens = settings.target_model_size, settings.n_tokens_to_generate
    wanted = ModelNames.of(settings, target)
    where = place(output.cluster, wanted)
    encoder = where.pairs.encoder
    prompts, n_skipped = settings.chosen(where.pairs)
    header = {
        **FORMAT,
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": name_of(target),
        "settings": settings.portable(),
        "fingerprints": {name_of(target): wanted.fingerprints()[target]},
    }
    with Lines(output.out, [header, prompts]) as lines:
        todo = lines.todo(len(prompts))
        bar = tqdm(todo, desc="recording", unit=" texts", leave=False, disable=None)
        with where:
            failed = {}
            items = [(i, prompts[i]) for i in todo]
            name = lambda item: f"prompt {item[0] + 1}"
            results = where.run(partial(recorded, settings), items, failed, GROUP, name)
            for text, i in zip(results, bar):
                lines.put(i, text)
        require_all(failed)
        lines.close([header], [{"end": len(prompts)}])
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(prompts)} texts of {n_tokens} tokens in {output.out} {skipped}")


def recorded(settings, pairs, items):
    """What the log keeps of each text; an item is the number of a prompt and its ids."""
    run = Run(pairs.pair(), [], settings.n_tokens_to_generate, filter=settings.filter)
    for i, ids in items:
        chance = partial(Chance, [settings.seed, i, 0])
        yield record_text(replace(run, ids=ids, new_chance=chance), settings.top)
