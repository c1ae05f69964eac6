"""How many bytes models and their caches need, and how many are available.

utils.require_memory refuses a model that does not fit: a machine that swaps is busy for hours.
"""

import math
import re
from pathlib import Path

import numpy as np

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# version 2 of control groups has "" in a line of /proc/self/cgroup, version 1 the controller's name
LIMITS = {  # {that field: (folder below CGROUPS, file with the limit, file with the usage)}
    "": ("", "memory.max", "memory.current"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def weights_bytes(config, dtype=np.float32):
    """The bytes that the weights of a model with this Config take."""
    return np.dtype(dtype).itemsize * config.n_parameters


def cache_bytes(config, dtype=np.float32):
    """The most bytes that the cache of a model with this Config takes, for a text that fills the
    context: keys, values, and the last hidden state of each position.
    """
    # gpt2.KVCache pads the keys by 1 to 32 positions, and does not pad the values
    n_positions = (config.n_ctx + 32) + config.n_ctx
    keys_and_values = n_positions * config.n_layer * config.n_embd
    # EAGLE's hidden states are as wide as its target's. It keeps one more than it has positions
    hidden = (config.n_ctx + 1) * getattr(config, "n_hidden", config.n_embd)
    return np.dtype(dtype).itemsize * (keys_and_values + hidden)


def available_bytes():
    """The bytes that this process can still allocate: the smallest of what the machine has free and
    what each of its control groups still allows. Infinity if no file says that, as on macOS.
    """
    free_kilobytes = re.findall(r"(?m)^MemAvailable:\s+(\d+) kB", read_text(PROC / "meminfo"))
    n_bytes = [1024 * int(n) for n in free_kilobytes]
    # a line of version 2 is "0::/path", of version 1 "4:memory:/path"
    for controller, path in re.findall(r"(?m)^\d+:(.*?):/(.*)$", read_text(PROC / "self/cgroup")):
        if controller in LIMITS:
            root, limit, usage = LIMITS[controller]
            group = CGROUPS / root / path
            # a limit of a group (a container's, say) also binds the groups inside it
            for folder in (group, *group.parents):
                n_bytes.append(headroom(folder, limit, usage))
    return min(n_bytes, default=math.inf)


def headroom(folder, limit, usage):
    """The bytes that a control group still allows; infinity if it sets no limit. folder: its Path;
    limit, usage: the names of the files in it with its limit and its usage, in bytes
    """
    allowed, used = read_text(folder / limit).strip(), read_text(folder / usage).strip()
    if not allowed.isdigit() or not used.isdigit():
        return math.inf
    # cached file pages (inactive_file) count as used, but the system frees them when needed.
    # Version 1 has another line, total_inactive_file, which includes the groups inside
    cached = re.findall(r"(?m)^(?:total_)?inactive_file (\d+)", read_text(folder / "memory.stat"))
    return int(allowed) - int(used) + max(map(int, cached), default=0)


def read_text(path):
    """Return the text of the file at a Path, or "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
