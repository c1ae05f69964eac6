"""python main.py record: write down what a target says after each prompt, for replay to try drafts
on. The format is in experiments/data/recordings.py.
"""

import dataclasses

from tqdm import tqdm

from experiments.cli.validators import check_numbers, parse_filters
from experiments.data.files import check_output
from experiments.data.prompts import choose_prompts
from experiments.data.recordings import open_log
from experiments.measuring.replay import record_text
from utils import MODELS_DIR, InputError, get_backend, load_pair


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
        check_numbers(0, n_prompts=self.n_prompts, seed=self.seed)
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
    out="",
):
    """Write down what a target says after each prompt, for replay to try drafts on (format:
    experiments/data/recordings.py).

    Texts run to their full length, past <|endoftext|>, as in benchmark. An interrupted recording
    goes on when the same command is given again.

    Args:
        target_model_size: a size in models_dir, or a folder
        models_dir: where the folders of the sizes are
        prompts: a file of prompts (see benchmark), or the built-in ones
        n_prompts: how many of them; 0 is all
        n_tokens_to_generate: how many tokens after each prompt
        temperature: 0 is greedy; above, the log also holds the target's likeliest tokens with their
            probabilities
        top_k: sample from this many of the likeliest tokens; 0 is all
        top_p: sample from the fewest likeliest tokens that reach this probability
        seed: of the random numbers
        top: how many of the likeliest tokens to keep
        backend: numpy or cupy
        kernels: how NumPy multiplies: auto, plain, or WIDTHxTHREADS
        out: the log, .jsonl or .jsonl.gz
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
    filter = settings.filter()
    check_output("out", out, (".jsonl", ".jsonl.gz"))
    arrays = get_backend(backend, kernels)
    target, _, encoder = load_pair(target_model_size, None, models_dir, arrays)
    longest = target.config.n_ctx - n_tokens_to_generate
    texts, n_skipped = choose_prompts(prompts, n_prompts, encoder, longest)
    header = {
        "tokenizer": encoder.fingerprint,
        "n_vocab": encoder.n_vocab,
        "target": target_model_size,
        "settings": dataclasses.asdict(settings),
    }
    with open_log(out, header) as lines:
        n_done = texts_done(lines, texts)
        bar = tqdm(texts, desc="recording", unit=" texts", leave=False, disable=None)
        for i, ids in enumerate(bar):
            if i >= n_done:
                text = record_text(target, ids, n_tokens_to_generate, filter, [seed, i, 0], top)
                lines.add(text)
        if end_of(texts) not in lines.done:
            lines.add(end_of(texts))
        lines.close()
    skipped = f"({n_skipped} prompts skipped: too long)"
    print(f"{len(texts)} texts of {n_tokens_to_generate} tokens in {out} {skipped}")


def end_of(texts):
    """The last line of a log."""
    return {"end": len(texts)}


def texts_done(lines, texts):
    """How many of the texts an interrupted recording left. Raises InputError for one of others."""
    done = [line for line in lines.done if line != end_of(texts)]
    prompts = [line.get("prompt") if isinstance(line, dict) else None for line in done]
    if prompts != texts[: len(done)]:
        raise InputError(f"{lines.partial}: is of other prompts; delete it, or give the same")
    return len(done)
