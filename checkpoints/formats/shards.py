"""A model in several files of one format, and the index that says which file has which tensor."""

import re
from collections.abc import Callable
from pathlib import Path

from checkpoints.files import read_json
from checkpoints.formats.tensor import Tensor

FILE = r"[\w.-]{1,200}\.(safetensors|bin)"  # a name that leads to no other folder


def shard_paths(index: Path) -> dict[str, Path]:
    """Read an index, such as model.safetensors.index.json: {name of a tensor: its file}. Raises
    ValueError if it names anything but files beside it.
    """
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(
        re.fullmatch(FILE, str(name), re.ASCII) for name in names.values()
    ):
        raise ValueError(
            f"{index}: expected a weight_map from tensors to files beside it; fetch it again"
        )
    return {tensor: index.with_name(name) for tensor, name in names.items()}


def read_shards(index: Path, read_table: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Read the tables of all files of an index. Raises ValueError if a file lacks a tensor."""
    file_of = shard_paths(index)
    tables = {file: read_table(file) for file in {*file_of.values()}}
    try:
        return {name: tables[file][name] for name, file in file_of.items()}
    except KeyError as missing:
        raise ValueError(
            f"{index}: no file has {missing}, which it names; fetch it again"
        ) from None
