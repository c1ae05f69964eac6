"""What every loader raises for input that cannot be used."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: what it was, what was expected, what to do. Control characters, which
    a damaged file may bring along, are escaped, so that none of them reaches a terminal.
    """

    def __init__(self, message):
        super().__init__(printable(str(message)))


def printable(text):
    r"""The text with everything escaped that does not print: "a\nb" becomes "a\\nb"."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
