"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/data/recordings.py.
"""

import dataclasses
from functools import partial

from tqdm import tqdm

from experiments.cli.validators import check_numbers, check_seed, longest_prompt, parse_filters
from experiments.cluster.models import Wanted
from experiments.cluster.place import place
from experiments.data.files import check_output
from experiments.data.prompts import choose_prompts
from experiments.data.recordings import open_log
from experiments.measuring.replay import record_text
from utils import MODELS_DIR, InputError

GROUP = 4  # texts, that a worker of a cluster is given at a time


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """What decides the texts of a log; its first line has them. Raises InputError."""

    models_dir: str
    prompts: str
    n_prompts: int
    n_tokens_to_generate: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    top: int
    backend: str
    kernels: str

    def __post_init__(self):
        check_seed(self.seed)
        check_numbers(0, n_prompts=self.n_prompts)
        check_numbers(1, n_tokens_to_generate=self.n_tokens_to_generate, top=self.top)

    def filter(self):
        (filter,) = parse_filters(str(self.temperature), self.top_k, self.top_p).values()
        return filter


def record(
    target_model_size="17M",
    models_dir=MODELS_DIR,
    prompts="",
    n_prompts=12,
    n_tokens_to_generate=60,
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    seed=123,
    top=50,
    backend="numpy",
    kernels="auto",
    cluster="",
    out="",
):
    """Store what a target writes after each prompt, so that replay can evaluate drafts without
    running the target. experiments/data/recordings.py describes the file.

    Texts continue past <|endoftext|>, as in benchmark. An interrupted recording continues with the
    same command.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: the folder that holds a folder for each size
        prompts: a file of prompts (see benchmark); by default built-in stories
        n_prompts: how many prompts to use; 0 is all
        n_tokens_to_generate: how many tokens to write after each prompt
        temperature: 0 is greedy decoding; above 0, the log also holds the target's most likely
            tokens with their probabilities
        top_k: sample from this many most likely tokens; 0 keeps all
        top_p: sample from the smallest set of most likely tokens with this total probability
        seed: of the random numbers
        top: how many of the most likely tokens to keep in the log
        backend: what computes: numpy, or cupy on a GPU
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        cluster: let the workers of a Dask cluster write the texts: local:4 starts four here,
            tcp://HOST:8786 is a running scheduler
        out: the log to write, a new .jsonl or .jsonl.gz file
    """
    settings = RecordSettings(
        models_dir=models_dir,
        prompts=prompts,
        n_prompts=n_prompts,
        n_tokens_to_generate=n_tokens_to_generate,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        top=top,
        backend=backend,
        kernels=kernels,
    )
    settings.filter()  # refuse now what cannot be used
    check_output("out", out, (".jsonl", ".jsonl.gz"))
    wanted = Wanted(target_model_size, (), models_dir, backend=backend, kernels=kernels)
    where = place(cluster, wanted)
    encoder = where.pairs.encoder
    longest = longest_prompt(where.pairs.target.config.n_ctx, n_tokens_to_generate)
    texts, n_skipped = choose_prompts(prompts, n_prompts, encoder, longest)
    header = {
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": target_model_size,
        "settings": dataclasses.asdict(settings),
        "fingerprints": wanted.fingerprints(),
    }
    with open_log(out, header) as lines:
        todo = texts_todo(lines, texts)
        items = [(i, texts[i]) for i in todo]
        bar = tqdm(todo, desc="recording", unit=" texts", leave=False, disable=None)
        with where:
            results = where.run(partial(recorded, settings), items, GROUP, name_of)
            for text, i in zip(results, bar):
                lines.put(i, text, prompt=texts[i])
        if end_of(texts) not in lines.done:
            lines.add(end_of(texts))
        lines.close()
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(texts)} texts of {n_tokens_to_generate} tokens in {out} {skipped}")


def recorded(settings, pairs, items):
    """What the log keeps of each text; an item is the number of a prompt and its ids."""
    filter, top = settings.filter(), settings.top
    for i, ids in items:
        seed = [settings.seed, i, 0]
        yield record_text(pairs.target, ids, settings.n_tokens_to_generate, filter, seed, top)


def name_of(item):
    return f"prompt {item[0] + 1}"


def end_of(texts):
    """The last line of a log."""
    return {"end": len(texts)}


def texts_todo(lines, texts):
    """Which texts an interrupted recording has not. Raises InputError for one of others."""
    done = [line for line in lines.done if line != end_of(texts)]
    prompts = [line.get("prompt") if isinstance(line, dict) else None for line in done]
    if prompts != texts[: len(done)]:
        raise InputError(f"{lines.partial}: is of other prompts; delete it, or give the same")
    return [i for i in lines.todo(len(texts)) if i < len(texts)]
