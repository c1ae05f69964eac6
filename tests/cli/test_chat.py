"""python main.py chat: through a pipe, in a terminal, and with lines that make no sense."""

import io
import re
import sys

import pytest
from command_line import PROMPT, shell

from cli import chat as console

pytestmark = pytest.mark.filterwarnings("error")
LENGTH = "--n_tokens_to_generate=12"


@pytest.fixture
def chat(pair, program, monkeypatch):
    """A function (lines, *arguments) -> code, out, err of a session with the tiny pair."""

    def call(lines, *arguments, terminal=False):
        raw = lines if isinstance(lines, bytes) else "\n".join(lines).encode()
        piped = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", piped)
        monkeypatch.setattr(piped, "isatty", lambda: terminal)
        done = program("chat", f"--models_dir={pair}", LENGTH, *arguments)
        return done.code, done.out, done.err

    return call


def errors_in(err):
    return re.findall(r"(?m)^error: (.*)$", err)


@pytest.fixture
def text(as_json):
    """A function (*arguments) -> the text that generate writes for them."""

    def call(*arguments, prompt=PROMPT):
        result = as_json("--prompt", prompt, LENGTH, *arguments)
        return f"{prompt}{result['speculative']['text']}\n"

    return call


# ---------------------------------------------------------------- lines


def test_a_pipe_gets_the_text_and_nothing_else(chat, text):
    code, out, err = chat(["/", "/K 4", "/help", PROMPT])
    assert (code, out) == (0, text()) and not errors_in(err)
    for answer in ("/K 4\n", "/coupled False\n", "Continue prompts as you type", " tokens/s, "):
        assert answer in err
    listed = re.findall(r"(?m)^/(\w+)", err.partition("/K 4\n/")[0])
    assert listed[:3] == ["n_tokens_to_generate", "stop", "mode"]


def test_lines_of_other_systems_are_the_same_prompts(pair, text):
    words = 'printf "\\357\\273\\277hello there\r\n" | "$0" "$@"'
    assert shell(words, pair, "chat", LENGTH).stdout.decode() == text()


def test_every_line_is_a_prompt_but_one_with_a_slash(chat, text):
    prompts = ["one", " two ", "é 日", "--K", "//slash", "1 /K", "'", "exit", "?"]
    code, out, err = chat(["", *prompts, "   ", ""])
    assert code == 0 and not errors_in(err)
    assert out == "".join(text(prompt=prompt.replace("//", "/")) for prompt in prompts)


@pytest.mark.parametrize("commands, flags", [
    ("/temperature 1, /seed 5", "--temperature=1 --seed=5"),
    ("/n_tokens_to_generate 5, /K 1", "--n_tokens_to_generate=5 --K=1"),
    ("/coupled, /temperature 1", "--coupled --temperature=1"),
    ("/coupled, /temperature 1, /coupled", "--temperature=1"),
    ("/stop e", "--stop=e"),
    ("/draft_model_size ngram", "--draft_model_size=ngram"),
    ("/target_model_size bytes, /K  2 ", "--target_model_size=bytes --K=2"),
])  # fmt: skip
def test_commands_do_what_the_flags_do(chat, text, commands, flags):
    code, out, err = chat([*commands.split(", "), PROMPT])
    assert code == 0 and not errors_in(err)
    assert out == text(*flags.split()) == chat([PROMPT], *flags.split())[1]


def test_both_decoders_and_a_trace(chat, text):
    code, out, err = chat(["/mode both", "/trace", PROMPT])
    assert out.startswith(text() + "round  accepted") and out.endswith(text())
    summary = r"(?m)^(\w+): [\d.]+ s, [\d.]+ tokens/s, ([\d.]+) tokens per target pass"
    (plain, passes), (other, _) = re.findall(summary, err)
    assert (plain, passes, other) == ("autoregressive", "1.00", "speculative")


# ---------------------------------------------------------------- lines that make no sense


@pytest.mark.parametrize("lines, said", [
    (["/K x"], "--K 'x': expected a whole number or auto"),
    (["/trace maybe"], "--trace 'maybe': expected no value"),
    (["/temp 1"], "unknown setting '/temp': expected /temperature"),
    (["/foo"], "unknown setting '/foo': expected one that / lists"),
    (["x" * 64], "the prompt has 64 tokens: expected less than 64"),
    (["/K  0 "], "/K  0: K = 0: expected 1 or more"),  # at once: the setting stays
    (["/target_model_size 9B"], "9B"),
    (["/target_model_size huge", PROMPT, "/target_model_size 17M"], "NaN or infinite"),
    (["/draft_model_size other words"], "vocabularies"),
    (["/coupled", "/verification block", "/coupled"], "coupled: expected"),
])  # fmt: skip
def test_what_makes_no_sense_is_one_line_and_the_session_goes_on(chat, text, lines, said):
    code, out, err = chat([*lines, PROMPT])
    (refusal,) = errors_in(err)
    assert (code, out) == (0, text()) and said in refusal


def test_flags_that_make_no_sense_end_it(chat):
    for flag in ("--K=x", "--out=y", "word", "--K=0", "--temperature=-1", "--draft_model_size=9B"):
        code, out, err = chat([PROMPT], flag)
        assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("error: ")


# ---------------------------------------------------------------- Ctrl-C, Ctrl-D, a pipe that ends


def test_control_c_drops_a_line_or_a_text_and_control_d_ends_the_session(chat, text, monkeypatch):
    decode, begun = console.decode, []
    lines = iter([KeyboardInterrupt, PROMPT, PROMPT, EOFError])

    def interrupted(*arguments, **more):
        begun.append(1)
        if len(begun) == 1:
            raise KeyboardInterrupt
        return decode(*arguments, **more)

    def entered(prompt):
        line = next(lines)
        if line in (KeyboardInterrupt, EOFError):
            raise line
        return line

    whole = text()
    monkeypatch.setattr(console, "decode", interrupted)
    monkeypatch.setattr("builtins.input", entered)
    code, out, err = chat([], terminal=True)
    assert (code, len(begun), out) == (0, 2, "\n\n" + whole) and "Ctrl-D ends" in err


@pytest.mark.parametrize("error, code", [(KeyboardInterrupt, 130), (BrokenPipeError, 141)])
def test_interrupting_a_pipe_ends_the_session(chat, monkeypatch, error, code):
    def ended(settings, prompt):
        raise error

    monkeypatch.setattr(console, "continue_text", ended)
    assert chat([PROMPT, "/"])[:2] == (code, "")


def test_bytes_that_are_no_utf8_cost_their_line_alone(pair):
    lines = r'printf "a\n\xff\nb\n" | PYTHONIOENCODING=utf-8 "$0" "$@"'
    done = shell(lines, pair, "chat", LENGTH)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2
    assert len(errors_in(done.stderr.decode())) == 1


def test_a_full_output_ends_the_session(pair):
    done = shell('printf "a\\nb\\n" | "$0" "$@" >/dev/full', pair, "chat", LENGTH)
    assert done.returncode == 2
    assert errors_in(done.stderr.decode()) == ["output: No space left on device"]


def test_messages_that_cannot_be_written_do_not_end_the_session(pair):
    done = shell('printf "a\n/K 2\n/?\nb\n" | "$0" "$@" 2>/dev/full', pair, "chat", LENGTH)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2
