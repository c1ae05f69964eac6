"""The text of --help, from the docstring of a command and from what its flags mean; and the lists
of docs/usage.md.
"""

import re
import textwrap

from experiments.proving.patching import docstring

WIDTH = 88
OWN = "Flags"  # the heading of what a command declares itself: it comes first
HEADINGS = (OWN, "Text", "Models", "Speculation", "Sampling", "Output", "Machine")


def by_heading(flags):
    """[(heading, its flags)]: first those of the command alone, then in one order for all."""
    found = {}
    for flag in flags.values():
        found.setdefault(flag.heading, []).append(flag)
    own = [heading for heading in found if heading not in HEADINGS]
    return [(heading, found[heading]) for heading in (*own, *HEADINGS) if heading in found]


def default_of(flag):
    """The default as text; "" where there is none."""
    if isinstance(flag.default, bool):
        return ""
    return " ".join(flag.default) if isinstance(flag.default, tuple) else str(flag.default)


def described(flag):
    """The lines of a flag in --help."""
    default, indent = default_of(flag), " " * 6
    value = f" (default {default})" if default else " ..."
    if isinstance(flag.default, bool):
        value = ""
    wrapped = textwrap.wrap(flag.meaning, WIDTH - len(indent), break_on_hyphens=False)
    return "\n".join([f"  --{flag.name}{value}", *(indent + line for line in wrapped)])


def usage(command, flags):
    """The help text of a command: its docstring, with its flags before "Examples:" and the like."""
    introduction, *rest = re.split(r"(?m)^(?=[A-Z]\w*(?: \w+)*:\n)", docstring(command))
    blocks = [introduction.strip()]
    for heading, some in by_heading(flags):
        blocks.append("\n".join([f"{heading}:", *map(described, some)]))
    return "\n\n".join([*blocks, *(section.rstrip() for section in rest)])


def markdown(flags):
    """The same flags as lists of Markdown: what --help=markdown prints."""
    blocks = []
    for heading, some in by_heading(flags):
        lines = [f"**{heading}**", ""]
        for flag in some:
            meaning = re.sub(r"--\w+( auto)?", r"`\g<0>`", flag.meaning)
            # a path of this machine is shown as it is in the project
            default = re.sub(r"^.*[/\\]models$", "models", default_of(flag))
            value = f" ({default})" if default else ""
            lines.append(f"- `--{flag.name}`{value}: {meaning}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
