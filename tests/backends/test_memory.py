"""How much memory there is, as a machine and its containers say."""

import numpy as np
import pytest
from heads import EAGLE, head_config, toy_head
from toys import TINY, tiny_model

from backends import memory

MEMINFO = {"proc/meminfo": "MemTotal: 16 kB\nMemAvailable:    8 kB\n"}
VERSION_2 = {"proc/self/cgroup": "0::/a/b\n"}
VERSION_1 = {
    "proc/self/cgroup": "5:cpu:/y\n4:memory:/x\n",
    "cg/memory/x/memory.limit_in_bytes": "5000\n",
    "cg/memory/x/memory.usage_in_bytes": "3000\n",
    "cg/memory/x/memory.stat": "inactive_file 10\ntotal_inactive_file 500\n",
}


def limits(folder, limit, usage, stat=""):
    """The files of a control group of version 2."""
    files = {"memory.max": limit, "memory.current": usage, "memory.stat": stat}
    return {f"cg/{folder}{name}": f"{value}\n" for name, value in files.items()}


MACHINES = {  # what the system's files say, and how many bytes a process may take
    "nothing": ({}, float("inf")),
    "a machine": (MEMINFO, 8192),
    "no limit": (MEMINFO | VERSION_2 | limits("", "max", 0), 8192),
    "a limit": (MEMINFO | VERSION_2 | limits("", 5000, 3000, "anon 7\ninactive_file 1000"), 3000),
    "a limit above": (VERSION_2 | limits("a/", 5000, 4000) | limits("a/b/", 9000, 10), 1000),
    "version 1": (VERSION_1, 2500),
    "another root": (MEMINFO | {"proc/self/cgroup": "0::/../../elsewhere\n"}, 8192),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_how_much_memory_there_is(tmp_path, monkeypatch, machine):
    files, expected = MACHINES[machine]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cg")
    assert memory.available_bytes() == expected


@pytest.mark.parametrize("kind", ["model", EAGLE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cache_takes_what_was_said(kind, dtype):
    """Every array of it, with the padding of the keys; at most a hidden state and 32 keys less."""
    model = tiny_model(dtype=dtype)
    config = TINY
    if kind == EAGLE:
        model, config = toy_head(EAGLE, model), head_config(EAGLE, TINY)
    arrays = [array for array in vars(model.new_cache()).values() if hasattr(array, "base")]
    allocated = [array if array.base is None else array.base for array in arrays]
    taken = sum(array.nbytes for array in allocated)
    spare = memory.cache_bytes(config, dtype) - taken
    n_spare = TINY.n_embd + 32 * config.n_layer * config.n_embd
    assert 0 <= spare <= n_spare * np.dtype(dtype).itemsize
