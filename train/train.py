"""Make models: a vocabulary, a target, and drafts that learn from a target.

    pip install --group train      # pip 25.1 or newer
    python -m train.train target CORPUS FOLDER
    python -m train.train distil CORPUS FOLDER --students 1x128,eagle

Read students.py (what is trained), texts.py (what it reads), learning.py (losses and optimizers),
run.py (the loop), then the commands here. models/README.md tells how each included model was made,
and which books it has read.
"""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules load, Ctrl-C just ends the program

import json
import sys
import warnings
from functools import partial
from typing import Literal

import backends.before_numpy  # noqa: F401, isort: skip: before NumPy

try:
    import safetensors  # noqa: F401
    import torch
    import transformers  # noqa: F401
    from tokenizers import ByteLevelBPETokenizer
except ModuleNotFoundError as missing:
    how = "pip install --group train, with pip 25.1 or newer"
    print(f"error: training needs {missing.name}: {how}", file=sys.stderr)
    sys.exit(2)

from checkpoints.folder import weights_files
from checkpoints.search import find_folder
from checkpoints.tokenizer import load_encoder
from cli.command import run_program
from cli.messages import require_at_least
from decoding.streams import Purpose
from encoder import END_OF_TEXT
from train import files, texts
from train.learning import losses_of_drafts, losses_of_next_tokens, mark_drafts, mark_target
from train.run import memory_named, prepare, run_folder, train
from train.students import GPT2

N_VOCAB, N_CTX = 2048, 512
TRAINED = 0.4  # of the learning rate, for a student that begins trained
N_MARKED = 64  # held-out texts by which students are marked
Device = Literal["cpu", "cuda"]
HERE: Device = "cuda" if torch.cuda.is_available() else "cpu"


# ---------------------------------------------------------------- commands


def tokenizer(corpus: str, folder: str) -> None:
    """This command, tokenizer, learns a vocabulary, a byte-level BPE of 2,048 tokens, or as many as
    the text is enough for. The others, each with its own --help, are target and distil.

    CORPUS is the folder of *_train.txt; FOLDER is made, with the vocabulary in it.
    """
    made = run_folder(folder)
    if any(made.glob("*")):  # the vocabulary of a model that was trained there
        raise ValueError(f"{made}: is there already; give a new folder")

    tokens, merges = learn_vocabulary(texts.read_documents(corpus, "train"))
    if len(tokens) < N_VOCAB:
        warnings.warn(f"{corpus}: is enough for {len(tokens)} tokens, not {N_VOCAB}")

    # GPT-2's two files
    id_of = {token: i for i, token in enumerate(tokens)}
    files.write(made / "vocab.json", json.dumps(id_of, ensure_ascii=False).encode())
    lines = [f"{first} {second}\n" for first, second in merges]
    files.write(made / "merges.txt", ("#version: 0.2\n" + "".join(lines)).encode())


def learn_vocabulary(documents: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn a byte-level BPE from texts: (its tokens in the order of their ids, 2,048 (N_VOCAB) at
    most; its merges in the order in which they were learned). The first tokens are the bytes, then
    comes what merges make; the last is <|endoftext|>. Shows a bar on a terminal.
    """
    learner = ByteLevelBPETokenizer()
    n_learned = N_VOCAB - 1  # all but <|endoftext|>
    is_seen = sys.stderr.isatty()
    learner.train_from_iterator(documents, n_learned, min_frequency=0, show_progress=is_seen)
    learned = json.loads(learner.to_str())["model"]
    id_of = learned["vocab"]  # {token: id}
    return sorted(id_of, key=id_of.get) + [END_OF_TEXT], learned["merges"]


def target(
    corpus: str,
    folder: str,
    *,
    vocabulary: str = "17M",
    shape: str = "8x256",
    steps: int = 4000,
    tokens_per_step: int = 4096,
    learning_rate: float = 3e-3,
    seed: int = 1,
    device: Device = HERE,
) -> None:
    """Train a target for the next token of the corpus.

    CORPUS is the folder of *_train.txt and *_valid.txt; FOLDER is made, or its run goes on: with
    the same flags, except for steps and learning_rate.

    Flags:
        vocabulary: the folder that has it, such as one by the command tokenizer, or a model
        shape: layers x width; heads of attention are 64 wide
        steps: how many steps
        tokens_per_step: how many tokens each of them reads
        learning_rate: the highest of the run
        seed: of weights and batches
        device: where it runs
    """
    made = run_folder(folder)
    prepare(device)
    source = find_folder(vocabulary)
    require_run(steps, tokens_per_step, learning_rate)
    config = files.shaped(shape, load_encoder(source).n_vocab, N_CTX, d_head=64)
    n_seq = N_CTX + 1  # the tokens that are read, and the next one of the last
    books = texts.read_ids(corpus, "train", source, least=n_seq)
    held_out = texts.read_ids(corpus, "valid", source, least=n_seq)
    identity = {  # what a run has to keep to be resumed
        "shape": shape,
        "texts": texts.version_of(books, held_out),  # of ids, which tell the vocabulary, too
        "tokens_per_step": tokens_per_step,
        "seed": seed,
    }

    # the model, and what it reads
    books, held_out = books.to(device), held_out.to(device)
    files.seed_weights(seed)
    model = GPT2(config).to(device)
    lesson = partial(texts.steps_of_books, books, tokens_per_step, n_seq, seed)  # (first, end)
    losses = partial(losses_of_next_tokens, model)  # (batch, progress)

    # what it is marked by
    rng = texts.generator(books.device, Purpose.VALIDATION, seed=0)
    exam = partial(mark_target, model, texts.passages(held_out, N_MARKED, n_seq, rng))

    models, rates = [model], [learning_rate]
    train(made, identity, models, rates, lesson=lesson, losses=losses, exam=exam, steps=steps)
    files.write_model(model, made, source)


def distil(
    corpus: str,
    folder: str,
    *,
    target_model_size: str = "17M",
    students: str = "2x128",
    steps: int = 3000,
    tokens_per_step: int = 4096,
    learning_rate: float = 5e-3,
    seed: int = 1,
    device: Device = HERE,
) -> None:
    """Let drafts learn a target's distributions, all of them in one run: on books, about a quarter
    of the tokens, and on what the target writes meanwhile, after passages of books.

    CORPUS is the folder of *_train.txt and *_valid.txt; FOLDER is made, with the results, or its
    run goes on: with the same flags, except for steps and learning_rate. Printed are, for each
    draft, the acceptance rate at temperature 1 that is expected of it, and how often its likeliest
    token is the target's, both on what the target writes after held-out text.

    Flags:
        target_model_size: the target; a size or a folder
        students: which drafts, such as 1x128,eagle: layers x width of a model, whose heads of
            attention are 32 wide, or eagle or medusa, with random weights; or a size, a folder, or
            the file of a head, such as models/17M/eagle.safetensors, to go on from its weights
        steps: how many steps
        tokens_per_step: how many tokens each of them reads, about: texts are whole
        learning_rate: the highest of the run, for random weights; others learn at 0.4 of it
        seed: of weights, texts and batches
        device: where it runs
    """
    made = run_folder(folder)
    prepare(device)
    source = find_folder(target_model_size)
    require_run(steps, tokens_per_step, learning_rate)
    config, weights = files.read_model(source)
    learners = files.open_students(students, source, config, seed)
    books = texts.read_ids(corpus, "train", source, least=config.n_ctx)
    held_out = texts.read_ids(corpus, "valid", source, least=config.n_ctx)
    identity = {  # what a run has to keep to be resumed
        "target": files.version_of(weights_files(source)),
        "students": [f"{learner.name} {learner.begins_as}" for learner in learners],
        "texts": texts.version_of(books, held_out),
        "tokens_per_step": tokens_per_step,
        "seed": seed,
    }

    # the models, and what they read
    books, held_out = books.to(device), held_out.to(device)
    teacher = GPT2(config, weights).to(device).requires_grad_(False)
    models = [learner.module.to(device) for learner in learners]
    rates = []
    for learner in learners:
        factor = TRAINED if learner.begins_as else 1.0
        rates.append(factor * learning_rate)
    lesson = partial(texts.steps_of_teacher, teacher, books, tokens_per_step, seed)  # (first, end)
    losses = partial(losses_of_drafts, teacher, learners)  # (batch, progress)

    # what they are marked by
    rng = texts.generator(books.device, Purpose.VALIDATION, seed=0)
    sampled, greedy = texts.written(
        teacher, held_out, n_sampled=N_MARKED, n_greedy=N_MARKED, rng=rng
    )
    exam = partial(mark_drafts, teacher, learners, sampled=sampled, greedy=greedy)

    train(made, identity, models, rates, lesson=lesson, losses=losses, exam=exam, steps=steps)
    for learner in learners:
        files.write_student(learner, made, source)


def require_run(steps: int, tokens_per_step: int, learning_rate: float) -> None:
    """Raise ValueError for steps or tokens_per_step below 1, and unless learning_rate is between 0
    and 1.
    """
    require_at_least(1, steps=steps, tokens_per_step=tokens_per_step)
    if not 0 < learning_rate < 1:
        raise ValueError(f"--learning_rate {learning_rate}: expected more than 0, less than 1")


COMMANDS = {command.__name__: memory_named()(command) for command in (tokenizer, target, distil)}

if __name__ == "__main__":
    run_program(COMMANDS)
