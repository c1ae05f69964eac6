"""A headless Chromium for the tests of the page, and what they ask of every page in it."""

import shutil
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
# no page waits as long as for a person
HASTE = "const later = setTimeout; window.setTimeout = (call, ms) => later(call, ms / 20);"


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium: one that is installed, or Playwright's own."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        pytest.skip("no browser: Playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=found)
        except Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield running
        running.close()


@pytest.fixture
def new_page(browser):
    """A function (address, **options) -> a page without errors that asks only its own address."""
    pages, wrong = [], []

    def call(address, **options):
        page = browser.new_page(**options)
        pages.append(page)
        page.add_init_script(HASTE)
        own = address.split("?")[0].split("#")[0]

        def watch(request):
            if not request.url.startswith((own, "data:", "blob:")):
                wrong.append(request.url)

        page.on("request", watch)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto(address)
        return page

    yield call
    for page in pages:
        page.close()
    assert wrong == [], wrong


def wait_for(page, expression, seconds=60):
    """Wait for JavaScript to be true: Playwright's own way is code in a string, forbidden there."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression} did not come true"
        page.wait_for_timeout(30)


# pairs of text and background below WCAG 2.1's 4.5 to 1 (1.4.3)
CONTRAST = """() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(
    number => Number(number) * (colour.startsWith("color(srgb") ? 255 : 1)); // mixed ones
  const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = parse(colour).map(linear);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !element.getClientRects().length) continue;
    if (element.closest("script, noscript") || element.disabled) continue;
    if (getComputedStyle(element).visibility === "hidden") continue;
    const ground = e => getComputedStyle(e).backgroundColor;
    let behind = element;
    while (behind && (parse(ground(behind))[3] ?? 1) === 0) behind = behind.parentElement;
    const [a, b] = [getComputedStyle(element).color, ground(behind || document.body)].map(light);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push([element.className, element.textContent.slice(0, 20), ratio]);
  }
  return poor;
}"""


def assert_readable(page, scheme):
    """Contrast, colours, colour scheme, headings, names, language, no sideways scrolling."""
    assert page.evaluate(CONTRAST) == []
    channels = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)"
    assert page.evaluate(f"{channels}.every(x => x < 100)") == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.lang") == "en" and page.title()
    assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
    colourless = """[...document.querySelectorAll(
        ".swatch:not(.here), .bar, .strip i")].filter(e => {
            const {backgroundColor, backgroundImage} = getComputedStyle(e);
            return backgroundColor === "rgba(0, 0, 0, 0)" && backgroundImage === "none";
        }).map(e => e.className)"""
    assert page.evaluate(colourless) == []
    unnamed = """[...document.querySelectorAll("button, input, textarea")].filter(e =>
        !e.ariaLabel && !e.closest("label") && !e.textContent.trim()).map(e => e.outerHTML)"""
    assert page.evaluate(unnamed) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)
    for name in ("aria-labelledby", "aria-describedby", "aria-controls"):
        collect = f"[...document.querySelectorAll('[{name}]')].map(e => e.getAttribute('{name}'))"
        assert set(page.evaluate(collect)) <= set(ids)
