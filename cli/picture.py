"""Pictures, as SVG, for every renderer."""

import re

AT_RULE = r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}"  # @media (...) { a { ... } b { ... } }
SHAPE = r"<(rect|text|tspan|line|polyline|polygon|circle|path)((?: [^>]*?)?)(/?)>"


def painted(svg: str) -> str:
    """An SVG picture whose shapes and texts have the fill and the stroke of its <style> as
    attributes, too, in its light colours, for renderers that know no CSS variables. Others take the
    style, which goes before attributes.

    Selectors may be tags and classes, such as rect, .bar, rect.bar; values may be variables whose
    definition is a colour, such as --ink: #1d2025. Raises KeyError for another variable.
    """
    head, middle, rest = svg.partition("</style>")
    style = re.sub(AT_RULE, "", head)  # without the dark colours
    light = dict(re.findall(r"(--[\w-]+): (#\w+)", style))  # {variable: colour}
    rules = rules_of(style)

    def with_colours(match: re.Match) -> str:
        tag, attributes, end = match.groups()
        classes = "".join(re.findall(r'class="([^"]*)"', attributes)).split()
        names = {tag}  # the selectors that mean this shape
        for name in classes:
            names |= {f".{name}", f"{tag}.{name}"}
        colours: dict[str, str] = {}
        for selector, values in rules:
            if selector in names:
                colours |= values
        for name, value in colours.items():
            colour = re.sub(r"var\((.*?)\)", lambda variable: light[variable[1]], value)
            if f" {name}=" not in attributes:
                attributes += f' {name}="{colour}"'
        return f"<{tag}{attributes}{end}>"

    return head + middle + re.sub(SHAPE, with_colours, rest)


def rules_of(style: str) -> list[tuple[str, dict[str, str]]]:
    """(selector, {"fill", "stroke": value}) of each rule of a style, the most precise last: tags,
    then classes, then tags with a class.
    """
    rules = []
    for selectors, body in re.findall(r"([^{};>]+)\{([^{}]*)\}", style):  # a, b { ... }
        # not the end of another name, such as in paint-stroke: ...
        values = dict(re.findall(r"(?<!-)(fill|stroke): ([^;]+?)\s*(?:;|$)", body))
        rules += [(selector.strip(), values) for selector in selectors.split(",")]
    # tag: (0, True), .class: (1, False), tag.class: (1, True)
    return sorted(rules, key=lambda rule: (rule[0].count("."), rule[0][0] != "."))
