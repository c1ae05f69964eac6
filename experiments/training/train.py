"""Make the models in models/: a vocabulary, targets, draft models distilled from them, and heads.

    pip install --group train      # pip 25.1 or newer
    python experiments/training/train.py COMMAND --corpus DIR

COMMAND is tokenizer, target, samples, draft, eagle or medusa; each has its own --help. DIR holds
`*_train.txt` and `*_valid.txt`: plain text, stories ended by a line `<|endoftext|>`.

models/README.md lists the commands that made each model, and the books it has read. The same
command again resumes an interrupted run from its last checkpoint, in --cache_dir; --steps and
--learning_rate may be others then. The batch of a step depends on (seed, step) alone. The result is
written to models/ at the end of a run. Models to start from and teachers are read from there.
"""

# ruff: noqa: E402

import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.before_numpy  # noqa: F401, isort: skip: before NumPy

import numpy as np
from cli.exit_codes import run_for_exit_code, run_program
from cli.flags import SEEDS, Group, flag
from cli.hints import unknown_message
from cli.parser import call
from cli.values import check_choice, check_number, parse_list
from decoding.head_files import fingerprint
from tqdm import tqdm

import utils
from checkpoints.errors import InputError, SettingError
from checkpoints.folder import read_config
from checkpoints.limits import POSITIVE, Limits
from checkpoints.registry import MODELS_DIR
from checkpoints.search import find_folder
from gpt2 import Config

try:
    from experiments.training import models, texts, trainer
except ModuleNotFoundError as missing:
    how = "pip install --group train, with pip 25.1 or newer"
    print(f"error: training needs {missing.name}: {how}", file=sys.stderr)
    sys.exit(2)

SIZES = {
    "0.7M": Config(n_vocab=2048, n_ctx=512, n_embd=128, n_head=4, n_layer=2),
    "7M": Config(n_vocab=2048, n_ctx=512, n_embd=256, n_head=4, n_layer=8),
}
# the block of EAGLE's head
EAGLE_WIDTH = 256
EAGLE_HEADS = 4  # of its attention
MEDUSA_HEADS = 3  # one for each token of a draft
SAMPLES_BATCH = 64  # texts that the target writes together
RATES = Limits(1e-9)  # of learning

# ---------------------------------------------------------------- settings


@dataclass(frozen=True)
class PathSettings(Group):
    """Folders, and the seed."""

    heading = "Places"

    corpus: str = flag("", "the folder of *_train.txt and *_valid.txt")
    models_dir: str = flag(MODELS_DIR, "where models are read and written")
    cache_dir: str = flag("training", "where checkpoints and samples are kept")
    seed: int = flag(1, "of weights, batches and samples", limits=SEEDS)

    def model_folder(self, size):
        """Return the Path of a model's folder. At a terminal it may offer to download a missing
        GPT-2. Raises InputError if there is none.

        size: the name of a folder in models_dir, or a path
        """
        return find_folder(size, self.models_dir)

    def output_folder(self, size):
        """Return the Path of the folder in models_dir that a model of this name is written to."""
        return Path(self.models_dir) / size


@dataclass(frozen=True)
class TrainingSettings(PathSettings):
    """A run over a number of steps. An interrupted run may be resumed with another number."""

    heading = "Run"

    target_model_size: str = flag("7M", "the target: a size in models_dir, or a folder")
    steps: int = flag(3000, "how many steps, of 4,096 tokens each", limits=POSITIVE)
    learning_rate: float = flag(3e-3, "the highest learning rate of the run", limits=RATES)


@dataclass(frozen=True)
class TargetSettings(TrainingSettings):
    target_model_size: str = flag("7M", "the folder in models_dir that it is written to")
    start: str = flag("", "a model to start from; without it, that size with random weights")
    layers: str = flag("", "layers of --start to keep, at twice its width: 0,1,2,4,7 for example")
    steps: int = flag(4000, "how many steps, of 4,096 tokens each", limits=POSITIVE)

    def check(self):
        """Without --start, raise SettingError if --layers is given or the size is not in SIZES."""
        if self.layers and not self.start:
            problem = f"{self.layers}: expected --start, the model whose layers are kept"
            raise SettingError("layers", problem)
        if not self.start:
            check_choice("target_model_size", self.target_model_size, *SIZES)

    def kept_layers(self, folder):
        """Return the value of --layers, a list of ints: indices of layers of the model in a folder.
        Raises SettingError if the flag is no list of numbers, or the model has no such layer.
        """
        layers = parse_list("layers", self.layers, int)
        last = read_config(folder).n_layer - 1
        for layer in layers:
            check_number("layers", layer, Limits(0, last, whole=True))
        return layers


@dataclass(frozen=True)
class DraftSettings(TrainingSettings):
    draft_model_size: str = flag("0.7M", "the folder in models_dir that it is written to")
    start: str = flag("", "a draft model to start from; without it, 0.7M with random weights")
    written: bool = flag(False, "half of the text is what the target wrote (train.py samples)")
    learning_rate: float = flag(4e-3, "the highest learning rate of the run", limits=RATES)


@dataclass(frozen=True)
class EagleSettings(TrainingSettings):
    steps: int = flag(1000, "how many steps, of 4,096 tokens each", limits=POSITIVE)


@dataclass(frozen=True)
class MedusaSettings(TrainingSettings):
    steps: int = flag(1000, "how many steps, of 1,024 tokens each", limits=POSITIVE)
    learning_rate: float = flag(1e-2, "the highest learning rate of the run", limits=RATES)


@dataclass(frozen=True)
class SamplesSettings(PathSettings):
    heading = "Samples"

    target_model_size: str = flag("7M", "the target: a size in models_dir, or a folder")
    n_batches: int = flag(
        80, "how many batches of 64 texts; every third is greedy, the others not", limits=POSITIVE
    )


# ---------------------------------------------------------------- commands


def learn_tokenizer(settings: PathSettings):
    """Learn the vocabulary of all models, a byte-level BPE of 2,048 tokens, from the corpus's
    *_train.txt, and write it into the folder of every size.
    """
    documents = texts.read_documents(settings.corpus, "train")
    for size in SIZES:  # the same documents give the same vocabulary every time
        texts.learn_vocabulary(documents, settings.output_folder(size))


def train_target(settings: TargetSettings):
    """Train a target and write it to its folder. It begins with a model (--start), with a model
    that grows to twice its width (--layers), or with random weights; then its folder must hold a
    vocabulary.
    """
    size = settings.target_model_size
    if settings.start:
        source = settings.model_folder(settings.start)
    else:
        source = settings.output_folder(size)  # for the vocabulary
    if settings.layers:  # given only with --start
        model = models.read_grown_model(source, settings.kept_layers(source), settings.seed)
    elif settings.start:
        model = models.read_model(source)
    else:
        model = models.new_random_model(SIZES[size], source, settings.seed)
    losses = trainer.cross_entropy, trainer.cross_entropy  # the same in both halves of the run
    train_model(settings, size, model, losses, source, layers=settings.layers)


def distil_draft(settings: DraftSettings):
    """Distil a draft model from a target and write it to its folder.

    The loss is the total variation distance. Without --start, it is the Kullback-Leibler divergence
    in the first half of the steps, and the draft has the shape of 0.7M, whatever its name.
    """
    target = settings.model_folder(settings.target_model_size)
    first_loss, second_loss = trainer.make_distillation_losses(models.read_model(target))
    if settings.start:
        model = models.read_model(settings.model_folder(settings.start))
        first_loss = second_loss  # the draft knows enough for total variation from the start
    else:
        model = models.new_random_model(SIZES["0.7M"], target, settings.seed)
    losses, teacher = (first_loss, second_loss), fingerprint(target)
    size, written = settings.draft_model_size, settings.written
    train_model(settings, size, model, losses, target, written, teacher=teacher)


def train_model(settings, size, model, losses, source, written=False, **origin):
    """Train a GPT2 in place and write it, with its vocabulary, to the folder of a size. Prints
    losses, and keeps a checkpoint in --cache_dir, from which an interrupted run resumes. Raises
    InputError if a text or a file is missing.

    settings: TargetSettings or DraftSettings; size: a name in models_dir; model: a models.GPT2
    losses: of the two halves of the run, a pair of functions (model, ids, offset) -> scalar tensor
    source: the folder whose vocabulary is used, a Path
    written: whether half of the steps read texts by the target in `source`
    origin: {name: str}, what the run begins with: another origin means another checkpoint
    """
    training_texts = texts.TrainingTexts.read(settings, source, written)
    folder = settings.output_folder(size)
    start = settings.model_folder(settings.start) if settings.start else ""
    origin["start"] = fingerprint(start) if start else ""
    run = trainer.Trainer(model, settings, training_texts, size, **origin)
    run.train(*losses, model.config.n_positions)
    if source != folder:
        texts.copy_vocabulary(source, folder)
    models.write_model(model, folder)
    # A checkpoint's name holds the fingerprint of the model that the run began with. If this model
    # was just replaced, save again under the new fingerprint: a run with more steps looks for it.
    if start and start.samefile(folder):
        run.save(start=fingerprint(folder))


def train_eagle(settings: EagleSettings):
    """Train EAGLE's head for a target, and write it to eagle.safetensors in the target's folder,
    in place of an older head. Needs the texts that `train.py samples` writes.
    """
    new_head = lambda config: models.Eagle(config, EAGLE_WIDTH, EAGLE_HEADS)
    # n_head goes into the file's metadata, which is text: no shape of a tensor tells it
    train_head(settings, "eagle", new_head, n_head=str(EAGLE_HEADS))


def train_medusa(settings: MedusaSettings):
    """Train Medusa's heads for a target, and write them to medusa.safetensors in the target's
    folder, in place of older heads. Needs the texts that `train.py samples` writes.
    """
    new_head = lambda config: models.Medusa(config, MEDUSA_HEADS)
    # small steps: heads that begin as copies of the target's own need many, not large ones
    train_head(settings, "medusa", new_head, tokens_per_step=1024)


def train_head(settings, name, new_head, tokens_per_step=4096, **notes):
    """Train a head and write it to NAME.safetensors in the folder of its target. Prints losses, and
    keeps a checkpoint in --cache_dir. Raises InputError if the texts of `samples` are missing.

    settings: EagleSettings or MedusaSettings; name: "eagle" or "medusa"
    new_head: a function (the target's gpt2.Config) -> an untrained Eagle or Medusa
    tokens_per_step: how many tokens a step reads; notes: {name: str} for the file's metadata
    """
    folder = settings.model_folder(settings.target_model_size)
    teacher_fingerprint = fingerprint(folder)
    config = read_config(folder)
    models.seed_weights(settings.seed)
    head = new_head(config)
    first_loss, second_loss = trainer.make_distillation_losses(models.read_model(folder))
    training_texts = texts.TrainingTexts.read(
        settings,
        folder,
        written=True,  # with the texts of `samples`
        tokens_per_step=tokens_per_step,
    )
    run_name = f"{name}-{folder.name}"
    run = trainer.Trainer(head, settings, training_texts, run_name, teacher=teacher_fingerprint)
    run.train(first_loss, second_loss, config.n_ctx)
    path = folder / f"{name}.safetensors"
    models.write_tensors(head, path, target=teacher_fingerprint, **notes)


def write_samples(settings: SamplesSettings):
    """Let a target continue passages of the training text, for drafts to learn from. The texts are
    written into --cache_dir. After each batch all are saved in a .part file beside the result: an
    interrupted run resumes from it, and it is deleted at the end.
    """
    folder = settings.model_folder(settings.target_model_size)
    model = utils.load_model(folder, utils.get_backend())
    ids = texts.encode_split(settings.corpus, "train", folder)
    path = texts.samples_path(settings.cache_dir, folder)
    # the finished batches of an interrupted run with the same texts and seed
    digits = sha256(ids).hexdigest()[:12]
    part = path.with_name(f"{path.stem}-{digits}-{settings.seed}-{SAMPLES_BATCH}.part")
    batches = list(np.load(part)) if part.is_file() else []
    for i in tqdm(range(len(batches), settings.n_batches), desc="samples"):
        batches.append(texts.continue_passages(model, ids, settings.seed, i, SAMPLES_BATCH))
        texts.save_array(np.stack(batches), part)
    # the interrupted run may have had a larger --n_batches
    texts.save_array(np.concatenate(batches[: settings.n_batches]), path)
    part.unlink(missing_ok=True)


# ---------------------------------------------------------------- the command line

COMMANDS = {
    "tokenizer": learn_tokenizer,
    "target": train_target,
    "samples": write_samples,
    "draft": distil_draft,
    "eagle": train_eagle,
    "medusa": train_medusa,
}


def run_command(words):
    """Run the command that a list of words from the command line asks for, or print the help.
    Raises InputError if there is no such command, or if its flags or files cannot be used.
    """
    if words and words[0] in ("--help", "-h"):
        print(__doc__, end="")
        return
    name = words[0] if words else ""
    if name not in COMMANDS:
        raise InputError(unknown_message("command", name, COMMANDS) + ", or --help")
    call(COMMANDS[name], words[1:], f"experiments/training/train.py {name}")


def main(words):
    """Run one command, from a list of words. Returns the exit code."""
    return run_for_exit_code(lambda: run_command(words))


if __name__ == "__main__":
    run_program(lambda: main(sys.argv[1:]))
