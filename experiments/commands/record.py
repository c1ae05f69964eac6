"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/data/recordings.py.
"""

from dataclasses import dataclass
from functools import partial

from tqdm import tqdm

from experiments.cluster.models import Wanted
from experiments.cluster.place import place
from experiments.data.files import check_output
from experiments.data.prompts import choose_prompts
from experiments.data.recordings import open_log
from experiments.data.values import check_numbers, longest_prompt
from experiments.decoding.settings import (
    Kernels,
    Length,
    PromptFile,
    Sampling,
    Target,
    Workers,
    flag,
)
from experiments.measuring.replay import record_text
from utils import InputError

GROUP = 4  # texts, that a worker of a cluster is given at a time


@dataclass(frozen=True)
class RecordSettings(Kernels, Sampling, PromptFile, Length, Target):
    """What decides the texts of a log; its first line has them."""

    n_tokens_to_generate: int = flag(60, "how many tokens to write after each prompt")
    temperature: float = flag(
        0.0,
        "0 is greedy decoding; above 0, the log also holds the target's most likely tokens with "
        "their probabilities",
    )
    seed: int = flag(123, "of the random numbers")
    top: int = flag(50, "how many of the most likely tokens to keep in the log")

    def check(self):
        check_numbers(1, top=self.top)


@dataclass(frozen=True)
class LogFile(Workers):
    out: str = flag("", "the log to write, a new .jsonl or .jsonl.gz file")

    def check(self):
        check_output("out", self.out, (".jsonl", ".jsonl.gz"))


def record(settings: RecordSettings, output: LogFile):
    """Store what a target writes after each prompt, so that replay can evaluate drafts without
    running the target. experiments/data/recordings.py describes the file.

    Texts continue past <|endoftext|>, as in benchmark. An interrupted recording continues with the
    same command.
    """
    wanted = Wanted(
        settings.target_model_size,
        (),
        settings.models_dir,
        backend=settings.backend,
        kernels=settings.kernels,
    )
    where = place(output.cluster, wanted)
    encoder, n_tokens = where.pairs.encoder, settings.n_tokens_to_generate
    longest = longest_prompt(where.pairs.target.config.n_ctx, n_tokens)
    texts, n_skipped = choose_prompts(settings.prompts, settings.n_prompts, encoder, longest)
    header = {
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": settings.target_model_size,
        "settings": settings.as_dict(),
        "fingerprints": wanted.fingerprints(),
    }
    with open_log(output.out, header) as lines:
        require_same(lines, texts)
        todo = lines.todo(len(texts))
        bar = tqdm(todo, desc="recording", unit=" texts", leave=False, disable=None)
        with where:
            items = [(i, texts[i]) for i in todo]
            results = where.run(partial(recorded, settings), items, GROUP, name_of)
            for text, i in zip(results, bar):
                lines.put(i, text, prompt=texts[i])
        lines.close({"end": len(texts)})
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(texts)} texts of {n_tokens} tokens in {output.out} {skipped}")


def recorded(settings, pairs, items):
    """What the log keeps of each text; an item is the number of a prompt and its ids."""
    filter, top = settings.sampling, settings.top
    for i, ids in items:
        seed = [settings.seed, i, 0]
        yield record_text(pairs.target, ids, settings.n_tokens_to_generate, filter, seed, top)


def name_of(item):
    return f"prompt {item[0] + 1}"


def require_same(lines, texts):
    """Raises InputError for an interrupted recording of other prompts."""
    prompts = [line.get("prompt") if isinstance(line, dict) else None for line in lines.done]
    if prompts != texts[: len(prompts)]:
        raise InputError(f"{lines.partial}: is of other prompts; delete it, or give the same")
