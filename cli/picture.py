"""Pictures, as SVG, for every renderer."""

import re

AT_RULE = r"@[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}"  # @media (...) { a { ... } b { ... } }
SHAPE = r"<(rect|text|tspan|line|polyline|polygon|circle|path)((?: [^>]*?)?)(/?)>"


def painted(svg: str) -> str:
    """An SVG picture in which each shape and text also has, as attributes, the fill and stroke that
    the picture's <style> gives it outside of @media, for renderers that know no CSS variables.
    An attribute that is there already stays; where the style is read, the style overrides it. A
    picture without <style> comes back as it is.

    The selectors of the style may be tags and classes, such as rect, .bar, rect.bar; of several for
    one shape, a class counts more than a tag, both together count most, and of equal ones the last.
    Values may be variables that the style defines as a colour, such as --ink: #1d2025; any other
    variable stays as it is.
    """
    head, end_tag, rest = svg.partition("</style>")
    style = re.sub(AT_RULE, "", head)  # without the dark colours
    variables = dict(re.findall(r"(--[\w-]+): (#\w+)", style))  # {name: colour}
    for name, colour in variables.items():
        style = style.replace(f"var({name})", colour)
    rules = rules_of(style)

    def paint(shape: re.Match) -> str:
        tag, attributes, end = shape.groups()
        for name, value in look_of(tag, attributes, rules).items():
            if f" {name}=" not in attributes:
                attributes += f' {name}="{value}"'
        return f"<{tag}{attributes}{end}>"

    return head + end_tag + re.sub(SHAPE, paint, rest)


def look_of(tag: str, attributes: str, rules: list[tuple[str, dict[str, str]]]) -> dict[str, str]:
    """{"fill", "stroke": value} of a shape, as far as the rules that mean it have them.

    tag, attributes: of the shape, as in <tag attributes>; its classes stand in class="..."
    rules: (selector, {"fill", "stroke": value}) of each; a selector is rect, .bar or rect.bar. If
        several mean the shape, a later one overrides an earlier one
    """
    selectors = {tag}  # those that mean this shape
    for names in re.findall(r'class="([^"]*)"', attributes):
        for name in names.split():
            selectors |= {f".{name}", f"{tag}.{name}"}
    look: dict[str, str] = {}
    for selector, values in rules:
        if selector in selectors:
            look |= values  # a later rule overrides an earlier one
    return look


def rules_of(style: str) -> list[tuple[str, dict[str, str]]]:
    """(selector, {"fill", "stroke": value}) of each rule of a style, the most precise last: tags,
    then classes, then tags with a class.
    """
    rules: list[tuple[str, dict[str, str]]] = []
    for selectors, body in re.findall(r"([^{};>]+)\{([^{}]*)\}", style):  # a, b { ... }
        # not the end of another name, such as in paint-stroke: ...
        values = dict(re.findall(r"(?<!-)(fill|stroke): ([^;]+?)\s*(?:;|$)", body))
        for selector in selectors.split(","):
            rules.append((selector.strip(), values))

    def precision(rule: tuple[str, dict[str, str]]) -> int:
        selector, _ = rule
        if "." not in selector:  # a tag
            return 0
        return 1 if selector.startswith(".") else 2  # a class; a tag with a class

    return sorted(rules, key=precision)
