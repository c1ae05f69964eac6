"""python main.py check SIZE_OR_FOLDER: load a model as a run does, and say what it is."""

import json
from pathlib import Path

import numpy as np

from backends.backend import get_backend
from checkpoints.checksum import sha256_of
from checkpoints.folder import open_weights, weights_files
from checkpoints.registry import MODELS_DIR, SIZES
from checkpoints.search import find_folder
from gpt2 import Model
from utils import load_models

# [{"ids": of a prompt, "greedy": the tokens that OpenAI's 124M writes after it}]
GOLDEN = Path(__file__).parents[1] / "checkpoints" / "golden_124M.json"
LARGEST = 1e18  # of a weight's size: the square of a larger one leaves float32


def check(size_or_folder: str, *, models_dir: str = MODELS_DIR) -> None:
    """Load a model as a run does, and print its folder, its shape and the SHA-256 of each file of
    weights. For a model of 124M's shape, also print whether it writes, greedily, what OpenAI's
    does.

    Give a size in models_dir, or a folder. The exit code is 2 for a model that cannot be used: its
    files are missing or damaged, a weight is larger than 1e18, the logits of all tokens lie within
    0.01, or a folder named 124M has other tokens than OpenAI's.

    Flags:
        models_dir: the folder that holds a folder for each model
    """
    folder = find_folder(size_or_folder, models_dir)
    models, _ = load_models([str(folder)], models_dir, get_backend())
    model = models[0]
    print(folder, model.config, sep="\n")
    for path in weights_files(folder):
        print(f"{path.name}: SHA-256 {sha256_of([path])}")
    require_small_entries(folder, model)
    require_logits(folder, model)
    if model.config == SIZES["124M"]:
        compare_with_openai(folder, model)


def compare_with_openai(folder: Path, model: Model) -> None:
    """Print whether a model writes, greedily, what OpenAI's 124M writes. Raises ValueError if it
    does not, but its folder is named 124M.
    """
    entries = json.loads(GOLDEN.read_text())
    is_the_same = all(follows(model, entry["ids"], entry["greedy"]) for entry in entries)
    verdict = "those" if is_the_same else "not those"
    print(f"greedy tokens: {verdict} of OpenAI's 124M")
    if folder.name == "124M" and not is_the_same:
        raise ValueError(f"{folder}: is not OpenAI's 124M; delete it and download 124M again")


def require_small_entries(folder: Path, model: Model) -> None:
    """Raise ValueError, which names the file, if a number in the weights of a folder is larger than
    1e18 or smaller than -1e18, as after a flipped bit. model: was loaded from it, so none is NaN
    """
    for name, tensor in open_weights(folder, model.config).items():
        array = tensor.stored()  # in the file's own dtype
        largest = max(array.max(), -array.min())
        if largest > LARGEST:
            problem = f"{name} has an entry of size {largest:.1g}: damaged"
            raise ValueError(f"{tensor.path}: {problem}; fetch it again")


def require_logits(folder: Path, model: Model) -> None:
    """Raise ValueError unless the logits after up to eight tokens are finite, and the largest is
    more than 0.01 above the smallest. folder: of the model, for the error
    """
    ids = list(range(min(8, model.config.n_ctx, model.config.n_vocab)))
    logits = model.read(ids, model.new_cache())  # [1, n_vocab]
    if not 0.01 < np.ptp(logits) < np.inf:  # NaN is not between them
        problem = "the logits of all tokens are equal, or not finite"
        why = "the weights are zero, damaged, or of another dtype than their file says"
        raise ValueError(f"{folder}: {problem}: {why}; fetch them again")


def follows(model: Model, ids: list[int], tokens: list[int]) -> bool:
    """Whether the model, greedily, writes these tokens after the ids."""
    # row i of the logits is for tokens[i]; nothing follows the last token, so it is not read
    logits = model.read(ids + tokens[:-1], model.new_cache(), n_last=len(tokens))
    return logits.argmax(axis=-1).tolist() == tokens
