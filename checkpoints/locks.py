"""Locks between processes: one process writes, the others wait or refuse."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

# Windows locks bytes, which others then cannot read or write: lock one beyond the end of the file
LOCKED_BYTE = 0x7FFFFFF0


def lock(file, wait=False):
    """Lock an open file, or on POSIX the descriptor of a folder, until it is closed; a process that
    ends or is killed closes it. If another process has the lock: waits if `wait`, else raises
    OSError. Windows never waits, and moves the position in the file.
    """
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
