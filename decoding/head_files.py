"""Loads heads from models/<target>/eagle.safetensors and medusa.safetensors, beside their target.

A head fits the hidden states of one target only. The metadata of its file (the strings in the
header of a safetensors file) name this target, by the SHA-256 of the target's weights.
"""

import numpy as np

from backends.tiles import ROW_BY_ROW, Tiles
from checkpoints.errors import InputError
from checkpoints.files import sha256_of
from checkpoints.folder import weights_files
from checkpoints.formats import safetensors
from decoding.eagle import Eagle, EagleConfig
from decoding.medusa import Medusa, MedusaConfig
from gpt2 import nested


def fingerprint(folder):
    """The SHA-256, in hex, of the weights in a folder (a Path). Raises InputError without any."""
    return sha256_of(weights_files(folder))


def load_head(name, folder, target):
    """Load the Eagle or Medusa from the folder (a Path) of its target, a Model.

    name: "eagle" or "medusa". Raises InputError if there is no such file, if the head was trained
    on other weights, or if the tensors are not those of such a head.
    """
    path = folder / f"{name}.safetensors"
    train = f"python experiments/training/train.py {name}"
    if not path.is_file():
        raise InputError(
            f"--draft_model_size {name}: there is no {path}; choose another draft, or train one: "
            f"{train}"
        )
    table = safetensors.read_table(path)
    _, metadata, _ = safetensors.read_header(path)
    if metadata.get("target") != fingerprint(folder):
        raise InputError(
            f"{path}: was trained on another target than the model beside it; train it again with "
            f"{train}"
        )
    shapes = {key: tensor.shape for key, tensor in table.items()}
    try:
        config = infer_config(name, target.config, shapes, metadata)
    except (KeyError, TypeError, ValueError):
        config = None
    if config is None or shapes != config.shapes():
        raise InputError(f"{path}: no {name} head has such tensors and notes; fetch it again")
    return build_head(config, lambda key: table[key].read(np.float32), target)


def infer_config(name, target, shapes, metadata):
    """The EagleConfig or MedusaConfig of a head, from what its file holds.

    name: "eagle" or "medusa"; target: the target's Config; shapes: {name: shape} of the tensors;
    metadata: {str: str}. Raises KeyError, TypeError or ValueError if no EAGLE head has such ones.
    The caller still has to compare `shapes` with those of the config.
    """
    if name == "medusa":
        # a head has two matrices and two biases; with fewer, the caller finds out what is missing
        n_places = max(1, len(shapes) // 4)
        return MedusaConfig(target.n_vocab, target.n_ctx, target.n_embd, n_places, target.epsilon)
    (width,) = shapes["fc.bias"]  # ValueError unless it has one axis
    n_head = int(metadata.get("n_head", 1))
    if n_head < 1 or width % n_head:
        raise ValueError(f"n_head is {n_head}")
    block = {"n_embd": width, "n_head": n_head, "n_layer": 1}
    return EagleConfig(**vars(target) | block, n_hidden=target.n_embd)


def build_head(config, read, target):
    """Build the Eagle or Medusa of a config (EagleConfig or MedusaConfig) for its target, a Model,
    whose embeddings, final norm and output head it shares. read(name) -> array is called once for
    each name of a tensor.
    """
    backend = target.backend

    def store(array):
        # exact: matrices in tiles, whose products do not depend on how many rows there are
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
