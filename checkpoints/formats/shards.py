"""The index of weights in several files, *shards*: {"weight_map": {name of a tensor: file}}."""

import re
from pathlib import Path

from checkpoints.files import REFETCH, read_json

SHARD = r"[\w.-]{1,200}\.(safetensors|bin)"  # a name that leads to no other folder
MAX_SHARDS = 1000


def files_of(index: Path) -> list[Path]:
    """The paths of the files that an index of weights names, each once, sorted by name.

    index: the path of a JSON object {"weight_map": {name of a tensor: name of the file beside the
        index that has it, such as "model-00001-of-00002.safetensors"}}
    Raises ValueError if it names none, more than MAX_SHARDS (1,000), or what is no *.safetensors or
    *.bin beside it.
    """
    weight_map = read_json(index).get("weight_map")
    names: set[str] = set()
    if isinstance(weight_map, dict):
        names = {str(name) for name in weight_map.values()}
    are_files = all(re.fullmatch(SHARD, name, re.ASCII) for name in names)
    if not are_files or not 0 < len(names) <= MAX_SHARDS:
        raise ValueError(f"{index}: expected the files of tensors beside it; {REFETCH}")
    return [index.with_name(name) for name in sorted(names)]
