"""Make the models in models/: vocabulary, targets, drafts distilled from them, and heads on them.

    pip install -r experiments/training/requirements-train.txt
    python experiments/training/train.py COMMAND --corpus DIR

DIR holds `*_train.txt` and `*_valid.txt`: plain text, stories ended by a line `<|endoftext|>`.
models/README.md lists the commands that made each model, and the books it has read. A run that is
interrupted goes on from its last checkpoint, in --cache_dir, when the same command is given again;
--steps and --learning_rate may change on the way. The batch of a step depends on (seed, step)
alone. The result is written to models/ at the end of a run, and whatever builds on a model (a
teacher, a start) is read from there. The texts are turned into token ids once and kept in
--cache_dir.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import backends.blas  # noqa: E402, F401, isort: skip: before NumPy

import numpy as np  # noqa: E402
from tqdm import tqdm  # noqa: E402

import utils  # noqa: E402
from checkpoints.files import sha256_of  # noqa: E402
from experiments.cli.exit_codes import exit_code, script  # noqa: E402
from experiments.cli.flags import call, unknown  # noqa: E402
from experiments.cli.help import docstring  # noqa: E402
from experiments.cli.validators import check_numbers, check_seed  # noqa: E402
from experiments.drafting.stored import fingerprint  # noqa: E402
from gpt2 import Config  # noqa: E402
from utils import InputError  # noqa: E402

# n_vocab, n_ctx, n_embd, n_head, n_layer
SHAPES = {
    "0.7M": Config(2048, 512, 128, 4, 2),
    "7M": Config(2048, 512, 256, 4, 8),
}
EAGLE_HEADS = 4  # of the attention in its block


@dataclass(frozen=True)
class Places:
    """Where things are, and what makes a run repeatable.

    Places:
        corpus: the folder of *_train.txt and *_valid.txt
        models_dir: where models are read and written
        cache_dir: where checkpoints and token ids are kept
        seed: of weights, batches and samples
    """

    corpus: str = ""
    models_dir: str = utils.MODELS_DIR
    cache_dir: str = "training"
    seed: int = 1

    def __post_init__(self):
        check_seed(self.seed)

    def folder(self, size):
        """The folder of a model that is there. Raises InputError."""
        return Path(utils.find_folder(size, self.models_dir))

    def checkpoint(self, name):
        return Path(self.cache_dir) / f"{name}.pt"

    def samples(self, folder):
        """The file of the texts that the target in a folder wrote, with the weights it has now."""
        name = f"samples-{folder.name}-{fingerprint(folder)[:12]}.npy"
        return Path(self.cache_dir) / name

    def token_ids(self, split, folder):
        from experiments.training.tokens import read_token_ids

        return read_token_ids(self.corpus, split, folder, self.cache_dir)

    def schedule(self, steps, learning_rate, folder, *, written=False, weight_decay=0.05, **origin):
        """The Schedule of a run.

        folder: of its vocabulary, and of the target that wrote its samples if `written`
        origin: what else it goes on with
        """
        from experiments.training.run import Schedule
        from experiments.training.tokens import digest

        origin["text"] = digest(self.corpus, "train", folder)
        if written:
            origin["samples"] = sha256_of([self.samples(folder)])
        return Schedule(steps, learning_rate, self.seed, origin, weight_decay)

    def texts(self, folder, written=False, **tokens):
        """The Texts of a run, with those that the target in the folder wrote if asked for."""
        from experiments.training.run import Texts

        train, valid = (self.token_ids(split, folder) for split in ("train", "valid"))
        if not written:
            return Texts(train, valid, **tokens)
        path = self.samples(folder)
        if not path.is_file():
            raise InputError(f"{path}: is missing; run train.py samples first")
        return Texts(train, valid, np.load(path), **tokens)


def require_shape(flag, size):
    if size not in SHAPES:
        raise InputError(f"--{flag} {size!r}: expected {' or '.join(SHAPES)}")


def check_run(steps, learning_rate):
    check_numbers(1, steps=steps)
    if not 0 < learning_rate < float("inf"):
        raise InputError(f"--learning_rate {learning_rate}: expected a number above 0")


def copy_vocabulary(source, folder):
    """A model has the vocabulary of the one it comes from beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt"):
        if source != folder:
            (folder / name).write_bytes((source / name).read_bytes())


def write_result(model, vocabulary, folder, path, start=None):
    """Write the model of a finished run to its folder, with the vocabulary of another one.

    If the run was begun with the model that was there, its checkpoint goes on from the new one.
    """
    from experiments.training.run import go_on_from
    from experiments.training.torch_gpt2 import write_model

    copy_vocabulary(vocabulary, folder)
    write_model(model, folder)
    if start and start.resolve() == folder.resolve():
        go_on_from(path, fingerprint(folder))


def tokenizer(places: Places):
    """Learn the vocabulary of all models: a byte-level BPE of 2,048 tokens."""
    from experiments.data.corpus import documents
    from experiments.training.tokens import learn, write_vocabulary

    vocabulary, merges = learn(documents(places.corpus, "train"))
    for size in SHAPES:
        write_vocabulary(Path(places.models_dir) / size, vocabulary, merges)


def target(
    places: Places,
    target_model_size="7M",
    start="",
    steps=4000,
    learning_rate=3e-3,
    dropout=0.0,
    weight_decay=0.05,
):
    """Train a target on text, from nothing or from a model that is there.

    Run:
        target_model_size: the folder in models_dir that it is written to
        start: a model to start from; without it, a shape of that size and random weights
        steps: how many, of 4,096 tokens
        learning_rate: the highest
        dropout: the share of numbers that each step sets to zero
        weight_decay: how fast weights shrink. Both keep a target from learning the text by heart.
    """
    check_run(steps, learning_rate)
    if not 0 <= weight_decay < float("inf"):
        raise InputError(f"--weight_decay {weight_decay}: expected a number of 0 or more")
    if not 0 <= dropout < 1:
        raise InputError(f"--dropout {dropout}: expected a number from 0 to below 1")
    if not start:
        require_shape("target_model_size", target_model_size)
    folder = Path(places.models_dir) / target_model_size
    source = places.folder(start) if start else folder
    import torch

    from experiments.training.run import cross_entropy, train
    from experiments.training.torch_gpt2 import GPT2, read_model

    torch.manual_seed(places.seed)
    model = read_model(source, dropout) if start else GPT2(SHAPES[target_model_size], dropout)
    path, texts = places.checkpoint(target_model_size), places.texts(source)
    loss_at = lambda step: cross_entropy
    begun = fingerprint(source) if start else ""
    origin = {"command": "target", "start": begun, "dropout": dropout}
    schedule = places.schedule(steps, learning_rate, source, weight_decay=weight_decay, **origin)
    train(model, path, texts, loss_at, schedule, model.config.n_ctx)
    write_result(model, source, folder, path, source if start else None)


def grow(
    places: Places,
    start="7M",
    target_model_size="17M",
    layers="0,1,2,4,7",
    steps=3300,
    learning_rate=2e-3,
):
    """Train a target twice as wide as a smaller one, which it grows from.

    Run:
        start: the smaller model: a size in models_dir, or a folder
        target_model_size: the folder in models_dir that the larger one is written to
        layers: those of the smaller model to keep, in order
        steps: how many, of 4,096 tokens
        learning_rate: the highest
    """
    check_run(steps, learning_rate)
    source = places.folder(start)
    small = utils.read_config(source)
    kept = parse_layers(layers, small.n_layer)
    import torch

    from experiments.training.grow import grow as grown
    from experiments.training.run import cross_entropy, train
    from experiments.training.torch_gpt2 import GPT2, read_tensors, set_stored

    torch.manual_seed(places.seed)
    config = Config(
        small.n_vocab, small.n_ctx, 2 * small.n_embd, 2 * small.n_head, len(kept), small.epsilon
    )
    tensors = grown(read_tensors(source), kept, np.random.default_rng(places.seed), noise=0.02)
    model, folder = set_stored(GPT2(config), tensors), Path(places.models_dir) / target_model_size
    path, texts = places.checkpoint(target_model_size), places.texts(source)
    loss_at = lambda step: cross_entropy
    origin = {"command": "grow", "start": fingerprint(source), "layers": layers}
    schedule = places.schedule(steps, learning_rate, source, **origin)
    train(model, path, texts, loss_at, schedule, config.n_ctx)
    write_result(model, source, folder, path)


def parse_layers(text, n_layer):
    """The numbers of "0,1,4". Raises InputError."""
    try:
        layers = [int(part) for part in text.split(",")]
    except ValueError:
        layers = [-1]
    if not all(0 <= layer < n_layer for layer in layers):
        raise InputError(
            f"--layers {text!r}: expected numbers from 0 to {n_layer - 1} separated by commas"
        )
    return layers


def samples(places: Places, target_model_size="7M", n_batches=80, batch_size=64):
    """Let a target continue passages of the training text, for drafts to learn from. Goes on where
    it was interrupted.

    Run:
        target_model_size: a size in models_dir, or a folder
        n_batches: how many batches of texts; every third is greedy, the rest sampled
        batch_size: how many texts are written together
    """
    check_numbers(1, n_batches=n_batches, batch_size=batch_size)
    from experiments.training.distillation import written_batch
    from experiments.training.tokens import digest, save_array

    folder = places.folder(target_model_size)
    model = utils.load_model(folder, utils.get_backend())
    ids, path = places.token_ids("train", folder), places.samples(folder)
    text = digest(places.corpus, "train", folder)
    part = path.with_name(f"{path.stem}-{text}-{places.seed}-{batch_size}.part")
    batches = list(np.load(part)) if part.is_file() else []
    for i in tqdm(range(len(batches), n_batches), desc="samples"):
        batches.append(written_batch(model, ids, places.seed, i, batch_size))
        save_array(np.stack(batches), part)
    save_array(np.concatenate(batches[:n_batches]), path)
    part.unlink(missing_ok=True)


def draft(
    places: Places,
    draft_model_size="0.7M",
    target_model_size="7M",
    start="",
    written=False,
    steps=3000,
    learning_rate=4e-3,
):
    """Distil a draft model from a target.

    By total variation, after a first half by Kullback-Leibler where it starts from nothing.

    Run:
        draft_model_size: the folder in models_dir that it is written to
        target_model_size: the teacher, a size in models_dir, or a folder
        start: a draft model to start from; without it, the shape of 0.7M and random weights
        written: take half of the text from what the target wrote (train.py samples)
        steps: how many, of 4,096 tokens
        learning_rate: the highest
    """
    check_run(steps, learning_rate)
    teacher_folder = places.folder(target_model_size)
    start_folder = places.folder(start) if start else None
    import torch

    from experiments.training.distillation import draft_loss, kullback_leibler, total_variation
    from experiments.training.run import train
    from experiments.training.torch_gpt2 import GPT2, read_model

    torch.manual_seed(places.seed)
    teacher = read_model(teacher_folder).eval().requires_grad_(False)
    model = read_model(start_folder) if start else GPT2(SHAPES["0.7M"])
    distances = [draft_loss(teacher, each) for each in (kullback_leibler, total_variation)]
    loss_at = lambda step: distances[start != "" or step >= steps // 2]
    stage = f"{draft_model_size}-{'written' if written else 'books'}"
    texts = places.texts(teacher_folder, written)
    folder = Path(places.models_dir) / draft_model_size
    begun, path = fingerprint(start_folder) if start else "", places.checkpoint(stage)
    origin = {"command": "draft", "start": begun, "teacher": fingerprint(teacher_folder)}
    schedule = places.schedule(steps, learning_rate, teacher_folder, written=written, **origin)
    train(model, path, texts, loss_at, schedule, model.config.n_ctx)
    write_result(model, teacher_folder, folder, path, start_folder)


def eagle(places: Places, target_model_size="7M", width=256, steps=1000, learning_rate=3e-3):
    """Train EAGLE's head for a target (train.py samples first).

    Run:
        target_model_size: a size in models_dir, or a folder; eagle.safetensors is written there
        width: of the block
        steps: how many, of 4,096 tokens
        learning_rate: the highest
    """
    if width < EAGLE_HEADS or width % EAGLE_HEADS:
        raise InputError(f"--width {width}: expected a multiple of {EAGLE_HEADS}")

    def make(n_hidden):
        from experiments.training.torch_heads import Eagle

        return Eagle(n_hidden, width, EAGLE_HEADS)

    notes = {"n_head": str(EAGLE_HEADS)}
    train_head("eagle", make, places, target_model_size, steps, learning_rate, notes)


def medusa(places: Places, target_model_size="7M", n_heads=3, steps=1000, learning_rate=1e-2):
    """Train Medusa's heads for a target (train.py samples first).

    Run:
        target_model_size: a size in models_dir, or a folder; medusa.safetensors is written there
        n_heads: how many, one for each position of a draft
        steps: how many, of 1,024 tokens
        learning_rate: the highest
    """
    check_numbers(1, n_heads=n_heads)

    def make(n_hidden):
        from experiments.training.torch_heads import Medusa

        return Medusa(n_hidden, n_heads)

    # small steps: heads that begin as copies of the target's own need many, not large ones
    train_head("medusa", make, places, target_model_size, steps, learning_rate, {}, tokens=1024)


def train_head(name, make, places, target_model_size, steps, learning_rate, notes, tokens=4096):
    """Train make(width of the target) and write it, with notes, beside the target."""
    check_run(steps, learning_rate)
    folder = places.folder(target_model_size)
    import torch

    from experiments.training.distillation import head_loss, kullback_leibler, total_variation
    from experiments.training.run import train
    from experiments.training.torch_gpt2 import read_model, stored, write_tensors

    torch.manual_seed(places.seed)
    teacher = read_model(folder).eval().requires_grad_(False)
    head = make(teacher.config.n_embd)
    distances = [head_loss(teacher, each) for each in (kullback_leibler, total_variation)]
    loss_at = lambda step: distances[step >= steps // 2]
    texts = places.texts(folder, written=True, tokens=tokens)
    grown_on = fingerprint(folder)
    origin = {"command": name, "teacher": grown_on}
    schedule = places.schedule(steps, learning_rate, folder, written=True, **origin)
    path = places.checkpoint(f"{name}-{folder.name}")
    train(head, path, texts, loss_at, schedule, teacher.config.n_ctx)
    path = folder / f"{name}.safetensors"
    write_tensors(stored(head), path, target=grown_on, **notes)


COMMANDS = {
    command.__name__: command
    for command in (tokenizer, target, grow, samples, draft, eagle, medusa)
}


def usage():
    lines = [docstring(sys.modules[__name__]), "", "Commands, each with --help:"]
    for name, command in COMMANDS.items():
        first = " ".join(docstring(command).split("\n\n")[0].split())
        lines.append(f"    {name:<10}{first}")
    return "\n".join(lines)


def main(words):
    if words and words[0] in ("--help", "-h"):
        print(usage())
        return
    name, *words = words or [""]
    if name not in COMMANDS:
        raise InputError(unknown("command", name, COMMANDS) + ", or --help")
    try:
        call(COMMANDS[name], words)
    except ModuleNotFoundError as missing:
        raise InputError(
            f"training needs {missing.name}: "
            "pip install -r experiments/training/requirements-train.txt"
        ) from None


if __name__ == "__main__":
    script(lambda: exit_code(lambda: main(sys.argv[1:])))
