"""Pictures, as SVG, for every renderer."""

import re


def painted(svg: str) -> str:
    """A picture whose elements have the light colours of its style as attributes, too, for
    renderers that know no CSS variables. Where a style is understood, it goes first.
    """
    style = re.sub(r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", svg.partition("</style>")[0])
    light = dict(re.findall(r"(--[\w-]+): (#\w+)", style))
    found = re.findall(r"([^{};>]+)\{([^{}]*)\}", style)
    rules = [(one.strip(), body) for names, body in found for one in names.split(",")]
    rules.sort(key=lambda rule: (rule[0].count("."), rule[0][0] != "."))  # a class goes last

    def with_colours(match: re.Match) -> str:
        tag, attributes, end = match.groups()
        classes = re.search(r'class="([^"]*)"', attributes)
        names = {tag} | {sign + one for one in (classes[1].split() if classes else ())
                         for sign in (".", f"{tag}.")}  # fmt: skip
        colours: dict[str, str] = {}
        for selector, body in rules:
            if selector in names:
                colours |= dict(re.findall(r"(?<!-)(fill|stroke): ([^;]+?)\s*(?:;|$)", body))
        for name, value in colours.items():
            colour = re.sub(r"var\((.*?)\)", lambda variable: light[variable[1]], value)
            if f" {name}=" not in attributes:
                attributes += f' {name}="{colour}"'
        return f"<{tag}{attributes}{end}>"

    head, middle, rest = svg.partition("</style>")
    shapes = r"<(rect|text|tspan|line|polyline|polygon|circle|path)((?: [^>]*?)?)(/?)>"
    return head + middle + re.sub(shapes, with_colours, rest)
