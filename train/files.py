"""Students by name, and the files in which they begin and end."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import nn

from checkpoints.checksum import sha256_of
from checkpoints.folder import TOKEN_LISTS, read_config, tokenizer_files, weights_files
from checkpoints.search import find_folder
from checkpoints.tokenizer import fit_vocabulary, load_encoder
from cli.output import named
from decoding.streams import Purpose, stream
from gpt2 import Config
from train.students import GPT2, Eagle, Medusa
from utils import stored_weights

KINDS: dict[str, Any] = {"eagle": Eagle, "medusa": Medusa}  # of heads


@dataclass(frozen=True)
class Student:
    """One that learns from a teacher."""

    name: str  # of its result
    module: Any  # GPT2, Eagle or Medusa
    begins_as: str  # the version of its weights; "" if they are random


def open_students(words: str, target: Path, config: Config, seed: int) -> list[Student]:
    """A student for each of the words, which commas separate: "1x128,eagle". target, config: folder
    and shape of the model that they learn from; seed: of random weights. Raises ValueError if two
    have the same name, and for each word that open_student refuses.
    """
    students = [open_student(word, target, config, seed) for word in words.split(",")]
    if len({student.name for student in students}) < len(students):
        raise ValueError(f"--students {words}: expected names that differ")
    return students


def open_student(word: str, target: Path, config: Config, seed: int) -> Student:
    """The student that a word names: "1x128" (layers x width; heads of attention are 32 wide),
    "eagle" and "medusa" begin with random weights, the file of a head, such as
    models/17M/eagle.safetensors, or a model, such as 0.7M-17M, with its own.

    target, config: folder and shape of the model that it learns from; seed: of random weights, and
    of torch's global generator from here on. Raises ValueError for a model of another vocabulary or
    with a shorter context, a head of another shape, and a word that names nothing.
    """
    seed_weights(seed)
    path = Path(word)
    if word in KINDS:
        return Student(word, KINDS[word](config), begins_as="")
    if re.fullmatch(r"\d+x\d+", word):
        module = GPT2(shaped(word, config.n_vocab, config.n_ctx, d_head=32))
        return Student(word, module, begins_as="")
    if path.suffix == ".safetensors" and path.stem in KINDS:
        return open_head(path, target, config)
    return open_model(word, target, config)


def open_head(path: Path, target: Path, config: Config) -> Student:
    """The head in a file, such as models/17M/eagle.safetensors, as a student of a target with this
    folder and shape. The file's name, without its end, is a key of KINDS. Raises ValueError for a
    head of another shape, and for what is no file of a head.
    """
    module = KINDS[path.stem](config)
    with reading(path, f"expected the file of a head of {target.name}"):
        module.load_state_dict({name: x.float() for name, x in load_file(path).items()})
    return Student(path.stem, module, version_of([path]))


def open_model(name: str, target: Path, config: Config) -> Student:
    """The model of a name, which is a size or a folder, as a student of a target with this folder
    and shape. Raises ValueError for another vocabulary, a shorter context, and if it is not there.
    """
    folder = find_folder(name)
    if load_encoder(folder) != load_encoder(target):
        raise ValueError(f"{name}: expected the vocabulary of {target.name}")
    own, weights = read_model(folder)
    if own.n_ctx < config.n_ctx:
        raise ValueError(f"{name}: a context of {own.n_ctx} tokens, expected {config.n_ctx}")
    return Student(folder.name, GPT2(own, weights), version_of(weights_files(folder)))


def seed_weights(seed: int) -> None:
    """Seed torch's global generator, which draws the weights of models made from now on."""
    torch.manual_seed(int(stream(Purpose.WEIGHTS, seed).generate_state(1)[0]))


def shaped(text: str, n_vocab: int, n_ctx: int, d_head: int) -> Config:
    """The Config of a model with these n_vocab and n_ctx. text: layers x width, such as "8x256";
    d_head: the width of a head of attention, which divides that of the model. Raises ValueError for
    a text that is no such shape.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not match or int(match[2]) % d_head:
        expected = f"expected layers x width, a multiple of {d_head}, such as 2x{4 * d_head}"
        raise ValueError(f"{text!r}: {expected}")
    n_layer, n_embd = int(match[1]), int(match[2])
    return Config(n_vocab, n_ctx, n_embd, n_head=n_embd // d_head, n_layer=n_layer)


def read_model(folder: Path) -> tuple[Config, dict[str, np.ndarray]]:
    """Read the model in a checkpoint folder: (its shape; its weights in float32, {name: array} for
    each name of Config.shapes(), such as "h.0.ln_1.weight"). Raises ValueError for a file that is
    missing or damaged, and for a model of another kind.
    """
    encoder = load_encoder(folder)
    config = fit_vocabulary(folder, read_config(folder), encoder)  # n_vocab without padding
    read_weight = stored_weights(folder, config)
    weights = {name: read_weight(name) for name in config.shapes()}
    return config, weights


# ---------------------------------------------------------------- on disk


@contextmanager
def reading(path: Path, advice: str) -> Iterator[None]:
    """A context manager for a block that reads the file at `path`: any error in it becomes a
    ValueError of one line: the path, the error's class, and `advice`, what to do.
    """
    try:
        yield
    except Exception as error:  # torch's errors are many, and long
        raise ValueError(f"{path}: cannot be read, {type(error).__name__}; {advice}") from error


def version_of(files: Iterable[Path]) -> str:
    """The first 8 digits of the SHA-256 of files, which tell them from others of their names."""
    return sha256_of(files)[:8]


def write(path: Path, data: bytes) -> None:
    """Write a file, in place of an older one, which stays until the new one is complete: that is
    written to NAME.part beside it (a.part for a.npz) and renamed. A missing folder is made. Raises
    OSError, which names one of the files or the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        with named(path):
            part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_tensors(module: nn.Module, path: Path, **notes: str) -> None:
    """Write the parameters of a module to a safetensors file in float16, in place of an older one.

    notes: for the file's metadata
    """
    halves = {name: tensor.half().cpu() for name, tensor in module.state_dict().items()}
    write(path, save(halves, metadata={"format": "pt"} | notes))


def write_model(model: GPT2, folder: Path, source: Path) -> None:
    """Write a model into a folder, which is made, as Hugging Face stores GPT-2; an older one there
    is replaced. The output head is not written, because it is the token embedding. source: another
    folder, whose vocabulary, and the tokens listed beside it, are copied
    """
    write_tensors(model.transformer, folder / "model.safetensors")
    lists = [source / name for name in TOKEN_LISTS]  # of tokens
    for path in set(tokenizer_files(source) + lists):  # which may overlap
        if path.is_file():
            write(folder / path.name, path.read_bytes())
    write(folder / "config.json", model.config.to_json_string().encode())


def write_student(student: Student, folder: Path, target: Path) -> None:
    """Write a student into the folder of a run: a draft model as a folder NAME, with the tokenizer
    of `target`, the folder of its target; a head as NAME.safetensors, with the checksum of that
    target's weights. Older ones are replaced.
    """
    if isinstance(student.module, GPT2):
        write_model(student.module, folder / student.name, target)
        return
    notes = student.module.notes | {"target": sha256_of(weights_files(target))}
    write_tensors(student.module, folder / f"{student.name}.safetensors", **notes)
