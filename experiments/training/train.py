"""Make the models in models/: vocabulary, targets, drafts distilled from them, and heads on them.

    pip install --group train      # pip 25.1 or newer
    python experiments/training/train.py COMMAND --corpus DIR

COMMAND is tokenizer, target, samples, draft, eagle or medusa; each has its own --help. DIR holds
`*_train.txt` and `*_valid.txt`: plain text, stories ended by a line `<|endoftext|>`.

models/README.md lists the commands that made each model, and the books it has read. A run that is
interrupted goes on from its last checkpoint, in --cache_dir, when the same command is given again;
--steps and --learning_rate may change on the way. The batch of a step depends on (seed, step)
alone. The result is written to models/ at the end of a run, and whatever builds on a model (a
teacher, a start) is read from there.
"""

# ruff: noqa: E402

import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: F401, isort: skip: before NumPy

import numpy as np
from tqdm import tqdm

import utils
from checkpoints.errors import InputError, SettingError
from checkpoints.folder import read_config
from checkpoints.limits import POSITIVE, Limits
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from cli.exit_codes import run_for_exit_code, run_program
from cli.flags import SEEDS, Group, flag
from cli.hints import unknown_message
from cli.parser import call
from cli.values import check_choice, check_number, parse_list
from decoding.head_files import fingerprint
from decoding.streams import Purpose
from gpt2 import Config

try:
    from experiments.training import models, texts, trainer
except ModuleNotFoundError as missing:
    how = "pip install --group train, with pip 25.1 or newer"
    print(f"error: training needs {missing.name}: {how}", file=sys.stderr)
    sys.exit(2)

# n_vocab, n_ctx, n_embd, n_head, n_layer
SHAPES = {
    "0.7M": Config(2048, 512, 128, 4, 2),
    "7M": Config(2048, 512, 256, 4, 8),
}
EAGLE_HEADS = 4  # of the attention in its block
RATES = Limits(1e-9)  # of learning

# ---------------------------------------------------------------- settings


@dataclass(frozen=True)
class PathSettings(Group):
    """Where things are, and what makes a run repeatable."""

    heading = "Places"

    corpus: str = flag("", "the folder of *_train.txt and *_valid.txt")
    models_dir: str = flag(MODELS_DIR, "where models are read and written")
    cache_dir: str = flag("training", "where checkpoints and samples are kept")
    seed: int = flag(1, "of weights, batches and samples", limits=SEEDS)

    def folder(self, size):
        """Return the Path of an existing model's folder. Raises InputError if there is none."""
        return Path(find_folder(size, self.models_dir))

    def result(self, size):
        """Return the Path of the folder that a model is written to."""
        return Path(self.models_dir) / size


@dataclass(frozen=True)
class Training(PathSettings):
    """A run over a number of steps. An interrupted one may go on with another."""

    heading = "Run"

    target_model_size: str = flag("7M", "the target: a size in models_dir, or a folder")
    steps: int = flag(3000, "how many steps, of 4,096 tokens each", limits=POSITIVE)
    learning_rate: float = flag(3e-3, "the highest learning rate of the run", limits=RATES)
    weight_decay = 0.05


@dataclass(frozen=True)
class TargetSettings(Training):
    target_model_size: str = flag("7M", "the folder in models_dir that it is written to")
    start: str = flag("", "a model to start from; without it, that size with random weights")
    layers: str = flag("", "layers of --start to keep, at twice its width: 0,1,2,4,7 for example")
    steps: int = flag(4000, "how many steps, of 4,096 tokens each", limits=POSITIVE)
    dropout: float = flag(
        0.0, "the share of numbers that each step sets to zero", limits=Limits(0, 0.99)
    )
    weight_decay: float = flag(
        0.05,
        "how fast weights shrink. It and dropout keep a target from learning the text by heart",
        limits=Limits(0),
    )

    def check(self):
        """Raise SettingError if --start is missing: for --layers, or for a size not in SHAPES."""
        if self.layers and not self.start:
            problem = f"{self.layers}: expected --start, the model whose layers are kept"
            raise SettingError("layers", problem)
        if not self.start:
            check_choice("target_model_size", self.target_model_size, *SHAPES)

    def kept(self, folder):
        """Return the list of layers to keep of the model in a folder. Raises SettingError."""
        layers = parse_list("layers", self.layers, int)
        last = read_config(folder).n_layer - 1
        for layer in layers:
            check_number("layers", layer, Limits(0, last, whole=True))
        return layers


@dataclass(frozen=True)
class DraftSettings(Training):
    draft_model_size: str = flag("0.7M", "the folder in models_dir that it is written to")
    start: str = flag("", "a draft model to start from; without it, 0.7M with random weights")
    written: bool = flag(False, "half of the text is what the target wrote (train.py samples)")
    learning_rate: float = flag(4e-3, "the highest learning rate of the run", limits=RATES)


@dataclass(frozen=True)
class EagleSettings(Training):
    steps: int = flag(1000, "how many steps, of 4,096 tokens each", limits=POSITIVE)
    width: int = flag(256, "the width of EAGLE's block")

    def check(self):
        if self.width < EAGLE_HEADS or self.width % EAGLE_HEADS:
            raise SettingError("width", f"{self.width}: expected a multiple of {EAGLE_HEADS}")


@dataclass(frozen=True)
class MedusaSettings(Training):
    n_heads: int = flag(3, "how many heads, one for each position of a draft", limits=POSITIVE)
    steps: int = flag(1000, "how many steps, of 1,024 tokens each", limits=POSITIVE)
    learning_rate: float = flag(1e-2, "the highest learning rate of the run", limits=RATES)


@dataclass(frozen=True)
class SamplesSettings(PathSettings):
    heading = "Samples"

    target_model_size: str = flag("7M", "the target: a size in models_dir, or a folder")
    n_batches: int = flag(
        80, "how many batches of texts; every third is greedy, the others not", limits=POSITIVE
    )
    batch_size: int = flag(64, "how many texts are written together", limits=POSITIVE)


# ---------------------------------------------------------------- commands


def tokenizer(settings: PathSettings):
    """Learn the vocabulary of all models: a byte-level BPE of 2,048 tokens."""
    documents = texts.read_documents(settings.corpus, "train")
    for size in SHAPES:
        texts.learn_vocabulary(documents, settings.result(size))


def target(settings: TargetSettings):
    """Train a target: from nothing, from a model, or from one that grows to twice its width."""
    size, seed, dropout = settings.target_model_size, settings.seed, settings.dropout
    source = settings.folder(settings.start) if settings.start else settings.result(size)
    if settings.layers:
        model = models.grown_model(source, settings.kept(source), seed, dropout)
    elif settings.start:
        model = models.read_model(source, dropout)
    else:
        model = models.random_model(SHAPES[size], source, seed, dropout)
    origin = {"layers": settings.layers, "dropout": dropout}
    train_model(settings, size, model, [trainer.cross_entropy] * 2, source, **origin)


def draft(settings: DraftSettings):
    """Distil a draft model from a target.

    By total variation, after a first half by Kullback-Leibler where it starts from nothing.
    """
    size, source = settings.draft_model_size, settings.folder(settings.target_model_size)
    if settings.start:
        model = models.read_model(settings.folder(settings.start))
    else:
        model = models.random_model(SHAPES["0.7M"], source, settings.seed)
    first, second = trainer.distillation_losses(models.read_model(source))
    losses = second if settings.start else first, second
    teacher = fingerprint(source)
    train_model(settings, size, model, losses, source, settings.written, teacher=teacher)


def train_model(settings, size, model, losses, source, written=False, **origin):
    """Train a model and write it to the folder of a size, with the vocabulary of `source`."""
    read = texts.TrainingTexts.read(settings, source, written)
    folder = settings.result(size)
    start = settings.start and settings.folder(settings.start)
    origin["start"] = start and fingerprint(start)
    training = trainer.Trainer(model, settings, read, size, **origin)
    training.train(*losses, model.config.n_positions)
    if source != folder:
        texts.copy_vocabulary(source, folder)
    models.write_model(model, folder)
    # where it has replaced the model it began with, more steps go on from the new one
    if start and start.samefile(folder):
        training.save(start=fingerprint(folder))


def eagle(settings: EagleSettings):
    """Train EAGLE's head for a target (train.py samples first)."""
    make = lambda config: models.Eagle(config, settings.width, EAGLE_HEADS)
    train_head(settings, "eagle", make, n_head=str(EAGLE_HEADS))


def medusa(settings: MedusaSettings):
    """Train Medusa's heads for a target (train.py samples first)."""
    make = lambda config: models.Medusa(config, settings.n_heads)
    # small steps: heads that begin as copies of the target's own need many, not large ones
    train_head(settings, "medusa", make, tokens=1024)


def train_head(settings, name, make, tokens=4096, **notes):
    """Train make(config of the target) and write it, with notes, beside the target."""
    folder = settings.folder(settings.target_model_size)
    grown_on = fingerprint(folder)
    config = read_config(folder)
    models.seed_torch(Purpose.WEIGHTS, settings.seed)
    head = make(config)
    losses = trainer.distillation_losses(models.read_model(folder))
    read = texts.TrainingTexts.read(settings, folder, written=True, tokens=tokens)
    training = trainer.Trainer(head, settings, read, f"{name}-{folder.name}", teacher=grown_on)
    training.train(*losses, config.n_ctx)
    models.write_tensors(head, folder / f"{name}.safetensors", target=grown_on, **notes)


def samples(settings: SamplesSettings):
    """Let a target continue passages of the training text, for drafts to learn from."""
    folder = settings.folder(settings.target_model_size)
    model = utils.load_model(folder, utils.get_backend())
    ids = texts.encode_split(settings.corpus, "train", folder)
    path = texts.samples_path(settings, folder)
    seed, n = settings.seed, settings.batch_size
    part = path.with_name(f"{path.stem}-{sha256(ids).hexdigest()[:12]}-{seed}-{n}.part")
    batches = list(np.load(part)) if part.is_file() else []
    for i in tqdm(range(len(batches), settings.n_batches), desc="samples"):
        batches.append(texts.write_batch(model, ids, seed, i, n))
        texts.save_array(np.stack(batches), part)
    texts.save_array(np.concatenate(batches[: settings.n_batches]), path)
    part.unlink(missing_ok=True)


# ---------------------------------------------------------------- the command line

COMMANDS = {
    command.__name__: command for command in (tokenizer, target, samples, draft, eagle, medusa)
}


def dispatch(words):
    """Run one command."""
    if words and words[0] in ("--help", "-h"):
        print(__doc__, end="")
        return
    name, *words = words or [""]
    if name not in COMMANDS:
        raise InputError(unknown_message("command", name, COMMANDS) + ", or --help")
    call(COMMANDS[name], words)


def main(words):
    """Run one command. Returns the exit code."""
    return run_for_exit_code(lambda: dispatch(words))


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
