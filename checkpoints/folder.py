"""What a checkpoint folder holds: which files, the shape of the model, its tensors."""

import re

from checkpoints.errors import InputError
from checkpoints.files import first_of, read_json
from checkpoints.formats import safetensors, tf_checkpoint
from checkpoints.formats.tensor import same_numbers
from gpt2 import Config

WEIGHTS = {
    "model.safetensors": safetensors.read_table,
    "model.safetensors.index.json": safetensors.read_sharded,
    "model.ckpt.index": tf_checkpoint.read_table,
}
PARTS = [
    ("config.json", "hparams.json"),
    ("vocab.json", "encoder.json"),
    ("merges.txt", "vocab.bpe"),
    tuple(WEIGHTS),
]
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")

# Hugging Face's names for OpenAI's numbers
OTHER_NAMES = {"n_vocab": "vocab_size", "n_ctx": "n_positions"}
LARGEST = 10**7
MOST_LAYERS = 1000

# ---------------------------------------------------------------- which files


def missing_files(folder):
    """The names of the files that a folder lacks, such as "config.json or hparams.json"; [] for a
    complete one.
    """
    lacks = []
    for names in PARTS:
        if not any((folder / name).is_file() for name in names):
            lacks.append(" or ".join(names))
    there = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    needed = named_in(there[0]) if there else []
    return lacks + [path.name for path in needed if not path.is_file()]


def named_in(path):
    """The files that hold the weights, where the one to begin with is only an index."""
    if path.name == "model.safetensors.index.json":
        return sorted(set(safetensors.shards(path).values()))
    if path.name == "model.ckpt.index":
        return [path.with_name(tf_checkpoint.DATA)]
    return []


def weights_path(folder):
    """The file to begin with when reading a folder's weights. Raises InputError where there is
    none, or only a pickle.
    """
    there = [folder / name for name in (*WEIGHTS, *PICKLES) if (folder / name).is_file()]
    if there and there[0].name in PICKLES:
        raise InputError(
            f"{there[0]} is a pickle, which can run any code when opened, so it never is; convert "
            "it where you trust it: transformers' "
            "GPT2LMHeadModel.from_pretrained(FOLDER).save_pretrained(FOLDER) writes "
            "model.safetensors"
        )
    return first_of(folder, *WEIGHTS)


def weights_files(folder):
    """All files that a folder's weights are in. Raises InputError where there is none."""
    path = weights_path(folder)
    return [path, *named_in(path)]


# ---------------------------------------------------------------- the shape


def read_config(folder):
    """The Config in hparams.json or config.json. Raises InputError for one that gpt2.py cannot
    compute.
    """
    path = first_of(folder, "config.json", "hparams.json")
    values = read_json(path)
    shape = {}
    for name in ("n_vocab", "n_ctx", "n_embd", "n_head", "n_layer"):
        value = values.get(name, values.get(OTHER_NAMES.get(name)))
        least = 2 if name in ("n_vocab", "n_embd") else 1  # a matrix of one column is no matrix
        if type(value) is not int or value < least:  # not isinstance: True is an int
            raise InputError(
                f"{path}: {name} is {value!r}; expected a whole number, at least {least}"
            )
        if value > (MOST_LAYERS if name == "n_layer" else LARGEST):
            raise InputError(f"{path}: {name} is {value}; that is no GPT-2, fetch the file again")
        shape[name] = value
    n_embd, n_head = shape["n_embd"], shape["n_head"]
    if n_embd % n_head:
        raise InputError(f"{path}: n_embd {n_embd} is not a multiple of n_head {n_head}")
    require_gpt2(path, values, n_embd)
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise InputError(
            f"{path}: layer_norm_epsilon is {epsilon!r}; expected a small number above 0"
        )
    return Config(**shape, epsilon=epsilon)


def require_gpt2(path, values, n_embd):
    """Raises InputError for a config that asks for something GPT-2 does not do."""
    expected = {
        "model_type": ("gpt2",),
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "n_inner": (None, 4 * n_embd),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "tie_word_embeddings": (True,),
    }
    for name, allowed in expected.items():
        if name in values and values[name] not in allowed:
            raise InputError(
                f"{path}: {name} is {values[name]!r}; only GPT-2's {allowed[-1]!r} can be computed"
            )


# ---------------------------------------------------------------- the tensors


def open_weights(folder, config):
    """{name in config.shapes(): Tensor} of a folder; nothing is read yet but headers. Raises
    InputError.
    """
    path = weights_path(folder)
    return match(path, WEIGHTS[path.name](path), config)


def match(path, table, config):
    """{name in config.shapes(): Tensor}: every tensor of the config in its shape, and no unknown
    one. Raises InputError.

    Left out are Hugging Face's prefix, its causal masks, and its second copy of the embedding,
    which must be a copy.
    """
    table = common_names(path, table)
    shapes = config.shapes()
    for name, shape in shapes.items():
        if name not in table:
            raise InputError(f"{path}: lacks the tensor {name}; the file does not match its config")
        require_shape(path, name, table[name], shape)
    head = table.pop("lm_head.weight", None)
    if extra := sorted(table.keys() - shapes.keys()):
        raise InputError(f"{path}: has {len(extra)} tensors GPT-2 does not, such as {extra[0]!r}")
    if head:
        require_shape(path, "lm_head.weight", head, shapes["wte.weight"])
        if not same_numbers(head, table["wte.weight"]):
            raise InputError(f"{path}: lm_head.weight differs from wte.weight; GPT-2 ties them")
    return {name: table[name] for name in shapes}


def common_names(path, table):
    """The table without Hugging Face's prefix and causal masks. Raises InputError where two tensors
    would have one name.
    """
    found = {}
    for stored, tensor in table.items():
        name = stored.removeprefix("transformer.")
        if re.fullmatch(r"h\.\d+\.attn\.(masked_)?bias", name):
            continue
        if name in found:
            raise InputError(
                f"{path}: has both {name!r} and 'transformer.{name}', which mean the same tensor; "
                "fetch it again"
            )
        found[name] = tensor
    return found


def require_shape(path, name, tensor, shape):
    if tensor.shape != shape:
        raise InputError(
            f"{path}: {name} has shape {list(tensor.shape)}; its config says {list(shape)}"
        )
