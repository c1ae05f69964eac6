"""python main.py chat: through a pipe, in a terminal, and with lines that make no sense."""

import io
import os
import re
import select
import subprocess
import sys
import time

import pytest
from command_line import COMMAND, ENVIRONMENT, PROMPT

from cli import chat as console
from decoding.run import Run

pytestmark = pytest.mark.filterwarnings("error")
FLAGS = ["--kernels=plain", "--n_tokens_to_generate=12"]


@pytest.fixture
def chat(pair, program, monkeypatch):
    """A function (lines, *arguments) -> code, out, err of a session with the tiny pair."""

    def call(lines, *arguments, terminal=False):
        raw = lines if isinstance(lines, bytes) else "\n".join(lines).encode()
        # newline: Python reads Windows line ends as they are, but on Windows
        piped = io.TextIOWrapper(io.BytesIO(raw), encoding="ascii", newline="\n")
        monkeypatch.setattr(sys, "stdin", piped)
        for stream in (piped, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: terminal)
        done = program("chat", f"--models_dir={pair}", *FLAGS, *arguments)
        return done.code, done.out, done.err

    return call


def errors_in(err):
    return re.findall(r"(?m)^error: (.*)$", err)


@pytest.fixture
def text(as_json):
    """A function (*arguments) -> the text that generate prints for them."""

    def call(*arguments, prompt=PROMPT):
        result = as_json("--prompt", prompt, "--n_tokens_to_generate=12", *arguments)
        return f"{prompt}{result['speculative']['text']}\n"

    return call


# ---------------------------------------------------------------- prompts


def test_a_pipe_gets_the_text_and_nothing_else(chat, text):
    """What commands answer is no text."""
    commands = ["/help", "/settings", "/target", "/target off", "/K 4", "/stop", "/stats"]
    code, out, err = chat([*commands, PROMPT])
    assert (code, out) == (0, text())
    answers = ["/quit", "coupled off", "target on", "K 4", "stop ''", "per pass", "12 tokens in"]
    for answer in (*answers, "examined drafted tokens accepted", "tokens per target pass"):
        assert answer in err


def test_every_line_is_a_prompt_but_one_with_a_slash(chat, text):
    prompts = ["one", " two ", "é 日", "--K", "//slash", "1 /K", "'"]
    code, out, err = chat(["", *prompts, "   ", ""])
    assert code == 0 and not errors_in(err)
    assert out == "".join(text(prompt=prompt.replace("//", "/")) for prompt in prompts)


def test_line_ends_of_windows_a_byte_order_mark_and_other_bytes_are_no_text(chat, text):
    lines = b"\xef\xbb\xbf/K 2\r\n\r\nhello there\r\n//a\rb\r\na\xffb\r\n"
    code, out, err = chat(lines)
    assert (code, out) == (0, text("--K=2") + text("--K=2", prompt="/a\rb"))
    (refusal,) = errors_in(err)
    assert "lone surrogate" in refusal


@pytest.mark.parametrize(
    "commands, flags",
    [
        ("/Temperature 1, /seed 5", "--temperature=1 --seed=5"),
        ("/temperature 2, /TOP_P 0.5", "--temperature=2 --top_p=0.5"),
        ("/length 5, /K 1", "--n_tokens_to_generate=5 --K=1"),
        ("/verification block, /temperature 1", "--verification=block --temperature=1"),
        ("/coupled, /temperature 1", "--coupled --temperature=1"),
        ("/stop e", "--stop=e"),
        ("/stop e, /stop", ""),
        ("/target on, /speculative off", ""),
        ("/speculative, /target", ""),
        ("/speculative off, /draft", "--target_model_size=0.7M-17M"),
        ("/speculative off, /ngram", "--draft_model_size=ngram"),
        ("/reload bytes", "--target_model_size=bytes"),
    ],
)
def test_commands_do_what_the_flags_do(chat, text, commands, flags):
    code, out, err = chat([*commands.split(", "), PROMPT, "/quit", "never read"])
    assert code == 0 and not errors_in(err)
    expected = text(*flags.split())
    assert out.endswith(expected) and "never read" not in out
    if "_model_size" not in flags:  # such a session begins with other models
        assert chat([PROMPT], *flags.split())[1] == expected


def test_all_decoders_of_a_prompt_have_their_titles(chat, text):
    on = [f"/{name} on" for name in console.DECODERS]
    out = chat(["/coupled", "/temperature 1", *on, PROMPT])[1]
    texts = dict(re.findall(r"(?s)\[(\w+)\]\n(.*?\n)(?=\[|$)", out))
    assert list(texts) == list(console.DECODERS)
    for name in ("speculative", "target", "ngram"):
        assert texts[name] == text("--coupled", "--temperature", 1)


def test_the_trace_is_of_what_speculates(chat, text):
    out = chat(["/target", PROMPT], "--trace")[1]
    assert out.count("round  accepted") == 1 and out.count(text()) == 2


def test_statistics_are_of_the_session(chat):
    err = chat([PROMPT, PROMPT, "/speculative off", "/target on", PROMPT, "/stats"])[2]
    assert re.search(r"(?m)^speculative +2 +24 +[\d.]+ +[\d.]+ +[\d.]+$", err)
    assert re.search(r"(?m)^target +1 +12 +[\d.]+ +- +1\.00$", err)
    found = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) of (\d+) examined", err)]
    accepted, examined = map(sum, zip(*found))
    assert f"{accepted / examined:.3f}" in err


# ---------------------------------------------------------------- lines that make no sense


@pytest.mark.parametrize(
    "line, fragments",
    [
        ("/K 0", ["K 0"]),
        ("/K x", ["K 'x'"]),
        ("/length 0", ["length 0"]),
        ("/speculative maybe", ["speculative 'maybe'"]),
        ("/foo", ["'/foo'", "/help"]),
        ("/", ["'/'", "/help"]),
        ("/reload 9B", ["'9B'", "17M"]),
        ("/reload 17M 'other words'", ["different vocabularies"]),
        ("/reload huge", ["NaN or infinite"]),
        ("/reload '", ["reload", "quotation mark"]),
        ("/reload 17M \\", ["reload '17M", "backslash"]),
        ("/reload 17M ngram 7M", ["reload '17M ngram 7M'", "target", "draft"]),
        ("/help x", ["help 'x'", "nothing"]),
        ("/quit now", ["quit 'now'", "nothing"]),
        ("/speculative off", ["no decoder is on"]),
        ("x" * 64, ["64 tokens", "63"]),
    ],
)
def test_what_makes_no_sense_is_one_line_and_changes_nothing(chat, text, line, fragments):
    code, out, err = chat([line, PROMPT, "/speculative on", PROMPT])
    (refusal,) = errors_in(err)
    assert code == 0 and all(fragment in refusal for fragment in fragments) and "--" not in refusal
    assert out.endswith(text()) and "speculative on\n" in err


@pytest.mark.parametrize(
    "lines, refused",
    [
        (["/verification block", "/coupled"], "coupled with verification block"),
        (
            ["/draft_confidence 0.1", "/reload 17M ngram"],
            "draft_confidence with draft_model_size ngram",
        ),
        (["/reload 17M eagle"], "draft_model_size eagle: there is no "),
    ],
)
def test_a_refusal_names_no_flags(chat, lines, refused):
    (refusal,) = errors_in(chat([*lines, PROMPT])[2])
    assert refusal.startswith(refused) and "--" not in refusal


def test_without_a_draft_model_there_is_nothing_to_draft(chat, text):
    lines = ["/speculative", "/draft on", PROMPT]
    lines += ["/reload 17M 0.7M-17M", "/speculative", "/ngram", PROMPT]
    _, out, err = chat(lines, "--draft_model_size=ngram")
    assert len(re.findall("(?m)^error: .*no draft model.*/reload", err)) == 2
    assert out == text("--draft_model_size", "ngram") + text()
    assert err.index("speculative on\n") < err.index("ngram off\n")


@pytest.mark.parametrize(
    "arguments", ["--K=0", "--mistake=reseed", "word", "--target_model_size=9B"]
)
def test_flags_that_make_no_sense_end_it(chat, arguments):
    code, out, err = chat([PROMPT], *arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("error: ")


def test_help_knows_every_command(chat):
    shown = chat(["/help"])[2]
    for name in console.COMMANDS:
        assert re.search(rf"(?m)^  /{name}\b", shown)
    listed = chat(["/settings"])[2].splitlines()[1:]  # the first names the models
    assert [line.split()[0] for line in listed] == [*console.SETTINGS]


# ---------------------------------------------------------------- in a terminal


def test_interrupting_a_text_does_not_end_the_session(chat, text, monkeypatch):
    rounds, begun, lines = Run.rounds, [], iter([PROMPT, PROMPT, "/stats", "/quit"])

    def interrupted(*arguments):
        run, of_run = arguments[0], rounds(*arguments)
        yield next(of_run)
        if run.n_tokens > 2:  # no warm-up
            begun.append(run)
            if len(begun) == 1:
                raise KeyboardInterrupt
        yield from of_run

    whole = text().removeprefix(PROMPT)
    monkeypatch.setattr(Run, "rounds", interrupted)
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    code, out, _ = chat([], terminal=True)
    assert code == 0 and len(begun) == 2
    first, *_, last = out.removeprefix("Type a prompt, or /help.\n").split(PROMPT)[1:]
    assert last.startswith(whole) and whole.startswith(first.rstrip("\n"))
    assert re.search(r"(?m)^speculative +1 +12 ", out)  # what was interrupted does not count


def test_interrupting_a_pipe_ends_the_session(chat, monkeypatch):
    def interrupted(self, text):
        raise KeyboardInterrupt

    monkeypatch.setattr(console.Console, "continue_text", interrupted)
    assert chat([PROMPT, "/settings"])[:2] == (130, "")


def test_control_c_and_control_d_at_a_real_terminal(pair):
    """Ctrl-C drops a half-typed line; Ctrl-D ends the session."""
    pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
    import fcntl
    import termios

    leader, follower = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, "chat", f"--models_dir={pair}", *FLAGS],
        **dict.fromkeys(("stdin", "stdout", "stderr"), follower),
        env=ENVIRONMENT | {"TERM": "dumb"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches it
    )
    os.close(follower)
    seen = b""

    def until(what, again=b""):
        """Read until this has been printed; press a key again that readline may have missed."""
        nonlocal seen
        limit = time.monotonic() + 60
        while what not in seen:
            assert time.monotonic() < limit, (what, seen)
            if select.select([leader], [], [], 1)[0]:
                seen += os.read(leader, 4096)
            else:
                os.write(leader, again)
        seen = seen.partition(what)[2]

    def enter(line, answer):
        until(b"> ")
        os.write(leader, line)
        until(answer)

    enter(b"half a line", b"half a line")
    os.write(leader, b"\x03")
    until(b"> ", again=b"\x03")
    os.write(leader, b"\n")
    enter(b"/K 2\n", b"K 2")
    enter(PROMPT.encode() + b"\n", b"12 tokens in")
    until(b"> ")
    os.write(leader, b"\x04")
    assert running.wait(60) == 0
    os.close(leader)


def test_a_typo_is_told_what_was_meant_and_exit_ends(chat):
    code, out, err = chat(["/temp 1", "exit", PROMPT])
    assert (code, out) == (0, "") and errors_in(err) == [
        "unknown command '/temp': expected /temperature"
    ]
