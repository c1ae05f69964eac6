"""What a checkpoint folder holds: which files, the shape of the model, its tensors. Everything that
cannot be used raises ValueError.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from checkpoints.files import REFETCH, first_of, read_json
from checkpoints.formats.tensor import Tensor
from checkpoints.registry import SIZES
from gpt2 import Config

CONFIGS = ("config.json", "hparams.json")
WEIGHTS = (  # the preferred first; an index names the shards, files that have some tensors each
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKEN_LISTS = (  # that name tokens besides the vocabulary; the last to give one an id decides
    "special_tokens_map.json",
    "tokenizer_config.json",
    "added_tokens.json",
    "tokenizer.json",
)
OPTIONAL = ("generation_config.json", *TOKEN_LISTS)

# ---------------------------------------------------------------- which files


def tokenizer_files(folder: Path) -> list[Path]:
    """The paths of a folder's tokenizer: [tokenizer.json], else [vocab.json or encoder.json,
    merges.txt or vocab.bpe]. Raises ValueError if one is missing, or only a pointer of Git LFS.
    """
    vocabulary = first_of(folder, "tokenizer.json", "vocab.json", "encoder.json")
    if vocabulary.name == "tokenizer.json":
        return [vocabulary]
    return [vocabulary, first_of(folder, "merges.txt", "vocab.bpe")]


def weights_files(folder: Path) -> list[Path]:
    """The paths of a folder's weights: one file, or all shards that an index names, or TensorFlow's
    index and its data. Shards and data may be missing. Raises ValueError if there is none of these,
    and for a damaged index of shards.
    """
    if any((folder / name).is_file() for name in WEIGHTS):
        path = first_of(folder, *WEIGHTS)
        if path.suffix != ".json":
            return [path]
        from checkpoints.formats.shards import files_of

        return files_of(path)
    from checkpoints.formats import tf_checkpoint  # here: few folders have such files

    # if there is no such index, the error names WEIGHTS, too
    index = first_of(folder, *WEIGHTS, *tf_checkpoint.index_names(folder))
    return [index, tf_checkpoint.data_of(index)]


def model_files(folder: Path) -> list[Path]:
    """The paths of all files that decide the texts of a folder's model: shape, tokenizer, weights,
    and if it has them, generation_config.json and the lists of tokens, such as added_tokens.json.
    Raises ValueError if one is missing; not for a shard, whose path is in the list all the same.
    """
    needed = [first_of(folder, *CONFIGS)] + tokenizer_files(folder) + weights_files(folder)
    optional = [folder / name for name in OPTIONAL if (folder / name).is_file()]
    return list(dict.fromkeys(needed + optional))  # each once: tokenizer.json may be in both


def problem_with(folder: Path) -> str:
    """What is wrong with a folder, in words: the first file of a model that it lacks, or a damaged
    index of shards; "" if it has all files. No other file is read.
    """
    try:
        missing = [path for path in model_files(folder) if not path.is_file()]
    except ValueError as error:
        return str(error)
    return f"{missing[0]}: is missing" if missing else ""


# ---------------------------------------------------------------- the shape

# {field of gpt2.Config: (its names in a file, of which the first that is there counts, as for
# transformers; least; most)}
NUMBERS = {
    "n_vocab": (("vocab_size", "n_vocab"), 2, 10**7),
    "n_ctx": (("max_position_embeddings", "n_positions", "n_ctx"), 1, 10**7),
    "n_embd": (("hidden_size", "n_embd"), 2, 10**7),  # one column makes no matrix
    "n_head": (("num_attention_heads", "n_head"), 1, 10**7),
    "n_layer": (("num_hidden_layers", "n_layer"), 1, 1000),
}
TANH_GELU = ("gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate")
EXACT_GELU = ("gelu", "gelu_python")
# {name in a file: the values that can be computed, that of a file without this name first}
SUPPORTED = {
    "model_type": ("gpt2",),
    "activation_function": TANH_GELU + EXACT_GELU,
    "scale_attn_weights": (True, False),
    "scale_attn_by_inverse_layer_idx": (False, True),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}


def read_config(folder: Path) -> Config:
    """The shape of the model, and which GELU, from config.json or hparams.json of a folder.

    Raises ValueError, which names the field, its value and what was expected: for a setting that
    GPT-2 does not have (SUPPORTED), such as cross-attention; for a size that is missing or out of
    range (NUMBERS), such as an n_ctx above 10^7; for n_embd that is no multiple of n_head, an MLP
    not four times as wide, and an epsilon of layer norm that is not between 0 and 1.
    """
    path = first_of(folder, *CONFIGS)
    values = read_json(path)
    for name, (usual, *others) in SUPPORTED.items():
        value = values.get(name, usual)
        require(value in (usual, *others), path, name, value, expected=f"GPT-2's {usual!r}")
    shape = {field: read_number(field, values, path) for field in NUMBERS}
    n_embd = shape["n_embd"]
    n_inner = values.get("n_inner")  # the width of the MLP
    require(n_embd % shape["n_head"] == 0, path, "n_embd", n_embd, expected="a multiple of n_head")
    require(n_inner in (None, 4 * n_embd), path, "n_inner", n_inner, expected="4 * n_embd")
    epsilon = values.get("layer_norm_epsilon", 1e-5)
    is_small = type(epsilon) in (int, float) and 0 < epsilon < 1
    require(is_small, path, "layer_norm_epsilon", epsilon, expected="a small number above 0")
    exact_gelu = values.get("activation_function") in EXACT_GELU
    return Config(**shape, epsilon=epsilon, exact_gelu=exact_gelu)


def read_number(field: str, values: dict, path: Path) -> int:
    """The number of `field`, a key of NUMBERS, in `values`, the JSON of the config file at `path`.
    If the file has none but a model_type, it is that of GPT-2 124M, as transformers takes it.
    Raises ValueError, which names the file, for a number that is missing or out of range.
    """
    names, least, most = NUMBERS[field]
    stated = [name for name in names if values.get(name) is not None]
    if not stated and "model_type" in values:
        return getattr(SIZES["124M"], field)
    name = stated[0] if stated else field
    value: Any = values.get(name)
    expected = f"a whole number from {least} to {most}"
    if value is None:  # as in a server's {"error": "rate limit"}
        expected += f"; if this is no model's, {REFETCH}"
    require(type(value) is int and least <= value <= most, path, name, value, expected)
    return value


def require(is_right: bool, path: Path, name: str, value: Any, expected: str) -> None:
    """Raise ValueError, "PATH: NAME is VALUE; expected EXPECTED", unless is_right is True."""
    if not is_right:
        raise ValueError(f"{path}: {name} is {value!r}; expected {expected}")


# ---------------------------------------------------------------- the tensors


def open_weights(folder: Path, config: Config) -> dict[str, Tensor]:
    """The tensors of a folder, {name in config.shapes(): Tensor}, whose numbers are not read yet.

    Causal masks and output heads are left out, and with a warning rows of the token embedding that
    are of none of the n_vocab tokens. If config.json scales attention scores otherwise than GPT-2,
    the weights that make the queries are multiplied by that scale when they are read.

    Raises ValueError for a file that is missing or damaged, for a tensor that is missing, unknown
    or of another shape than config.shapes() says, and for an output head of its own.
    """
    files, values = weights_files(folder), read_json(first_of(folder, *CONFIGS))
    tensors, shapes = read_tables(files), config.shapes()
    fits = {name: tensor.shape for name, tensor in tensors.items()} == shapes
    scales_by_layer = values.get("scale_attn_by_inverse_layer_idx")
    if not fits or scales_by_layer or not values.get("scale_attn_weights", True):
        from checkpoints.variants import fit_tensors  # here: the included models need none of it

        tensors = fit_tensors(tensors, config, values, path=files[-1])  # named in errors
    return {name: tensors[name] for name in shapes}


def read_tables(files: Iterable[Path]) -> dict[str, Tensor]:
    """All tensors in these files of weights, {name there: Tensor}, whose numbers are not read yet.
    Raises ValueError for a file that is missing or damaged, and for a tensor that two files have.
    """
    # before any is read: ValueError for one that is missing or only a pointer of Git LFS
    existing_files = [first_of(path.parent, path.name) for path in files]
    stored: dict[str, Tensor] = {}
    for path in existing_files:
        for name, tensor in tensors_in(path).items():
            if name in stored:
                other = stored[name].path.name
                raise ValueError(f"{path}: has {name!r}, as {other} has, too; {REFETCH}")
            stored[name] = tensor
    return stored


def tensors_in(path: Path) -> dict[str, Tensor]:
    """The tensors in one file of weights, {name there: Tensor}, by the reader of its format, which
    is imported here; {} for TensorFlow's data, as its index names the tensors there.
    """
    if path.suffix == ".safetensors":
        from checkpoints.formats.safetensors import read_table
    elif path.suffix == ".bin":
        from checkpoints.formats.pytorch import read_table
    elif path.suffix == ".index":
        from checkpoints.formats.tf_checkpoint import read_table
    else:
        return {}
    return read_table(path)
