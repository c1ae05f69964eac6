"""python main.py check SIZE_OR_FOLDER: load a model as a run does, and say what it is."""

import json
from pathlib import Path

import numpy as np

from backends.backend import get_backend
from checkpoints.files import sha256_of
from checkpoints.folder import weights_files
from checkpoints.registry import MODELS_DIR, SIZES
from checkpoints.search import find_folder
from utils import load_models

# [{"ids": of a prompt, "greedy": the tokens that OpenAI's 124M writes after it}]
GOLDEN = Path(__file__).parents[1] / "checkpoints" / "golden_124M.json"


def check(size_or_folder: str, *, models_dir: str = MODELS_DIR) -> None:
    """Load a model as a run does, and print its shape and the SHA-256 of its weights. The greedy
    tokens of a model of 124M's shape are compared with those of OpenAI's.

    Give a size in models_dir, or a folder. The exit code is 2 for a model that cannot be used.

    Flags:
        models_dir: the folder that holds a folder for each model
    """
    folder = find_folder(size_or_folder, models_dir)
    (model,), encoder = load_models([str(folder)], models_dir, get_backend())
    print(folder, model.config, sep="\n")
    for path in weights_files(folder):
        print(f"{path.name}: SHA-256 {sha256_of([path])}")
    ids = [*range(min(8, model.config.n_ctx, model.config.n_vocab))]
    if not 0.01 < np.ptp(model.read(ids, model.new_cache())) < np.inf:  # NaN is not between them
        raise ValueError(
            f"{folder}: the logits of all tokens are equal, or not finite: the weights are zero, "
            "damaged, or of another dtype than their file says; fetch them again"
        )
    if model.config == SIZES["124M"]:
        right = all(
            follows(model, entry["ids"], entry["greedy"])
            for entry in json.loads(GOLDEN.read_text())
        )
        print(f"greedy tokens: {'' if right else 'not '}those of OpenAI's 124M")
        if folder.name == "124M" and not right:
            raise ValueError(f"{folder}: is not OpenAI's 124M; delete it and download 124M again")


def follows(model, ids, tokens):
    """Whether the model, greedily, writes these tokens after the ids."""
    logits = model.read([*ids, *tokens[:-1]], model.new_cache(), n_last=len(tokens))
    return logits.argmax(axis=-1).tolist() == tokens
