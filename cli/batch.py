"""python main.py batch prompts.txt --out texts.jsonl: continue many prompts, several at a time."""

import json
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from checkpoints.checksum import sha256_of
from checkpoints.folder import model_files
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from cli.command import print_note, values_of
from cli.messages import require_at_least
from cli.output import line_writer, named
from cli.prompts import read_prompts
from decoding.batching import decode_together
from decoding.decode import (
    HEADS,
    NGRAM,
    Decoder,
    begin,
    compare,
    decode,
    decoders_of,
    encode_prompt,
    names_of,
    options_of,
    pair_of,
)
from encoder import Encoder
from gpt2 import Model

Job = dict[str, Any]  # {flag: value}, with a prompt and its seed
Line = dict[str, Any]  # of the output, as decode_jobs returns it
# flags that decide nothing of a line
NOT_IN_A_LINE = ("out", "batch_size", "cluster", "models_dir", "backend")


def batch(
    file: str,
    *,
    out: str = "",
    batch_size: int = 8,
    cluster: str = "",
    n_tokens_to_generate: int = 60,
    stop: str = "",
    mode: Literal["both", "autoregressive", "speculative"] = "both",
    target_model_size: str = "17M",
    draft_model_size: str = "0.7M-17M",
    models_dir: str = MODELS_DIR,
    K: int | Literal["auto"] = 4,
    verification: Literal["token", "block"] = "token",
    coupled: bool = False,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 123,
    backend: Literal["numpy", "cupy", "cupy-float16"] = "numpy",
) -> None:
    """Continue the prompts of a file, and write a JSON object for each, on a line of its own, as
    generate --json prints it. The same command continues a run that was interrupted;
    other settings, prompts or models are refused.

        python main.py batch prompts.txt --out texts.jsonl --temperature 0.8

    The file holds a prompt a line, or JSON Lines with a prompt, text or question. A prompt that
    cannot be continued, because it is too long, gets a line with an error. The first prompt gets
    the seed, the others seeds made from it, each in its line.

    Flags, and those of generate:
        out: the file to append to; without it, the lines are printed
        batch_size: how many prompts to decode together
        cluster: local:N, N worker processes here; or the address of a Dask scheduler
    """
    flags = values_of(batch, locals())
    require_at_least(1, batch_size=batch_size)
    options_of(flags)  # called for its ValueError: the options are made from each job
    settings = {name: value for name, value in flags.items() if name not in NOT_IN_A_LINE}
    jobs: list[Job] = []
    for n, prompt in enumerate(read_prompts(file)):
        jobs.append(settings | {"prompt": prompt, "seed": seed_of(seed, n)})
    if out and Path(out).resolve() == Path(file).resolve():
        raise ValueError(f"--out {out}: is the file of the prompts; give another name")
    done, write = open_output(out, jobs)
    # a folder that was not named stays here: each machine of a cluster has its own
    own_models = "" if models_dir == MODELS_DIR else models_dir
    work = partial(decode_jobs, own_models, backend)
    coming = new_lines(jobs, len(done), batch_size, work=work, cluster=cluster)
    n_refused = write_lines(coming, done, len(jobs), write)
    if n_refused:
        warnings.warn(f"{n_refused} of {len(jobs)} prompts were refused: see the error in each")


def open_output(out: str, jobs: list[Job]) -> tuple[list[Line], Callable]:
    """(the lines that the --out file has already, a function write(text) that adds a line to it).
    Without a file, for the name "", there are none, and `write` prints the line. Raises ValueError
    if the lines are not those of the first jobs, or the file cannot be written.
    """
    if not out:
        return [], print_line
    done = finished(Path(out), jobs)
    return done, line_writer(out)


def print_line(text: str) -> None:
    """Print a line. A bar on the same terminal is drawn again behind it."""
    with tqdm.external_write_mode():
        print(text, flush=True)


def write_lines(
    coming: Generator[Line, None, None], done: list[Line], n_jobs: int, write: Callable
) -> int:
    """Write the lines that the generator `coming` yields, with a bar on a terminal, and close it,
    also after an error. Returns how many of them, and of the lines `done` before, say that their
    prompt was refused ("error"). Raises ValueError for a line that was written by other models than
    the one before it.

    n_jobs: the number of all lines, those done among them; write(text): writes a line's JSON
    """
    n_refused = sum("error" in line for line in done)
    last = done[-1] if done else {}
    bar = tqdm(total=n_jobs, initial=len(done), disable=None)  # None: on a terminal only
    with closing(coming), bar:
        for line in coming:
            require_same_models(last, line)
            write(json.dumps(line))
            last = line
            if "error" in line:
                n_refused += 1
            bar.update()
    return n_refused


def require_same_models(before: Line, line: Line) -> None:
    """Raise ValueError if a line was written by other models than the one before it, as its
    "models" says. before: may be {}, or without "models", and then goes with any line
    """
    if "models" in before and before["models"] != line["models"]:
        settings = line["settings"]
        names = f"{settings['target_model_size']} or {settings['draft_model_size']}"
        problem = f"{names} has other files than for the lines before"
        raise ValueError(f"{problem}; give another --out, or every machine the same models")


def seed_of(seed: int, n: int) -> int:
    """The seed of prompt n, from 0: the seed itself, then numbers of 53 bits, as many as JSON has
    for sure, that no other seed or prompt is likely to share.

    >>> seed_of(5, 0), seed_of(5, 1) == seed_of(6, 0)
    (5, False)
    """
    if n == 0:
        return seed
    numbers = np.random.SeedSequence(seed, spawn_key=(n,)).generate_state(1, np.uint64)
    return int(numbers[0]) >> 11  # 53 of its 64 bits


def finished(path: Path, jobs: list[Job]) -> list[Line]:
    """The lines that an earlier run of the same command left in its --out file: those of the first
    jobs, [] if there is no file. Cuts off the piece of a line at the end, where that run was
    interrupted; a last line that lacks only its end gets it. Raises ValueError if another line is
    not that of its job, or is not whole. Warns if the last one does not say which models wrote it.
    """
    data = b""
    if path.is_file():  # a device, such as /dev/full, has no lines
        with named(path):
            data = path.read_bytes()
    *lines, piece = data.split(b"\n")  # piece: after the last \n; b"" if all lines are whole
    if not are_of(jobs, lines, piece):
        raise ValueError(f"{path}: has lines of other settings or prompts; give another name")
    done = [parsed(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
    if piece:
        with path.open("r+b") as file:
            try:
                last = json.loads(piece)
            except ValueError:  # a run was interrupted in this line
                file.truncate(len(data) - len(piece))
            else:  # the line lacks only its end
                done.append(last)
                file.seek(len(data))
                file.write(b"\n")
    if done and "models" not in done[-1]:
        problem = "does not say which models wrote its lines, so they are not compared"
        warnings.warn(f"{path}: {problem}")
    return done


def parsed(line: bytes, where: str) -> Line:
    """The Line that JSON stands for. Raises ValueError, which begins with `where`, if it is not
    whole.
    """
    try:
        return json.loads(line)
    except ValueError:
        problem = "is not whole; delete it, and the lines after it"
        raise ValueError(f"{where}: {problem}") from None


def are_of(jobs: list[Job], lines: list[bytes], piece: bytes) -> bool:
    """Whether lines of a file are those of the first jobs, and `piece` the beginning of the line of
    the next job, or empty; False if there are more lines than jobs. The line of a job begins with
    the JSON of {"settings": job}, without the last brace; only that is compared.
    """
    if len(lines) > len(jobs):
        return False
    begins = [json.dumps({"settings": job}).encode()[:-1] for job in jobs]
    for line, its_begin in zip(lines, begins):
        if not line.startswith(its_begin):
            return False
    if not piece:
        return True
    if len(lines) == len(jobs):  # there is no next job
        return False
    next_begin = begins[len(lines)]
    return piece.startswith(next_begin) or next_begin.startswith(piece)


def new_lines(
    jobs: list[Job], n_done: int, batch_size: int, work: Callable, cluster: str
) -> Generator[Line, None, None]:
    """Yield the lines of all jobs but the first n_done, in the order of the jobs. They are decoded
    in groups of batch_size, counted from the first job of all, and come as soon as their group is
    done. Raises ValueError if the cluster cannot be had.

    work(jobs): decodes a group of jobs together, and returns a list of their lines
    cluster: the address of the cluster whose workers do that, as --cluster names it; "": this
        process does
    """
    if n_done == len(jobs):
        return
    # a group that was begun is decoded again as a whole: a smaller group rounds differently
    n_again = n_done % batch_size  # lines of it that are there already
    first = n_done - n_again
    groups = [jobs[i : i + batch_size] for i in range(first, len(jobs), batch_size)]
    mapping: AbstractContextManager[Callable] = nullcontext(map)  # whose block gets a map function
    if cluster:
        from cli.cluster import connect  # Dask

        mapping = connect(cluster)
    with mapping as map_groups:
        for lines in map_groups(work, groups):  # of a group
            yield from lines[n_again:]
            n_again = 0  # only the first group has lines that are there already


@lru_cache(maxsize=1)  # as the models are, in a worker
def identity_of(target: str, draft: str, models_dir: str) -> str:
    """One SHA-256, in hexadecimal, of the files of a target and its draft that decide a text:
    config, tokenizer and weights. Raises ValueError for a missing model. The last result is kept.

    target: a size in models_dir, or a folder; draft: the same, eagle or medusa, whose file lies
        beside the target, or ngram, which has no file
    """
    folder = find_folder(target, models_dir)
    files = model_files(folder)
    if draft in HEADS:
        files.append(folder / f"{draft}.safetensors")
    elif draft != NGRAM:
        files += model_files(find_folder(draft, models_dir))
    return sha256_of(files)


@np.errstate(over="ignore", invalid="ignore")  # as cli.command.run, in a worker too
def decode_jobs(models_dir: str, backend: str, jobs: list[Job]) -> list[Line]:
    """Decode jobs together, and return their lines, in the same order. From then on, this process
    prints warnings as notes of one line.

    models_dir: "" stands for this machine's own; backend: as --backend
    jobs: at least one; a job is {flag: value} of what decides a text, which differs from those of
        the other jobs only in its prompt and its seed

    A line is {"settings": the job, "models": what identity_of returned, "prompt_token_ids", and
    {decoder: what `decode` returned} for each decoder of its mode}, with what `compare` returned.
    That of a prompt too long for the context is {"settings", "models", "error": why}.
    """
    warnings.showwarning = print_note  # type: ignore[assignment]
    settings = jobs[0] | {"models_dir": models_dir or MODELS_DIR, "backend": backend}
    target, draft_model, encoder = pair_of(settings)
    identity = identity_of(*names_of(settings))
    lines: list[Line] = [{"settings": job, "models": identity} for job in jobs]
    for line in lines:
        add_ids(line, target, encoder)  # or "error"
    readable = [line for line in lines if "error" not in line]
    decoders = decoders_of(settings["mode"])
    for decoder in decoders:
        add_texts(readable, decoder, target, draft_model, encoder)
    for line in readable:
        one_turn = {decoder: [line[decoder]] for decoder in decoders}  # as `compare` takes turns
        options = options_of(line["settings"])
        line.update(compare(one_turn, target, line["prompt_token_ids"], options))
    return lines


def add_ids(line: Line, target: Model, encoder: Encoder) -> None:
    """Add "prompt_token_ids" to a line that has its "settings", with the prompt, in place; or, if
    the prompt does not fit the target's context, "error", which says so. encoder: the target's
    """
    try:
        line["prompt_token_ids"] = encode_prompt(line["settings"]["prompt"], encoder, target)
    except ValueError as error:
        line["error"] = str(error)


def add_texts(
    lines: list[Line], decoder: Decoder, target: Model, draft_model: Any, encoder: Encoder
) -> None:
    """Continue the prompts of lines together, and add to each line, in place, under the decoder's
    name, what decoding.decode.decode returned of its text: a dict.

    lines: each has its "settings" and "prompt_token_ids"
    target, draft_model, encoder: as pair_of loads them; autoregressive, the draft is not used
    """

    def continue_line(line: Line, batched: Callable) -> dict[str, Any]:
        """decode_together gives batched(model), whose passes are shared; None stays None."""
        ids, options = line["prompt_token_ids"], options_of(line["settings"])
        rounds = begin(decoder, batched(target), batched(draft_model), encoder, ids, **options)
        return decode(rounds, encoder)

    tasks = [partial(continue_line, line) for line in lines]
    for line, result in zip(lines, decode_together(tasks, target)):
        line[decoder] = result
