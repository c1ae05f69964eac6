"""The saved page: what is in the file, and how it is written."""

import re

from command_line import ROOT
from live import DEFAULTS, NASTY, RUNS

from page import report


def test_a_page_names_no_folder_of_this_machine(written, pair):
    folders = {"target_model_size": f"{pair}/17M", "draft_model_size": f"{pair}/0.7M-17M/"}
    path, data = written(**folders, n_tokens_to_generate=3)
    assert str(pair) not in path.read_text()
    assert [data["settings"][name] for name in folders] == ["17M", "0.7M-17M"]


def test_the_command_names_what_differs_from_the_defaults():
    settings = {"prompt": "a 'b'", "K": 2, "coupled": True, "seed": 123}
    defaults = {name: DEFAULTS[name] for name in ("K", "coupled", "seed")}
    assert report.command(settings, defaults) == (
        """python main.py --prompt 'a '"'"'b'"'"'' --K 2 --coupled"""
    )


def test_a_page_asks_for_nothing(written):
    path, _ = written(**RUNS["nasty"])
    page = path.read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2 and "{{" not in page
    foreign = r"(?i)(src|<link[^>]*href)\s*=\s*[\"']?(https?:)?//|@import|\burl\((?!#)"
    assert not re.search(foreign, page)  # links are followed by readers alone
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'") and not re.search("unsafe|http|[*]", policy)
    for name in ("description", "og:title", "og:image"):
        assert re.search(rf'<meta (name|property)="{name}" content="[^"]+">', page)


def test_without_scripts_a_picture_says_what_happens():
    page = (report.WEB / "page.html").read_text(encoding="utf-8")
    fallback = re.search("(?s)<noscript>.*</noscript>", page)[0]
    assert "<svg" in fallback and "one word" in fallback


def test_play_saves_a_page_and_overwrites_none(program, pair, tmp_path):
    path = tmp_path / "x.html"
    words = "play", f"--models_dir={pair}", "--prompt", NASTY, "--n_tokens_to_generate=3"
    done = program(*words, "--save", path)
    assert (done.code, done.out) == (0, f"Written: {path}\n") and [*tmp_path.iterdir()] == [path]
    before = path.read_text()
    for name in (path, tmp_path / "x.txt", tmp_path / "no folder" / "x.html"):
        refused = program(*words, "--save", name)
        assert refused.code == 2 and refused.err.count("\n") == 1 and str(name) in refused.err
    assert [*tmp_path.iterdir()] == [path] and path.read_text() == before


def test_the_saved_page_in_the_docs_has_todays_scripts():
    """After a change to the page, make docs/live.html again, as CONTRIBUTING.md says."""
    saved = (ROOT / "docs" / "live.html").read_text(encoding="utf-8")
    for name in (*report.SCRIPTS, "page.css"):
        assert (report.WEB / name).read_text(encoding="utf-8").strip() in saved, name
