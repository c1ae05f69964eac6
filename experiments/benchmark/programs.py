"""Run the same weights in other programs, and time all programs in turns.

Float32, batch 1, greedy, the same prompts and as many tokens for all. In a turn every program
writes all texts, in a new order each time. Prefill is included: not every program tells it apart. A
program that is not installed is listed as not run.
"""

import json
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import requests

import utils
from backends.blas import N_THREADS
from checkpoints.engines import write_gguf, write_openvino
from checkpoints.search import find_folder
from decoding.clock import CONTEXT_TOKENS
from encoder import END_OF_TEXT
from experiments.benchmark.comparison import measure_in_turns
from experiments.benchmark.intervals import median_and_range
from experiments.benchmark.passes import context_lengths, median_seconds, passes
from sampling import RULES


@dataclass(frozen=True)
class Program:
    """A program that has been started.

    version: what stands beside every figure
    ways: {decoder: function (ids, n) -> (new ids, how many passes of the target wrote them)}
    passes: {n_rows: function that makes one pass over n_rows tokens}, where it has any
    """

    name: str
    version: str
    ways: dict
    passes: dict = field(default_factory=dict)


def versions(*packages):
    """Return the names and installed versions of packages: "numpy 2.0.0, torch 2.4.0"."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


# ---------------------------------------------------------------- programs


def start_ours(pair, run):
    """Return this project as a Program, for the pair and the settings of a Run."""
    target = pair.target

    def write(draft, ids, n):
        """Decode n tokens after ids: (list of new ids, number of target passes). draft: a Draft,
        or None to decode without one
        """
        text, n_passes = [], -1  # the prefill writes nothing
        this_run = replace(run, pair=replace(pair, draft=draft), ids=ids, n_tokens=n)
        for this_round in this_run.rounds():
            text += this_round.tokens
            n_passes += 1
        return text, n_passes

    ways = {"plain": partial(write, None)}
    if pair.draft:
        ways["speculative"] = partial(write, pair.draft)
    rows = 1, run.K + 1
    of_rows = passes(target, rows, context_lengths(target, rows)[0])
    return Program("this project", versions("numpy"), ways, of_rows)


# Each of the others is started with (target folder, draft folder or None, K), and raises
# ImportError where it is not installed.


def start_transformers(target, draft, K):
    import torch
    import transformers

    torch.set_num_threads(N_THREADS)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    def load(folder):
        model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
        # no token ends a text, and it always drafts K
        config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
        config.update(num_assistant_tokens=K, num_assistant_tokens_schedule="constant")
        config.update(assistant_confidence_threshold=0)
        model.generation_config = config
        return model.eval()

    model, calls = load(target), []
    # it reports no passes, so count them
    model.register_forward_hook(lambda *_: calls.append(1))

    def write(assistant, ids, n):
        """Write n tokens after ids: (list of new ids, number of target passes). assistant: the
        draft as a model of transformers, or None
        """
        calls.clear()
        prompt = torch.tensor([ids])
        text = model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return text[0, len(ids) :].tolist(), len(calls)

    past = min(CONTEXT_TOKENS, model.config.n_positions - K - 1)
    with torch.no_grad():  # as generate does
        cache = model(torch.zeros(1, past, dtype=int), use_cache=True).past_key_values

    @torch.no_grad()
    def read(n):
        model(torch.zeros(1, n, dtype=int), past_key_values=cache, use_cache=True)
        cache.crop(-n)

    ways = {"plain": partial(write, None)}
    if draft:
        ways["speculative"] = partial(write, load(draft))
    rows = {n: partial(read, n) for n in (1, K + 1)}
    return Program("transformers", versions("transformers", "torch"), ways, rows)


def start_openvino(target, draft, K):
    import openvino
    import openvino_genai as genai

    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    options = exact | {"INFERENCE_NUM_THREADS": N_THREADS}

    def ask(pipeline, ids, n, K=None):
        settings = genai.GenerationConfig()
        settings.max_new_tokens, settings.ignore_eos, settings.do_sample = n, True, False
        if K:
            settings.num_assistant_tokens = K
        return pipeline.generate(openvino.Tensor(np.array([ids])), settings)

    def plain(ids, n):
        return list(ask(standalone_model, ids, n).tokens[0]), n

    def speculative(ids, n):
        answer = ask(together, ids, n, K)
        metrics = answer.extended_perf_metrics.main_model_metrics
        return list(answer.tokens[0]), len(metrics.raw_metrics.m_durations)

    ways = {"plain": plain}
    with tempfile.TemporaryDirectory() as folder:
        write_openvino(target, f"{folder}/target")
        standalone_model = genai.LLMPipeline(f"{folder}/target", "CPU", **options)
        if draft:
            write_openvino(draft, f"{folder}/draft")
            draft_model = genai.draft_model(f"{folder}/draft", "CPU", **options)
            scheduler = genai.SchedulerConfig()
            scheduler.cache_size = 1  # GB
            options |= {"draft_model": draft_model, "scheduler_config": scheduler}
            together = genai.LLMPipeline(f"{folder}/target", "CPU", **options)
            ways["speculative"] = speculative
    return Program("OpenVINO GenAI", versions("openvino-genai"), ways)


def start_llama_server(target, draft, K):
    import xllamacpp as llama

    def serve(target, draft=None):
        params = llama.CommonParams()
        params.model.path, params.n_parallel, params.verbosity = target, 1, 0
        params.load_mode = llama.llama_load_mode.LLAMA_LOAD_MODE_NONE
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = N_THREADS
        if draft:
            simple = llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
            params.speculative.types = [simple]
            settings = params.speculative.draft
            settings.mparams.path, settings.n_max = draft, K
            settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = N_THREADS
        return llama.Server(params)

    def write(server, ids, n):
        """Ask a running llama.Server for n tokens after ids, over HTTP: (list of new ids, number of
        target passes).
        """
        request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
        request |= {"return_tokens": True, "cache_prompt": False}
        address = f"{server.listening_address}/completion"
        answer = requests.post(address, json=request, timeout=600).json()
        # a pass of the target writes the drafts it accepts and one token of its own
        return answer["tokens"], n - answer["timings"].get("draft_n_accepted", 0)

    with tempfile.TemporaryDirectory() as folder:
        target_file, draft_file = f"{folder}/target.gguf", f"{folder}/draft.gguf"
        write_gguf(target, target_file)
        ways = {"plain": partial(write, serve(target_file))}
        if draft:
            write_gguf(draft, draft_file)
            ways["speculative"] = partial(write, serve(target_file, draft_file))
    # a wheel is compiled for many machines: say which instructions it uses on this one
    system = llama.get_system_info().replace(" = 1", "").strip("CPU :|")
    return Program("llama.cpp's server", f"{versions('xllamacpp')} ({system})", ways)


PROGRAMS = {
    "transformers": start_transformers,
    "openvino": start_openvino,
    "llama_server": start_llama_server,
}


def write_random(config, folder):
    """Write random weights of this shape (--weights random), with a vocabulary, into a folder."""
    from safetensors.numpy import save_file

    read = utils.random_weights(config)
    tensors = {f"transformer.{name}": read(name) for name in config.shapes()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    entries = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": config.n_ctx,
        "n_embd": config.n_embd,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "vocab_size": config.n_vocab,
    }
    (folder / "config.json").write_text(json.dumps(entries))
    vocabulary = {str(i): i for i in range(config.n_vocab - 1)} | {END_OF_TEXT: config.n_vocab - 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def start_programs(names, pair, folders, run):
    """Start this project and the programs of these names.

    folders: (the target's checkpoint folder, the draft's or None); None for random weights
    Returns (a list of Programs, {name of a program: the module that is not installed}).
    """
    programs = [start_ours(pair, run)]
    missing = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            try:
                if not folders:
                    write_random(pair.target.config, Path(temporary))
                    folders = Path(temporary), None
                programs.append(PROGRAMS[name](*folders, run.K))
            except ImportError as error:
                missing[name] = error.name
    return programs, missing


# ---------------------------------------------------------------- turns


def time_texts(write, prompts, n_tokens):
    """Decode n_tokens after each prompt with write(ids, n) -> (new ids, target passes).

    Returns (seconds of all prompts, tuple of the new ids of each, target passes of all prompts).
    """
    begin = time.perf_counter()
    texts, n_passes = zip(*(write(ids, n_tokens) for ids in prompts))
    return time.perf_counter() - begin, texts, sum(n_passes)


def measure_verify_cost(program, K, repeats):
    """Time passes of a program. Returns seconds over K + 1 rows / seconds over one row, or None if
    the program has no passes to time.

    Each program is timed alone: the caches and threads of a program before it would add time.
    """
    seconds = median_seconds(program.passes, repeats)
    return seconds[K + 1] / seconds[1] if seconds else None


def compare_programs(programs, prompts, run, repeats, seed):
    """Time every program and decoder in turns. Returns a list of rows (dicts), one for each.

    A row has no speeds (None) if a text does not have run.n_tokens tokens.
    """
    ways = {
        (program.name, way): partial(time_texts, write, prompts, run.n_tokens)
        for program in programs
        for way, write in program.ways.items()
    }
    turns = measure_in_turns(ways, repeats, seed, "programs")
    results = {way: [*zip(*of_way)] for way, of_way in turns.items()}
    costs = {program.name: measure_verify_cost(program, run.K, 4 * repeats) for program in programs}
    our_seconds, (our_texts, *_), _ = next(iter(results.values()))
    rows = []
    n = run.n_tokens * len(prompts)
    for (program, way), (seconds, (texts, *_), (n_passes, *_)) in results.items():
        speed = against = None
        if all(len(ids) == run.n_tokens for ids in texts):
            speed = median_and_range([n / t for t in seconds])
            against = median_and_range([a / b for a, b in zip(our_seconds, seconds)])
        rows.append(
            {
                "program": program,
                "decoder": way,
                "tokens_per_second": speed,
                "against_ours": against,
                "tokens_per_target_pass": n / n_passes,
                "same_texts": sum(a == b for a, b in zip(texts, our_texts)),
                "cost_of_all_rows": costs[program],
            }
        )
    return rows


def measure_programs(settings, models, target, result):
    """Measure every program with the prompts of the settings. Returns a list of rows (dicts), one
    for each program and decoder.

    Adds to `result`: "versions" and "missing" under "machine", and the number of "prompts".
    """
    (draft,) = settings.drafts()
    pair = models.pair(draft)
    folders = None
    run = replace(
        settings.plain_run(models, settings.to_probs),
        K=settings.Ks()[0],
        rule=RULES[settings.verification],
    )
    if settings.weights != utils.RANDOM:
        folder = partial(find_folder, models_dir=settings.models_dir)
        # other programs have no drafts that cannot write text without a target
        folders = folder(target), folder(draft) if pair.draft.standalone_model else None
    prompts, _ = settings.read_chosen(models)
    programs, missing = start_programs(settings.other_programs(), pair, folders, run)
    versions = {program.name: program.version for program in programs}
    result["machine"] |= {"versions": versions, "missing": missing}
    result["prompts"] = len(prompts)
    return compare_programs(programs, prompts, run, settings.repeats, settings.seed)
