"""What the drawn pictures share: the colours of the page, light and dark, and the document around
them. They work as a plain image: no script, no font of their own, nothing fetched.
"""

import re
from html import escape
from pathlib import Path

from experiments.page.report import WEB

WIDTH, LEFT, RIGHT = 600, 20, 580

STYLE = """
.card { fill: var(--card); stroke: var(--line); }
text { fill: var(--ink); font: 19px var(--sans); }
.soft { fill: var(--soft); font-size: 18px; }
.title { font: 600 23px var(--serif); }
"""


def palette():
    """The style sheet's variables: colours for a light page and for a dark one, and fonts."""
    style = (WEB / "page.css").read_text(encoding="utf-8")
    light, dark = (" ".join(found.split()) for found in re.findall(r":root \{(.*?)\}", style, re.S))
    return f":root {{{light}}}\n@media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}"


def element(name, content=None, **attributes):
    """An SVG element; class_ stands for class. Numbers are written to a tenth."""
    written = "".join(f' {key.rstrip("_")}="{number(value)}"' for key, value in attributes.items())
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def number(value):
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape(str(value))


def text(words, x, y, class_, **attributes):
    return element("text", escape(str(words), quote=False), x=x, y=y, class_=class_, **attributes)


def rect(x, y, width, height, class_, **attributes):
    box = {"x": x, "y": y, "width": width, "height": height}
    return element("rect", **box, class_=class_, **attributes)


def write(path, height, title, style, parts):
    """Write a picture so high; `title` says it in words."""
    style = escape(palette() + STYLE + style, quote=False)
    head = [element("title", escape(title, quote=False)), element("style", style)]
    body = "\n".join([*head, rect(1, 1, WIDTH - 2, height - 2, "card", rx=12), *parts])
    size = {"viewBox": f"0 0 {WIDTH} {height}", "width": WIDTH, "height": height}
    picture = element("svg", body, xmlns="http://www.w3.org/2000/svg", role="img", **size)
    Path(path).write_text(picture + "\n", encoding="utf-8")
