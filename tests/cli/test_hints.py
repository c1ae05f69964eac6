"""Typos and the words of other programs, and what each is told."""

import pytest
from command_line import assert_refused

import main
from cli.hints import close_names
from cli.parser import flags_of

FLAGS = [f"--{name}" for name in flags_of(main.generate)]
TYPED = {  # {our flag: what people type for it}
    "--K": "--k -k --gamma --num-speculative-tokens --num_assistant_tokens --draft-max --draft-n "
    "--speculate_k --num_draft_tokens --spec-draft-n-max --lookahead_k --k-auto --draft_ma",
    "--n_tokens_to_generate": "--n_tokens --max_tokens --max_new_tokens --n-predict --predict -n "
    "--tokens --num_tokens --new_tokens --max_length --length --N_tokens_to --max_new_tokn",
    "--target_model_size": "--model -m --target --target_model --target_size --targetmodelsize "
    "--model_name --model_name_or_path --model-path --checkpoint_path --target_model_name",
    "--draft_model_size": "--draft --draft_model --model-draft -md --drafter --draft_size "
    "--assistant_model --speculative_model --speculative-config --spec-type --ngram --eagle "
    "--medusa --prompt_lookup_num_tokens --draft_model_name --asistant_model",
    "--draft_confidence": "--draft-p-min --assistant_confidence_threshold --confidence",
    "--temperature": "--temp --Temperature --tempreature --temprature -t --do_sample --greedy",
    "--top_k": "--topk --top-K",
    "--top_p": "--topp --TOP_P",
    "--seed": "--sed --seeds -s --random_seed",
    "--stop": "--stop_token --stop_strings --stop-sequence",
    "--verification": "--verif --verify --rejection-sample-method --verificaton",
    "--coupled": "--couple --Coupled",
    "--mistake": "--mistakes --mistke",
    "--rule": "--rules",
    "--prompts": "--file -f --in-file --prompt_file --input",
    "--models_dir": "--models --model_dir --modelsdir --dir",
    "--stream": "--streaming --streamer --no-stream",
    "--report": "--html --html_report",
    "--json": "--jsn --JSON",
    "--out": "--output --output_file --out_file --outpt",
    "--batch_size": "--batch --batchsize --parallel",
    "--cluster": "--dask --workers",
    "--backend": "--gpu --device --device_map --cuda --no_cuda -ngl --n-gpu-layers --gpu-layers",
    "--dtype": "--torch_dtype --fp16 --float16 --precision",
    "--kernels": "--kernel --threads --n_threads",
    "--exact": "--deterministic",
}


@pytest.mark.parametrize("meant", TYPED)
def test_what_people_type_for_a_flag(meant):
    told = {typed: close_names(typed, FLAGS)[:1] for typed in TYPED[meant].split()}
    assert told == dict.fromkeys(TYPED[meant].split(), [meant])


@pytest.mark.parametrize(
    "typed, flags",
    [
        ("--top", "--top_k --top_p"),
        ("-p", "--prompt --prompts --prompt_ids --top_p"),
        ("--model_size", "--target_model_size --draft_model_size"),
        ("--max-model-len", ""),
        ("--min_p", ""),
        ("--repeat-penalty", ""),
        ("--bogus", ""),
        ("--x", ""),
        ("--", ""),
        ("-", ""),
    ],
)
def test_a_word_that_is_close_to_several_flags_or_to_none(typed, flags):
    assert close_names(typed, FLAGS) == flags.split()


@pytest.mark.parametrize(
    "words, hint",
    [
        (["bench"], "expected benchmark"),
        (["benchmrk"], "expected benchmark"),
        (["Chat"], "expected chat"),
        (["serve"], "expected play"),
        (["doctor"], "expected check"),
        (["convert"], "expected export"),
        (["run"], "expected generate"),
        (["--model", "124M"], "expected --target_model_size"),
        (["--hlep"], "expected --help"),
        (["mistakes", "resample"], "'resample': expected resample-from-p\n"),
        (["--mistake", "cache"], "'cache': expected stale-cache or whole-text-with-cache\n"),
        (["check"], "check: expected python main.py check SIZE_OR_FOLDER"),
        (["export", "17M"], "--out missing: expected a name that ends in .gguf"),
        (["record"], "--out missing: expected a name"),
        (["replay"], "--log missing: expected the file"),
        (["--draft_model_size", "none"], "give --mode autoregressive"),
        (["--draft_model_size", "ngram", "--draft_confidence", "0.5"], "no probabilities"),
    ],
)
def test_a_typo_is_told_what_was_meant(program, words, hint):
    assert_refused(program(*words), hint)


@pytest.mark.parametrize("command", [[], ["chat"]])
def test_help_without_dashes_is_help(program, command):
    assert program("help", *command).out == program(*command, "--help").out
