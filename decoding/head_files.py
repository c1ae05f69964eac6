"""Heads on disk: models/<target>/eagle.safetensors and medusa.safetensors, beside their target.

A head makes sense of one target's hidden states and of no other's. Its file says which target that
is, by the SHA-256 of the target's weights.
"""

import numpy as np

from backends.tiles import ROW_BY_ROW, Tiles
from checkpoints.files import sha256_of
from checkpoints.folder import weights_files
from checkpoints.formats import safetensors
from decoding.eagle import Eagle, EagleConfig
from decoding.medusa import Medusa, MedusaConfig
from gpt2 import nested
from utils import InputError


def fingerprint(folder):
    """The SHA-256 of a model's weights. Raises InputError for a folder without any."""
    return sha256_of(weights_files(folder))


def load_head(name, folder, target):
    """The head of that name in the folder of its target, a Model. Raises InputError."""
    path = folder / f"{name}.safetensors"
    train = f"python experiments/training/train.py {name}"
    if not path.is_file():
        raise InputError(
            f"--draft_model_size {name}: there is no {path}; choose another draft, or train one: "
            f"{train}"
        )
    table = safetensors.read_table(path)
    _, notes, _ = safetensors.read_header(path)
    if not isinstance(notes, dict) or notes.get("target") != fingerprint(folder):
        raise InputError(
            f"{path}: was trained on another target than the model beside it; train it again with "
            f"{train}"
        )
    shapes = {key: tensor.shape for key, tensor in table.items()}
    try:
        config = config_of(name, target.config, shapes, notes)
    except (TypeError, ValueError):
        config = None
    if config is None or shapes != config.shapes():
        raise InputError(f"{path}: no {name} head has such tensors and notes; fetch it again")
    return build(config, lambda key: table[key].read(np.float32), target)


def config_of(name, target, shapes, notes):
    """The shape of a head from those of its tensors and its target's Config.

    Raises TypeError or ValueError for what no head can have.
    """
    if name == "medusa":
        n_places = max(1, len(shapes) // 4)
        return MedusaConfig(target.n_vocab, target.n_ctx, target.n_embd, n_places, target.epsilon)
    (width,) = shapes.get("fc.bias", (target.n_embd,))
    n_head = int(notes.get("n_head", 1))
    if n_head < 1 or width % n_head:
        raise ValueError(f"n_head is {n_head}")
    block = {"n_embd": width, "n_head": n_head, "n_layer": 1}
    return EagleConfig(**vars(target) | block, n_hidden=target.n_embd)


def build(config, read, target):
    """A head from `read(name) -> array`, asked once for each of config.shapes()."""
    backend = target.backend

    def store(array):
        if backend.exact and array.ndim == 2:
            return Tiles.cut(array, ROW_BY_ROW)
        return backend.asarray(array)

    tree = nested({name: store(read(name)) for name in config.shapes()})
    shared = {name: target.params[name] for name in ("wte", "wpe", "ln_f", "head")}
    if isinstance(config, MedusaConfig):
        heads = [tree["heads"][str(i)] for i in range(config.n_places)]
        return Medusa(config, shared | {"heads": heads}, backend)
    own = {"fc": tree["fc"], "blocks": [tree["h"]["0"]], "proj": tree["proj"]}
    return Eagle(config, shared | own, backend)
