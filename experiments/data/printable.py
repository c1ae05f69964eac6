"""Text that a terminal shows and does not obey."""


def printable(text):
    r"""Text on one line: a line break as \n, and whatever else a terminal would obey, as Python
    spells it.

    >>> print(printable("é\n\x1b[2J"))
    é\n\x1b[2J
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
