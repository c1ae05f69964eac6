"""The text of --help, from the docstring of a command and from what its flags mean; and the tables
of docs/usage.md.
"""

import re
import textwrap

from experiments.proving.patching import docstring

WIDTH = 88
OWN = "Flags"  # the heading of what a command declares itself: it comes first
HEADINGS = (OWN, "Text", "Models", "Speculation", "Sampling", "Output", "Machine")


# ---------------------------------------------------------------- docstrings


def sections(documented):
    """{heading: text} of a docstring: a line such as "Examples:" begins a section. The introduction
    is under "".
    """
    introduction, *others = re.split(r"(?m)^([A-Z][\w ]*):\n", docstring(documented))
    return {"": introduction} | dict(zip(others[::2], others[1::2]))


def meanings(command):
    """{parameter: meaning} of the lines "name: meaning" under "Args:"."""
    described = re.findall(r"(?m)^    (\w+): (.*(?:\n {8}.*)*)", sections(command).get("Args", ""))
    return {name: " ".join(meaning.split()) for name, meaning in described}


# ---------------------------------------------------------------- flags


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
    value = "" if isinstance(flag.default, bool) else " ..."
    default = default_of(flag)
    indent = " " * 6
    meaning = textwrap.wrap(
        flag.meaning,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return [f"  --{flag.name}{f' (default {default})' if default else value}", *meaning]


def usage(command, flags):
    """The help text of a command: what it does, its flags, and what else its docstring says.

    flags: {name: Flag}
    """
    texts = sections(command)
    texts.pop("Args", None)
    blocks = [texts.pop("").strip()]
    for heading, some in by_heading(flags):
        blocks.append(
            "\n".join([f"{heading}:", *(line for one in some for line in described(one))])
        )
    blocks += [f"{heading}:\n{text.rstrip()}" for heading, text in texts.items()]
    return "\n\n".join(blocks)


def tables(flags):
    """The same flags as tables of Markdown: what --help=markdown prints."""
    blocks = []
    for heading, some in by_heading(flags):
        lines = [f"**{heading}**", "", "| flag | default | meaning |", "| --- | --- | --- |"]
        for flag in some:
            meaning = re.sub(r"--\w+( auto)?", r"`\g<0>`", flag.meaning).replace("|", r"\|")
            # a path of this machine is shown as it is in the project
            default = re.sub(r"^.*[/\\]models$", "models", default_of(flag))
            lines.append(f"| `--{flag.name}` | {default} | {meaning} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
