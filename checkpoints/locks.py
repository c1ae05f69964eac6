"""Locks between processes: one process writes, the others wait or refuse."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
    import msvcrt

LOCKED_BYTE = 0x7FFFFFF0  # for Windows, which locks bytes: one beyond the end of the file


def lock(file, wait=False):
    """Lock an open file, or on POSIX the descriptor of a folder, until it is closed; a process that
    ends or is killed closes it. If another process has the lock, wait (on POSIX) or raise OSError.
    """
    if fcntl:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        file.seek(LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
