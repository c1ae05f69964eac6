"""The text of --help, from the docstrings of a command and of the dataclasses it takes.

A docstring is an introduction and sections: a line such as "Sampling:" begins one, and in it an
indented "name: meaning" describes a flag. Sections of the same name are put together.
"""

import ast
import dataclasses
import inspect
import re
import textwrap


def docstring(documented):
    """The docstring in the source of a function or class: python -OO drops it elsewhere."""
    source = textwrap.dedent(inspect.getsource(documented))
    return ast.get_docstring(ast.parse(source).body[0])


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


def merged(command):
    """The sections of a command and of its dataclasses, without their introductions."""
    found = sections(command)
    for parameter in inspect.signature(command).parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            for heading, lines in sections(parameter.annotation).items():
                if heading:
                    found[heading] = found.get(heading, [])
                    found[heading] += lines
    return found


def usage(command, flags):
    """The help text of a command. flags: {name: Flag}."""
    found = merged(command)
    blocks = ["\n".join(found.pop("")).strip()]
    # what has no flags (examples, other commands) comes last
    for heading, lines in sorted(found.items(), key=lambda section: not has_flags(section, flags)):
        lines = [with_default(line, flags) for line in lines if line.strip()]
        blocks.append("\n".join([heading, *lines]))
    return "\n\n".join(blocks)


def name_in(line, flags):
    """The flag that a line of a docstring begins to describe, or None."""
    match = re.match(r"    (\w+):", line)
    return match[1] if match and match[1] in flags else None


def has_flags(section, flags):
    return any(name_in(line, flags) for line in section[1])


def with_default(line, flags):
    name = name_in(line, flags)
    if not name:
        return line
    return described(flags[name]) + line.removeprefix(f"    {name}:")


def described(flag):
    """A flag as --help begins its line."""
    values = flag.default if isinstance(flag.default, tuple) else (flag.default,)
    return f"    --{flag.name} (default {' '.join(map(repr, values))}):"
