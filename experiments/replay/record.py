"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/replay/recordings.py.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cli.flags import Machine, Sampling, Target, Workers, flag
from cli.from_flags import spec_from
from cli.resumable_output import ResumableLines
from decoding.cluster.executor import new_executor, run_prompts
from decoding.run import Run

from checkpoints.files import name_of
from checkpoints.output import check_output
from cli.prompts import PromptFile
from decoding.streams import Purpose, stream
from experiments.progress import progress
from experiments.replay.recordings import FORMAT, round_to_6_digits, with_checksum
from sampling import Rng

TEXTS_PER_TASK = 4  # how many texts a worker of a cluster is given at a time


@dataclass(frozen=True)
class RecordSettings(Machine, Sampling, PromptFile, Target):
    """What decides the texts of a log. These settings are stored in its first line."""

    def portable_dict(self):
        """Return {name of a flag: value} without models_dir. Of the paths of the target and of the
        prompts only the last part is kept, because folders differ between machines.
        """
        return super().portable_dict() | {
            "target_model_size": name_of(self.target_model_size),
            "prompts": Path(self.prompts).name,
        }


@dataclass(frozen=True)
class LogFile(Workers):
    """Where the log goes, and which workers write its texts."""

    out: str = flag("", "the log to write, a new .jsonl or .jsonl.gz file")

    def check(self):
        """Raise InputError if --out cannot be written, or has another suffix."""
        check_output("out", self.out, (".jsonl", ".jsonl.gz"))


def record(settings: RecordSettings, output: LogFile):
    """Store what a target writes after each prompt, so that replay can evaluate drafts without
    running the target. experiments/replay/recordings.py describes the file.

    Texts continue past <|endoftext|>, as in benchmark. An interrupted recording continues with the
    same command.
    """
    target, n_tokens = settings.target_model_size, settings.n_tokens_to_generate
    spec = spec_from(settings, target)
    executor = new_executor(output.cluster, spec)
    encoder = executor.models.encoder
    prompts, n_skipped = settings.read_chosen(executor.models)
    header = {
        **FORMAT,
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": name_of(target),
        "settings": settings.portable_dict(),
        "fingerprints": {name_of(target): spec.fingerprints()[target]},
    }
    with ResumableLines(output.out, [header, prompts]) as lines:
        missing = lines.missing_places(len(prompts))
        items = [(i, prompts[i]) for i in missing]
        item_name = lambda item: f"prompt {item[0] + 1}"
        function = partial(record_texts, n_tokens, settings.to_probs, settings.seed)
        # one for each item, in order: the text, or a Failed, which lines.write leaves out
        texts = run_prompts(executor, function, items, TEXTS_PER_TASK, item_name)
        texts_and_places = zip(texts, missing)
        for text, i in progress(texts_and_places, len(missing), "recording", "texts"):
            lines.write(i, text)
        # all texts are there, or run_prompts has raised InputError: add the first and the last line
        lines.finish([with_checksum(header)], [with_checksum({"end": len(prompts)})])
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(prompts)} texts of {n_tokens} tokens in {output.out} {skipped}")


def record_texts(n_tokens, to_probs, seed, models, items):
    """Decode n_tokens after each prompt with the target alone. Yield for each a line of the log, a
    dict with a checksum.

    to_probs: SamplingParams, a function logits -> probabilities; models: LoadedModels
    items: [(number of the prompt, its token ids)]
    seed: with the number of its prompt, it decides the random numbers of a text
    """
    target_alone = models.pair()
    for i, ids in items:
        rng = partial(Rng, stream(Purpose.TEXT, seed, i, 0))  # 0: the only repeat
        run = Run(target_alone, ids, n_tokens, to_probs=to_probs, new_rng=rng)
        yield with_checksum(record_text(run))


def record_text(run):
    """Decode the text of a Run, which has no draft. Returns its line of the log without a checksum,
    a dict: "prompt" and "tokens" (lists of ids) and, if the tokens are sampled, "p": the target's
    probability of each token, a list of floats rounded to six digits.
    """
    tokens, p = [], []
    for this_round in run.rounds():
        for token in this_round.tokens:  # one, or none in the prefill
            tokens.append(token)
            p.append(round_to_6_digits(this_round.p[0][token]))
    text = {"prompt": run.ids, "tokens": tokens}
    return text if run.to_probs.greedy else text | {"p": p}
