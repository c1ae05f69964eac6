"""Typos and the words of other programs, and what each is told."""

import pytest
from command_line import assert_refused

import main
from cli.hints import close_names
from cli.parser import flags_of

FLAGS = [f"--{name}" for name in flags_of(main.generate)]


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("--k", "--K"),
        ("--temp", "--temperature"),
        ("--Temperature", "--temperature"),
        ("--tempreature", "--temperature"),
        ("--top-k", "--top_k"),
        ("--draft", "--draft_model_size"),
        ("--draft_model", "--draft_model_size"),
        ("--assistant_model", "--draft_model_size"),
        ("--speculative_model", "--draft_model_size"),
        ("--model", "--target_model_size"),
        ("--target", "--target_model_size"),
        ("--gamma", "--K"),
        ("--num-speculative-tokens", "--K"),
        ("--draft-max", "--K"),
        ("--n_tokens", "--n_tokens_to_generate"),
        ("--max_tokens", "--n_tokens_to_generate"),
        ("--max_new_tokens", "--n_tokens_to_generate"),
        ("--n-predict", "--n_tokens_to_generate"),
        ("--gpu", "--backend"),
        ("--device", "--backend"),
        ("--verif", "--verification"),
        ("--kernel", "--kernels"),
        ("--output", "--out"),
    ],
)
def test_a_typo_of_a_flag(typed, meant):
    assert close_names(typed, FLAGS)[0] == meant


@pytest.mark.parametrize("typed", ["--bogus", "--", "--x", "-"])
def test_a_word_that_is_close_to_nothing(typed):
    assert close_names(typed, FLAGS) == []


@pytest.mark.parametrize(
    "words, hint",
    [
        (["bench"], "expected benchmark"),
        (["benchmrk"], "expected benchmark"),
        (["Chat"], "expected chat"),
        (["serve"], "expected play"),
        (["--model", "124M"], "expected --target_model_size"),
        (["chek"], "expected check"),
        (["mistakes", "resample"], "'resample': expected resample-from-p\n"),
        (["--mistake", "resample"], "'resample': expected resample-from-p\n"),
        (["check"], "expected one size or folder after check"),
        (["export"], "--out missing: expected the name"),
        (["--draft_model_size", "none"], "give --mode autoregressive"),
        (["--draft_model_size", "ngram", "--draft_confidence", "0.5"], "no probabilities"),
    ],
)
def test_a_typo_is_told_what_was_meant(program, words, hint):
    assert_refused(program(*words), hint)


def test_help_without_dashes_is_help(program):
    assert program("help").out == program("--help").out
