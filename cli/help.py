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
    """Group flags, {name: Flag}, by heading: {heading: list of Flags}. The headings are in the
    order of --help: OWN for a command's own flags first, then those of HEADINGS.
    """
    groups = {}
    for flag in flags.values():
        groups.setdefault(flag.heading or OWN, []).append(flag)
    # a heading that is not in HEADINGS is a command's own, too
    order = lambda heading: HEADINGS.index(heading) if heading in HEADINGS else -1
    return {heading: groups[heading] for heading in sorted(groups, key=order)}


def default_text(flag):
    """The default of a Flag as text; "" for a bool and for a flag without a default."""
    if isinstance(flag.default, bool):
        return ""
    return " ".join(flag.default) if isinstance(flag.default, tuple) else str(flag.default)


def format_flag(flag, width):
    """Format one Flag for --help, `width` columns wide: its name, default and meaning (a str)."""
    default = default_text(flag)
    suffix = f" (default {default})" if default else " ..."  # ...: a value, without a default
    if isinstance(flag.default, bool):  # it takes no value
        suffix = ""
    meaning = textwrap.fill(flag.meaning, width - 6, break_on_hyphens=False)
    return f"  --{flag.name}{suffix}\n{textwrap.indent(meaning, ' ' * 6)}"


def source_docstring(command):
    """The docstring (str) of a function, from its source file, because python -OO drops __doc__."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(command)))
    return ast.get_docstring(tree.body[0])


def usage_line(command, program=None):
    """The usage of a command function: "python main.py download [SIZES ...] [--FLAG VALUE ...]".
    program: what stands after "python"; None is main.py and the function's name
    """
    if program is None:
        program = "main.py" if command.__name__ == "generate" else f"main.py {command.__name__}"
    words = [f"python {program}"]
    for parameter in inspect.signature(command).parameters.values():
        if parameter.kind == parameter.VAR_POSITIONAL:
            words.append(f"[{parameter.name.upper()} ...]")
        elif parameter.annotation is str:
            words.append(parameter.name.upper())
    return " ".join([*words, "[--FLAG VALUE ...]"])


def wrap_paragraphs(text, width):
    """Wrap the paragraphs of a text (str) at `width` columns. Indented paragraphs, such as
    examples, stay as they are. Returns the wrapped text.
    """
    paragraphs = text.strip().split("\n\n")
    wrap = lambda paragraph: textwrap.fill(paragraph, width)
    return "\n\n".join(p if p.startswith(" ") else wrap(p) for p in paragraphs)


def format_help(command, flags, program=None):
    """Format the text of --help, a str as wide as the terminal: the usage of a command function,
    its docstring, its flags, then the sections of the docstring, such as "Examples:".

    flags: {name: Flag}
    program: what stands after "python" in the usage; None is main.py and the function's name
    """
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    # a section begins with a line of its own, such as "Examples:"
    introduction, *sections = re.split(r"(?m)^(?=[A-Z][\w ,-]*:\n)", source_docstring(command))
    blocks = [f"Usage: {usage_line(command, program)}", wrap_paragraphs(introduction, width)]
    for heading, group in by_heading(flags).items():
        blocks.append("\n".join([f"{heading}:", *(format_flag(flag, width) for flag in group)]))
    return "\n\n".join([*blocks, *(section.rstrip() for section in sections)])


def format_markdown(flags):
    """Format the flags, {name: Flag}, of a command as Markdown lists, one for each heading, for
    --help=markdown. Returns a str.
    """
    blocks = []
    for heading, group in by_heading(flags).items():
        lines = [f"**{heading}**", ""]
        for flag in group:
            # "--K auto" is set as code, like "--K"
            meaning = re.sub(r"--\w+( auto)?", r"`\g<0>`", flag.meaning)
            # a path of this machine is shown as it is in the project
            default = re.sub(r"^.*[/\\]models$", "models", default_text(flag))
            suffix = f" ({default})" if default else ""
            lines.append(f"- `--{flag.name}`{suffix}: {meaning}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
