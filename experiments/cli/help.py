"""The text of --help, from the docstrings of a command and of the dataclasses it takes.

A docstring is an introduction and sections: a line such as "Sampling:" begins one, and in it an
indented "name: meaning" describes a flag. Sections of the same name are put together.
"""

import ast
import dataclasses
import inspect
import re
import textwrap

WIDTH = 88


def docstring(documented):
    """The docstring in the source of a module, function or class: python -OO drops it elsewhere."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(documented)))
    return ast.get_docstring(tree if inspect.ismodule(documented) else tree.body[0])


def sections(documented):
    """{heading: lines} of a docstring; the introduction under ""."""
    found, heading = {"": []}, ""
    for line in docstring(documented).splitlines():
        if re.fullmatch(r"[A-Z][\w ]*:", line):
            heading = line
            found[heading] = []
        else:
            found[heading].append(line)
    return found


def heading_of(group, name):
    """Under which heading a field of a dataclass stands: that of the class it comes from."""
    first = next(kind for kind in reversed(group.__mro__) if name in inspect.get_annotations(kind))
    return f"{first.heading}:"


def merged(command):
    """The sections of a command, and the flags of the groups it takes."""
    found = sections(command)
    for parameter in inspect.signature(command).parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            for field in dataclasses.fields(parameter.annotation):
                lines = found.setdefault(heading_of(parameter.annotation, field.name), [])
                lines.append(f"    {field.name}: {field.metadata['meaning']}")
    return found


def usage(command, flags):
    """The help text of a command. flags: {name: Flag}."""
    found = merged(command)
    blocks = ["\n".join(found.pop("")).strip()]
    for heading, lines in found.items():
        blocks.append("\n".join([heading, *described(lines, flags)]))
    return "\n\n".join(blocks)


def described(lines, flags):
    """The lines of a section; those that describe a flag anew, with its default."""
    shown, meaning = [], []
    for line in [*lines, ""]:
        match = re.match(r"    (\w+): (.*)", line)
        continues = meaning and line.startswith(" " * 8)
        if continues:
            meaning.append(line.strip())
            continue
        if meaning:
            indent = " " * 6
            text = " ".join(meaning)
            shown += textwrap.wrap(
                text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
            )
            meaning = []
        if match and match[1] in flags:
            shown.append(f"  {synopsis(flags[match[1]])}")
            meaning = [match[2]]
        elif line.strip():
            shown.append(line)
    return shown


def synopsis(flag):
    """A flag and what stands for its value: the default, if there is one."""
    if isinstance(flag.default, bool):
        return f"--{flag.name}"
    default = " ".join(flag.default) if isinstance(flag.default, tuple) else str(flag.default)
    return f"--{flag.name} (default {default})" if default else f"--{flag.name} ..."
