"""The text of --help, from the docstring of a command and from what its flags mean; and the lists
of docs/usage.md.
"""

import ast
import inspect
import re
import shutil
import textwrap

OWN = "Flags"  # the heading of what a command declares itself: it comes first
MAX_WIDTH = 100  # columns of --help in a wide terminal
HEADINGS = (OWN, "Text", "Models", "Speculation", "Sampling", "Output", "Machine")


def by_heading(flags):
    """Group {name: Flag} as {heading: list of Flags}, in the order that all commands show them: a
    command's own flags first.
    """
    groups = {}
    for flag in flags.values():
        groups.setdefault(flag.heading or OWN, []).append(flag)
    own = [heading for heading in groups if heading not in HEADINGS]
    shared = [heading for heading in HEADINGS if heading in groups]
    return {heading: groups[heading] for heading in own + shared}


def default_of(flag):
    """The default as text; "" where there is none."""
    if isinstance(flag.default, bool):
        return ""
    return " ".join(flag.default) if isinstance(flag.default, tuple) else str(flag.default)


def describe_flag(flag, width):
    """The text of one flag in --help, `width` columns wide."""
    value = "" if isinstance(flag.default, bool) else " ..."
    if default := default_of(flag):  # "" for a bool
        value = f" (default {default})"
    meaning = textwrap.fill(flag.meaning, width - 6, break_on_hyphens=False)
    return f"  --{flag.name}{value}\n{textwrap.indent(meaning, ' ' * 6)}"


def docstring(command):
    """The docstring in the source of a function: python -OO drops it elsewhere."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(command)))
    return ast.get_docstring(tree.body[0])


def usage_line(command, program=None):
    """How to call a command: its program, the words it takes, its flags. program: as for
    cli.parser.call
    """
    kinds = inspect.signature(command).parameters.values()
    words = [f"[{one.name.upper()} ...]" for one in kinds if one.kind == one.VAR_POSITIONAL]
    if program is None:
        program = "main.py" if command.__name__ == "generate" else f"main.py {command.__name__}"
    return " ".join([f"Usage: python {program}", *words, "[--FLAG VALUE ...]"])


def wrap_paragraphs(text, width):
    """The paragraphs of a docstring, as wide as the terminal; indented ones stay as they are."""
    fill = lambda one: one if one.startswith(" ") else textwrap.fill(one, width)
    return "\n\n".join(map(fill, text.strip().split("\n\n")))


def usage(command, flags, program=None):
    """The help text of a command: how to call it, its docstring, its flags, then the sections of
    the docstring, such as "Examples:".
    """
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    introduction, *sections = re.split(r"(?m)^(?=[A-Z][\w ,-]*:\n)", docstring(command))
    blocks = [usage_line(command, program), wrap_paragraphs(introduction, width)]
    for heading, below in by_heading(flags).items():
        blocks.append("\n".join([f"{heading}:", *(describe_flag(flag, width) for flag in below)]))
    return "\n\n".join([*blocks, *(section.rstrip() for section in sections)])


def markdown(flags):
    """The same flags as lists of Markdown: what --help=markdown prints."""
    blocks = []
    for heading, below in by_heading(flags).items():
        lines = [f"**{heading}**", ""]
        for flag in below:
            meaning = re.sub(r"--\w+( auto)?", r"`\g<0>`", flag.meaning)
            # a path of this machine is shown as it is in the project
            default = re.sub(r"^.*[/\\]models$", "models", default_of(flag))
            value = f" ({default})" if default else ""
            lines.append(f"- `--{flag.name}`{value}: {meaning}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
