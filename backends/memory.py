"""How much memory models and their caches take, and refusing what cannot fit: a machine that swaps
would be busy for hours first.
"""

import math
import re
from pathlib import Path

import numpy as np

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def weights_bytes(config, dtype=np.float32):
    """The bytes of a model's weights."""
    return np.dtype(dtype).itemsize * sum(math.prod(shape) for shape in config.shapes().values())


def cache_bytes(config, dtype=np.float32):
    """The bytes of what is kept of one text as long as the context."""
    keys_and_values = 2 * config.n_layer * config.n_ctx * config.n_embd
    # EAGLE's hidden states are as wide as its target's, and there is one before the first position
    hidden = (config.n_ctx + 1) * getattr(config, "n_hidden", config.n_embd)
    return np.dtype(dtype).itemsize * (keys_and_values + hidden)


def require(needed, what):
    """Raises MemoryError, with both figures, if there are fewer bytes than `what` needs."""
    free = available()
    if needed > free:
        raise MemoryError(
            f"{what} need {gigabytes(needed)} GB of memory, {gigabytes(max(0, free))} GB are "
            "available"
        )


def gigabytes(n_bytes):
    """Also of an absurd number, which no float holds."""
    return f"{n_bytes // 10**8 / 10:.1f}" if n_bytes < 10**15 else str(n_bytes // 10**9)


def available():
    """The bytes this process can still take, as Linux counts them; infinity where nothing says so
    (on other systems).
    """
    free = re.search(r"^MemAvailable:\s+(\d+) kB", read(PROC / "meminfo"), re.MULTILINE)
    return min([int(free[1]) * 1024 if free else math.inf, *cgroup_headroom()])


def cgroup_headroom():
    """[bytes] that each control group this process is in (a container's limit, say) still allows;
    [] where none is set.
    """
    found = []
    for controllers, path in re.findall(
        r"^\d+:(.*?):/(.*)$", read(PROC / "self/cgroup"), re.MULTILINE
    ):
        if not controllers:  # version 2 has one hierarchy for all
            root, limit, usage = CGROUPS, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root = CGROUPS / "memory"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # a limit binds what lies below it
        for folder in {root, *(root / path).parents, root / path}:
            if folder.is_relative_to(root):
                found += headroom(folder, limit, usage)
    return found


def headroom(folder, limit, usage):
    """[bytes] that one control group still allows; [] where it sets no limit.

    Cached file pages count as used there, but give way: those are inactive_file.
    """
    allowed, used = (read(folder / name).strip() for name in (limit, usage))
    if not allowed.isdigit() or not used.isdigit():
        return []
    cache = re.search(
        r"^(?:total_)?inactive_file (\d+)", read(folder / "memory.stat"), re.MULTILINE
    )
    return [int(allowed) - int(used) + (int(cache[1]) if cache else 0)]


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""
