"""How much memory there is for a model, and refusing one that cannot fit before hours of swapping
do.
"""

import re
from pathlib import Path

import numpy as np

from checkpoints.formats.tensor import InputError

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def cgroup_headroom():
    """[bytes] that each control group this process is in (a container's limit, say) still allows;
    [] where none is set.

    Cached file pages count as used there, but give way: those are inactive_file.
    """
    found = []
    for controllers, path in re.findall(
        r"^\d+:(.*?):/(.*)$", read(PROC / "self/cgroup"), re.MULTILINE
    ):
        second = not controllers  # version 2 has one hierarchy for all
        if not second and "memory" not in controllers.split(","):
            continue
        root = CGROUPS if second else CGROUPS / "memory"
        limit, usage = (
            ("memory.max", "memory.current")
            if second
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        for folder in {root, *(root / path).parents, root / path}:
            # a limit binds what lies below it
            numbers = [read(folder / name).strip() for name in (limit, usage)]
            if folder.is_relative_to(root) and all(number.isdigit() for number in numbers):
                cache = re.search(
                    r"^(?:total_)?inactive_file (\d+)", read(folder / "memory.stat"), re.MULTILINE
                )
                found.append(int(numbers[0]) - int(numbers[1]) + (int(cache[1]) if cache else 0))
    return found


def available():
    """Bytes this process can still take, as Linux counts them; infinity where nothing says so (on
    other systems).
    """
    free = re.search(r"^MemAvailable:\s+(\d+) kB", read(PROC / "meminfo"), re.MULTILINE)
    return min([int(free[1]) * 1024 if free else float("inf"), *cgroup_headroom()])


def require(configs, dtype):
    """Raises InputError, with both figures, if models of these shapes do not fit into memory
    together.
    """
    n = sum(int(np.prod(shape)) for config in configs for shape in config.shapes().values())
    # keys and values
    n += sum(2 * config.n_layer * config.n_ctx * config.n_embd for config in configs)
    needed, free = n * np.dtype(dtype).itemsize, available()
    if needed > free:
        raise InputError(
            f"the weights need {needed / 1e9:.1f} GB of memory, {max(0, free) / 1e9:.1f} GB are available; "
            "use a smaller model, or close other programs"
        )
