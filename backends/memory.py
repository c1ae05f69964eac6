"""How many bytes models and their caches need, and how many are available.

utils.require_memory refuses a model that does not fit: a machine that swaps is busy for hours.
"""

import math
import re
from pathlib import Path

import numpy as np

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# of each version of control groups, by its mark in /proc/self/cgroup: folder, limit, usage
LIMITS = {
    "": ("", "memory.max", "memory.current"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def weights_bytes(config, dtype=np.float32):
    """The bytes that the weights of a model with this Config take."""
    return np.dtype(dtype).itemsize * config.n_parameters


def cache_bytes(config, dtype=np.float32):
    """The bytes of the cache for one text that fills the context."""
    # gpt2.KVCache pads the keys by 1 to 32 positions
    n_positions = (config.n_ctx + 32) + config.n_ctx
    keys_and_values = n_positions * config.n_layer * config.n_embd
    # EAGLE's hidden states are as wide as its target's, and there is one before the first position
    hidden = (config.n_ctx + 1) * getattr(config, "n_hidden", config.n_embd)
    return np.dtype(dtype).itemsize * (keys_and_values + hidden)


def available_bytes():
    """The bytes that this process can still allocate: on Linux a number, elsewhere infinity."""
    free = re.findall(r"(?m)^MemAvailable:\s+(\d+) kB", read(PROC / "meminfo"))
    found = [1024 * int(n) for n in free]
    for mark, path in re.findall(r"(?m)^\d+:(.*?):/(.*)$", read(PROC / "self/cgroup")):
        if mark in LIMITS:
            root, limit, usage = LIMITS[mark]
            group = CGROUPS / root / path
            # a limit (a container's, say) binds what lies below it
            for folder in (group, *group.parents):
                found += headroom(folder, limit, usage)
    return min(found, default=math.inf)


def headroom(folder, limit, usage):
    """[bytes] that one control group still allows; [] where it sets no limit.

    Cached file pages count as used there, but give way: those are inactive_file.
    """
    allowed, used = (read(folder / name).strip() for name in (limit, usage))
    if not allowed.isdigit() or not used.isdigit():
        return []
    cache = re.findall(r"(?m)^(?:total_)?inactive_file (\d+)", read(folder / "memory.stat"))
    return [int(allowed) - int(used) + max(map(int, cache), default=0)]


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""
