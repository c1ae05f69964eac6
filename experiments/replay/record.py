"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/replay/recordings.py.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqdm import tqdm

from checkpoints.files import name_of
from checkpoints.output import check_output
from cli.flags import Machine, Sampling, Target, Workers, flag
from cli.prompts import PromptFile
from cli.resumable_output import ResumableLines
from cli.runs import spec_from
from decoding.cluster.executor import new_executor
from decoding.cluster.failed import require_all
from decoding.run import Run
from decoding.streams import Purpose, stream
from experiments.replay.recordings import FORMAT, with_checksum
from experiments.replay.simulate import record_text
from sampling import Rng

TEXTS_PER_TASK = 4  # that a worker of a cluster gets at a time


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
        """Return {name: value} of the settings without where this machine keeps its files."""
        return super().portable() | {
            "target_model_size": name_of(self.target_model_size),
            "prompts": Path(self.prompts).name,
        }


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
    wanted = spec_from(settings, target)
    where = new_executor(output.cluster, wanted)
    encoder = where.pairs.encoder
    prompts, n_skipped = settings.read_chosen(where.pairs)
    header = {
        **FORMAT,
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": name_of(target),
        "settings": settings.portable(),
        "fingerprints": {name_of(target): wanted.fingerprints()[target]},
    }
    with ResumableLines(output.out, [header, prompts]) as lines:
        missing = lines.missing_places(len(prompts))
        bar = tqdm(missing, desc="recording", unit=" texts", leave=False, disable=None)
        with where:
            failed = {}
            items = [(i, prompts[i]) for i in missing]
            name = lambda item: f"prompt {item[0] + 1}"
            function = partial(
                record_texts, n_tokens, settings.to_probs, settings.seed, settings.top
            )
            results = where.run(function, items, failed, TEXTS_PER_TASK, name)
            for text, i in zip(results, bar):
                lines.write(i, text)
        require_all(failed)
        lines.close([with_checksum(header)], [with_checksum({"end": len(prompts)})])
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(prompts)} texts of {n_tokens} tokens in {output.out} {skipped}")


def record_texts(n_tokens, to_probs, seed, top, pairs, items):
    """Decode a text after each prompt, and yield its line of the log (a dict with a checksum).

    pairs: the loaded models; items: [(number of the prompt, its token ids)]
    """
    for i, ids in items:
        rng = partial(Rng, stream(Purpose.TEXT, seed, i, 0))
        run = Run(pairs.pair(), ids, n_tokens, to_probs=to_probs, new_rng=rng)
        yield with_checksum(record_text(run, top))
