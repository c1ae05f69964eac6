"""The same weights in the programs people would run instead, taking turns.

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
from cli.engines import write_gguf, write_openvino
from decoding.clock import PAST
from encoder import END_OF_TEXT
from experiments.benchmark.passes import median_seconds, passes
from experiments.benchmark.runner import in_turns
from experiments.benchmark.statistics import spread


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
    return ", ".join(f"{package} {version(package)}" for package in packages)


# ---------------------------------------------------------------- programs


def ours(pair, run):
    """This project."""
    target = pair.target

    def write(draft, ids, n):
        text, n_passes = [], -1  # the prefill writes nothing
        for round in replace(run, pair=replace(pair, draft=draft), ids=ids, n_tokens=n).rounds():
            text += round.tokens
            n_passes += 1
        return text, n_passes

    ways = {"plain": partial(write, None)}
    if pair.draft:
        ways["speculative"] = partial(write, pair.draft)
    return Program("this project", versions("numpy"), ways, passes(target, (1, run.K + 1)))


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
        calls.clear()
        prompt = torch.tensor([ids])
        text = model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return text[0, len(ids) :].tolist(), len(calls)

    past = min(PAST, model.config.n_positions - K - 1)
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
        return list(ask(alone, ids, n).tokens[0]), n

    def speculative(ids, n):
        answer = ask(together, ids, n, K)
        metrics = answer.extended_perf_metrics.main_model_metrics
        return list(answer.tokens[0]), len(metrics.raw_metrics.m_durations)

    ways = {"plain": plain}
    with tempfile.TemporaryDirectory() as folder:
        write_openvino(target, f"{folder}/target")
        alone = genai.LLMPipeline(f"{folder}/target", "CPU", **options)
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
        request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
        request |= {"return_tokens": True, "cache_prompt": False}
        address = f"{server.listening_address}/completion"
        answer = requests.post(address, json=request, timeout=600).json()
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
    """The weights that --weights random means for this shape, as a checkpoint folder."""
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


def started(names, pair, folders, run):
    """(the programs, {name: what is not installed}): ours, and those of these names.

    folders: of the target's checkpoint, and of the draft's or None; for random weights None
    """
    programs = [ours(pair, run)]
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


def timed(write, prompts, n_tokens):
    """(seconds, new ids of each prompt, passes of the target) of all prompts."""
    begin = time.perf_counter()
    texts, n_passes = zip(*(write(ids, n_tokens) for ids in prompts))
    return time.perf_counter() - begin, texts, sum(n_passes)


def cost_of_rows(program, K, repeats):
    """The time of a pass over K + 1 rows over that of a pass over one row; None if unknown.

    A block for each program: after another's pass the caches, and its threads, would count.
    """
    seconds = median_seconds(program.passes, repeats)
    return seconds[K + 1] / seconds[1] if seconds else None


def compare(programs, prompts, run, repeats, seed):
    """A row for each program and decoder; no speeds where texts have other lengths."""
    ways = {
        (program.name, way): partial(timed, write, prompts, run.n_tokens)
        for program in programs
        for way, write in program.ways.items()
    }
    turns = in_turns(ways, repeats, seed, "programs")
    results = {way: [*zip(*of_way)] for way, of_way in turns.items()}
    costs = {program.name: cost_of_rows(program, run.K, 4 * repeats) for program in programs}
    our_seconds, (our_texts, *_), _ = next(iter(results.values()))
    rows = []
    n = run.n_tokens * len(prompts)
    for (program, way), (seconds, (texts, *_), (n_passes, *_)) in results.items():
        speed = against = None
        if all(len(ids) == run.n_tokens for ids in texts):
            speed = spread([n / t for t in seconds])
            against = spread([a / b for a, b in zip(our_seconds, seconds)])
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
