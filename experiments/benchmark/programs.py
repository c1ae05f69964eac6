"""Run the same weights in other programs, and time all programs in turns.

Float32, batch 1, greedy, the same prompts and as many tokens for all. In a turn every program
writes all texts, in a new order each time. Prefill is included, because not every program times it
separately. A program that is not installed is listed as not run.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import requests

from backends.before_numpy import N_THREADS
from checkpoints.engines import write_gguf, write_openvino
from checkpoints.search import find_folder
from experiments.benchmark.comparison import measure_in_turns
from experiments.benchmark.intervals import median_and_range
from sampling import RULES


@dataclass(frozen=True)
class Program:
    """A program that has been started.

    version: the versions of its packages, a text
    decoders: {"plain" or "speculative": function write(ids, n)}. write decodes n tokens after the
        token ids of a prompt, and returns (list of new ids, number of target passes)
    """

    name: str
    version: str
    decoders: dict


def versions(*packages):
    """Return the names and installed versions of packages, one text: "numpy 2.0.0, torch 2.4.0"."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


# ---------------------------------------------------------------- programs


def start_ours(pair, run):
    """Return this project as a Program, which decodes with a Pair: "plain" without its draft, and
    "speculative" with it if there is one.

    run: a Run that gives the settings, such as K and the rule; its pair and text are replaced
    """

    def write(draft, ids, n):
        """Decode n tokens after ids, a list. draft: a Draft, or None to decode without a draft

        Returns (list of new ids, number of target passes).
        """
        run_of_text = replace(run, pair=replace(pair, draft=draft), ids=ids, n_tokens=n)
        rounds = list(run_of_text.rounds())[1:]  # without the prefill
        text = [token for this_round in rounds for token in this_round.tokens]
        return text, len(rounds)

    decoders = {"plain": partial(write, None)}
    if pair.draft:
        decoders["speculative"] = partial(write, pair.draft)
    return Program("this project", versions("numpy"), decoders)


def start_transformers(target: Path, draft: Path | None, K: int):
    """Load models into transformers, and return it as a Program. Sets torch's number of threads and
    silences transformers, in this process. Raises ImportError without the packages.

    target, draft: checkpoint folders; draft None: decode without a draft
    K: how many tokens to draft per round
    """
    import torch
    import transformers

    torch.set_num_threads(N_THREADS)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    def load(folder):
        """Load the checkpoint in a folder. Returns a model of transformers, which drafts K tokens
        per round if it is used as an assistant.
        """
        model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
        # no token ends a text; as an assistant, the model always drafts K tokens
        config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
        config.update(num_assistant_tokens=K, num_assistant_tokens_schedule="constant")
        config.update(assistant_confidence_threshold=0)
        model.generation_config = config
        return model.eval()

    # transformers does not report the passes of the target: a hook adds an item for each
    model = load(target)
    calls = []
    model.register_forward_hook(lambda *arguments: calls.append(1))

    def write(assistant, ids, n):
        """Decode n tokens after ids, a list. assistant: the draft, a model of transformers, or None

        Returns (list of new ids, number of target passes).
        """
        calls.clear()
        prompt = torch.tensor([ids])
        text = model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return text[0, len(ids) :].tolist(), len(calls)

    decoders = {"plain": partial(write, None)}
    if draft:
        decoders["speculative"] = partial(write, load(draft))
    return Program("transformers", versions("transformers", "torch"), decoders)


def start_openvino(target: Path, draft: Path | None, K: int):
    """Convert models for OpenVINO GenAI, load them, delete the converted files, and return OpenVINO
    GenAI as a Program. Raises ImportError without the packages.

    target, draft: checkpoint folders; draft None: decode without a draft
    K: how many tokens to draft per round
    """
    import openvino
    import openvino_genai as genai

    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    options = exact | {"INFERENCE_NUM_THREADS": N_THREADS}

    def write(pipeline, n_drafted, ids, n):
        """Decode n tokens after ids, a list, with an LLMPipeline. n_drafted: K, 0 without a draft

        Returns (list of new ids, number of target passes).
        """
        settings = genai.GenerationConfig()
        settings.max_new_tokens = n
        settings.ignore_eos = True
        settings.do_sample = False
        if n_drafted:
            settings.num_assistant_tokens = n_drafted
        results = pipeline.generate(openvino.Tensor(np.array([ids])), settings)
        n_passes = n  # without a draft, a pass writes one token
        if n_drafted:
            metrics = results.extended_perf_metrics.main_model_metrics
            n_passes = len(metrics.raw_metrics.m_durations)
        return list(results.tokens[0]), n_passes

    with tempfile.TemporaryDirectory() as folder:
        write_openvino(target, f"{folder}/target")
        pipeline = genai.LLMPipeline(f"{folder}/target", "CPU", **options)
        decoders = {"plain": partial(write, pipeline, 0)}
        if draft:
            write_openvino(draft, f"{folder}/draft")
            draft_model = genai.draft_model(f"{folder}/draft", "CPU", **options)
            scheduler = genai.SchedulerConfig()
            scheduler.cache_size = 1  # GB, enough for any text here
            drafting = {"draft_model": draft_model, "scheduler_config": scheduler}
            pipeline = genai.LLMPipeline(f"{folder}/target", "CPU", **options, **drafting)
            decoders["speculative"] = partial(write, pipeline, K)
    return Program("OpenVINO GenAI", versions("openvino-genai"), decoders)


def start_llama_server(target: Path, draft: Path | None, K: int):
    """Convert models to GGUF, start servers of llama.cpp with them in this process, one without and
    one with the draft, and return both as a Program. Deletes the GGUF files, which the servers have
    read. Raises ImportError without xllamacpp.

    target, draft: checkpoint folders; draft None: decode without a draft
    K: how many tokens to draft per round
    """
    import xllamacpp as llama

    with tempfile.TemporaryDirectory() as folder:
        target_file, draft_file = f"{folder}/target.gguf", f"{folder}/draft.gguf"
        write_gguf(target, target_file)
        server = llama.Server(server_params(llama, target_file))
        decoders = {"plain": partial(ask_server, server)}
        if draft:
            write_gguf(draft, draft_file)
            server = llama.Server(server_params(llama, target_file, draft_file, K))
            decoders["speculative"] = partial(ask_server, server)
    # a wheel is compiled for many machines: say which instructions it uses on this one;
    # "CPU : SSE3 = 1 | AVX2 = 1 | " becomes "SSE3 | AVX2"
    system = llama.get_system_info().replace(" = 1", "").strip("CPU :|")
    return Program("llama.cpp's server", f"{versions('xllamacpp')} ({system})", decoders)


def server_params(llama, target, draft=None, K=0):
    """Return the xllamacpp.CommonParams of a server that decodes one text at a time.

    llama: the module xllamacpp; target, draft: paths of GGUF files, draft None to decode without a
        draft; K: tokens drafted per round
    """
    params = llama.CommonParams()
    params.model.path = target
    params.n_parallel = 1
    params.verbosity = 0
    # read the file into memory, do not map it: it is deleted while the server runs
    params.load_mode = llama.llama_load_mode.LLAMA_LOAD_MODE_NONE
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = N_THREADS
    if draft:
        draft_model = llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
        params.speculative.types = [draft_model]
        settings = params.speculative.draft
        settings.mparams.path = draft
        settings.n_max = K
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = N_THREADS
    return params


def ask_server(server, ids, n):
    """Ask a running xllamacpp.Server over HTTP for n tokens after a list of token ids.

    Returns (list of new ids, number of target passes).
    """
    request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
    request |= {"return_tokens": True, "cache_prompt": False}
    address = f"{server.listening_address}/completion"
    # seconds: without a timeout, a server that hangs would stop the benchmark for ever
    answer = requests.post(address, json=request, timeout=600).json()
    # a pass of the target writes the drafts it accepts and one token of its own
    return answer["tokens"], n - answer["timings"].get("draft_n_accepted", 0)


PROGRAMS = {
    "transformers": start_transformers,
    "openvino": start_openvino,
    "llama_server": start_llama_server,
}


def start_programs(names, pair, folders, run):
    """Start other programs with the same models as this project. Returns (a list of Programs, this
    project first; {name of a program that is not installed: the module that is missing}).

    names: of the programs, keys of PROGRAMS; pair: the Pair that this project decodes with
    folders: (the target's checkpoint folder, the draft's), Paths; None for a draft that is no model
    run: a Run, for its K and rule
    """
    programs = [start_ours(pair, run)]
    missing = {}
    for name in names:
        try:
            programs.append(PROGRAMS[name](*folders, run.K))
        except ImportError as error:
            missing[name] = error.name
    return programs, missing


# ---------------------------------------------------------------- turns


class Turn(NamedTuple):
    """What one decoder of one program did in one turn."""

    seconds: float  # of all prompts
    texts: list  # the new ids of each prompt
    n_passes: int  # of the target, over all prompts


def time_texts(write, prompts, n_tokens):
    """Decode n_tokens after each prompt, one after the other. Returns the Turn: its seconds, texts
    and number of target passes.

    write: a decoder of a Program, a function (ids, n) -> (list of new ids, number of passes)
    prompts: a list of lists of token ids
    """
    begin = time.perf_counter()
    answers = [write(ids, n_tokens) for ids in prompts]
    seconds = time.perf_counter() - begin
    texts = [text for text, _ in answers]
    return Turn(seconds, texts, sum(n_passes for _, n_passes in answers))


def compare_programs(programs, prompts, run, repeats, seed):
    """Time every decoder of every Program in turns, `repeats` times each. Returns a list of rows
    (dicts), one for each decoder. Prints progress on stderr.

    programs: a list; this project is first, and all decoders are compared with its plain decoding
    prompts: a list of lists of ids; run: a Run, for its n_tokens; seed: of the order in each turn
    """
    decoders = {
        (program.name, decoder): partial(time_texts, write, prompts, run.n_tokens)
        for program in programs
        for decoder, write in program.decoders.items()
    }
    turns = measure_in_turns(decoders, repeats, seed, "programs")
    our_turns = turns["this project", "plain"]
    rows = []
    for (program, decoder), turns_of_decoder in turns.items():
        columns = turn_columns(turns_of_decoder, our_turns, run.n_tokens)
        rows.append({"program": program, "decoder": decoder} | columns)
    return rows


def turn_columns(turns: list[Turn], our_turns: list[Turn], n_tokens):
    """Return the columns for a decoder, a dict: "tokens_per_second" and "against_ours" (how many
    times as fast as our plain decoding), each a median with its range over turns;
    "tokens_per_target_pass"; "same_texts", how many of its texts our plain decoding writes too.

    turns, our_turns: those of the decoder, and of our plain decoding
    n_tokens: how many tokens each text must have; if one has not, the first three columns are None
    """
    texts = turns[0].texts  # greedy, so the same in every turn
    n_in_all = n_tokens * len(texts)
    speed = against_ours = tokens_per_pass = None
    if all(len(ids) == n_tokens for ids in texts):
        speed = median_and_range([n_in_all / turn.seconds for turn in turns])
        ratios = [ours.seconds / turn.seconds for ours, turn in zip(our_turns, turns)]
        against_ours = median_and_range(ratios)
        tokens_per_pass = n_in_all / turns[0].n_passes
    return {
        "tokens_per_second": speed,
        "against_ours": against_ours,
        "tokens_per_target_pass": tokens_per_pass,
        "same_texts": sum(text == ours for text, ours in zip(texts, our_turns[0].texts)),
    }


def measure_programs(settings, models, target, result):
    """Measure every program with the prompts of the settings. Returns a list of rows (dicts), one
    for each program and decoder. Prints progress on stderr.

    settings: BenchmarkSettings with one draft, K and rule; models: LoadedModels; target: its name
    result: a dict, to which are added "versions" and "missing" under "machine", and the number of
        "prompts"
    """
    (draft,) = settings.drafts()
    pair = models.pair(draft)
    run = replace(
        settings.plain_run(models, settings.to_probs),
        K=settings.Ks()[0],
        rule=RULES[settings.verification],
    )
    target_folder = find_folder(target, settings.models_dir)
    draft_folder = None
    # the other programs take models only: no n-grams, and no heads
    if pair.draft.standalone_model:
        draft_folder = find_folder(draft, settings.models_dir)
    prompts, _ = settings.read_chosen(models)
    folders = target_folder, draft_folder
    programs, missing = start_programs(settings.other_programs(), pair, folders, run)
    versions = {program.name: program.version for program in programs}
    result["machine"] |= {"versions": versions, "missing": missing}
    result["prompts"] = len(prompts)
    return compare_programs(programs, prompts, run, settings.repeats, settings.seed)
