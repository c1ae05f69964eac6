"""The text of --help, from the docstring of a command and from what its flags mean; and the lists
of docs/usage.md.
"""

import ast
import inspect
import re
import textwrap

WIDTH = 88
OWN = "Flags"  # the heading of what a command declares itself: it comes first
HEADINGS = (OWN, "Text", "Models", "Speculation", "Sampling", "Output", "Machine")


def by_heading(flags):
    """{heading: its flags}: first those of the command alone, then in one order for all."""
    headings = [flag.heading for flag in flags.values()]
    own = [heading for heading in headings if heading not in HEADINGS]
    ordered = dict.fromkeys([*own, *(heading for heading in HEADINGS if heading in headings)])
    return {name: [flag for flag in flags.values() if flag.heading == name] for name in ordered}


def default_of(flag):
    """The default as text; "" where there is none."""
    if isinstance(flag.default, bool):
        return ""
    return " ".join(flag.default) if isinstance(flag.default, tuple) else str(flag.default)


def described(flag):
    """The lines of a flag in --help."""
    value = "" if isinstance(flag.default, bool) else " ..."
    if default := default_of(flag):  # "" for a bool
        value = f" (default {default})"
    meaning = textwrap.fill(flag.meaning, WIDTH - 6, break_on_hyphens=False)
    return f"  --{flag.name}{value}\n{textwrap.indent(meaning, ' ' * 6)}"


def docstring(command):
    """The docstring in the source of a function: python -OO drops it elsewhere."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(command)))
    return ast.get_docstring(tree.body[0])


def usage(command, flags):
    """The help text of a command: its docstring, with its flags before "Examples:" and the like."""
    introduction, *rest = re.split(r"(?m)^(?=[A-Z]\w*(?: \w+)*:\n)", docstring(command))
    blocks = [introduction.strip()]
    for heading, below in by_heading(flags).items():
        blocks.append("\n".join([f"{heading}:", *map(described, below)]))
    return "\n\n".join([*blocks, *(section.rstrip() for section in rest)])


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
