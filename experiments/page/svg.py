"""What the drawn pictures share: the colours of the page, light and dark, and the document around
them. They work as a plain image: no script, no font of their own, nothing fetched.
"""

import re
import sys
from html import escape
from pathlib import Path

from experiments.data.files import replacing
from experiments.page.page import WEB
from utils import InputError


def palette():
    """The style sheet's variables: colours for a light page and for a dark one, and fonts."""
    style = (WEB / "page.css").read_text(encoding="utf-8")
    light, dark = (" ".join(found.split()) for found in re.findall(r":root \{(.*?)\}", style, re.S))
    return f":root {{{light}}}\n@media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}"


def element(name, content=None, **attributes):
    """An SVG element; class_ stands for class, and stroke_width for stroke-width."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{number(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def number(value):
    """A number to a tenth; anything else as text."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))


def text(words, x, y, class_, **attributes):
    return element("text", escape(str(words), quote=False), x=x, y=y, class_=class_, **attributes)


def step_line(x, y, floor, class_):
    """The outline of columns: y[i] from x[i] to x[i + 1], down to the floor at both ends."""
    steps = "".join(f"V{number(float(top))}H{number(float(right))}" for top, right in zip(y, x[1:]))
    return element("path", d=f"M{number(float(x[0]))} {floor}{steps}V{floor}", class_=class_)


def write(path, width, height, title, style, parts):
    """Write a picture of this size; `title` says it in words."""
    head = element("title", escape(title, quote=False)) + element("style", palette() + style)
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    card = element("rect", x=1, y=1, width=width - 2, height=height - 2, rx=12, class_="card")
    body = "\n".join([head, card, *parts])
    picture = element("svg", body, xmlns="http://www.w3.org/2000/svg", role="img", **size)
    try:
        with replacing(Path(path)) as temporary:
            temporary.write_text(picture + "\n", encoding="utf-8")
    except OSError as error:
        problem = f"{path}: cannot be written ({error.strerror})"
        raise InputError(f"{problem}; expected a file in a folder that is there") from None


def command(names, job):
    """Call job with the words of the command line, one for each of these names. What it cannot use
    ends the program with one line and exit code 2.
    """
    words = sys.argv[1:]
    try:
        if len(words) != len(names):
            raise InputError(f"{len(words)} names: expected {len(names)}: {', '.join(names)}")
        job(*words)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
