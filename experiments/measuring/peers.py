"""The same weights in the programs people would run instead, taking turns.

Float32, batch 1, greedy, the same prompts and as many tokens for all. In a turn every program
writes all texts, in a new order each time. Prefill is included: not every program tells it apart. A
program that is not installed is listed as not run.

A program is made from (target folder, draft folder or None, K), and raises ImportError where it is
not installed.
"""

import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import requests
from tqdm import tqdm

import utils
from backends.blas import N_THREADS
from encoder import END_OF_TEXT
from experiments.data.engines import write_gguf, write_openvino
from experiments.data.values import SettingError
from experiments.decoding.job import decode
from experiments.measuring.statistics import spread

PAST = list(range(100, 164))  # what is in the caches before a pass that is timed


@dataclass(frozen=True)
class Answer:
    """The new ids, and how many passes of the target wrote them."""

    ids: list
    passes: int


def versions(*packages):
    """What stands beside every figure."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


# ---------------------------------------------------------------- programs


class Program:
    """A subclass has `plain(ids, n) -> Answer`, and `speculative` likewise if it has a `draft`."""

    draft = speculative = None
    row_seconds = None  # (past, ids) -> seconds of a pass over ids after the past, where it has one

    def ways(self):
        """{decoder: function}"""
        ways = {"plain": self.plain, "speculative": self.speculative}
        return {"plain": self.plain} if self.draft is None else ways


class Ours(Program):
    name = "this project"

    def __init__(self, pair, job):
        self.pair, self.draft, self.job = pair, pair.draft, job
        self.cache, self.version = pair.target.new_cache(), versions("numpy")

    def plain(self, ids, n, draft=None):
        job = replace(self.job, ids=ids, n_tokens=n)
        rounds = list(decode(self.pair.target, draft, job))
        return Answer([int(token) for one in rounds for token in one.tokens], len(rounds) - 1)

    def speculative(self, ids, n):
        return self.plain(ids, n, self.draft)

    def row_seconds(self, past, ids):
        self.cache.length = 0
        self.pair.target.read(past, self.cache)
        begin = time.perf_counter()
        self.pair.target.read(past + ids, self.cache, n_last=len(ids))
        return time.perf_counter() - begin


class Transformers(Program):
    name = "transformers"

    def __init__(self, target, draft, K):
        import torch
        import transformers

        torch.set_num_threads(N_THREADS)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.torch, self.version = torch, versions("transformers", "torch")

        def load(folder):
            model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
            # no token ends a text, and it always drafts K
            config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
            config.update(num_assistant_tokens=K, num_assistant_tokens_schedule="constant")
            config.update(assistant_confidence_threshold=0)
            model.generation_config = config
            return model.eval()

        self.model = load(target)
        self.draft = load(draft) if draft else None
        # it reports no passes, so count them
        self.passes = 0
        self.model.register_forward_hook(self.count)

    def count(self, *_):
        self.passes += 1

    def plain(self, ids, n, assistant=None):
        prompt = self.torch.tensor([ids])
        self.passes = 0
        with self.torch.no_grad():
            found = self.model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return Answer(found[0, len(ids) :].tolist(), self.passes)

    def speculative(self, ids, n):
        return self.plain(ids, n, self.draft)

    def row_seconds(self, past, ids):
        past, ids = self.torch.tensor([past]), self.torch.tensor([ids])
        with self.torch.no_grad():
            cache = self.model(past, use_cache=True).past_key_values
            begin = time.perf_counter()
            self.model(ids, past_key_values=cache, use_cache=True)
            return time.perf_counter() - begin


class OpenVINO(Program):
    name = "OpenVINO GenAI"

    def __init__(self, target, draft, K):
        import openvino
        import openvino_genai

        self.openvino, self.genai, self.K = openvino, openvino_genai, K
        self.version = versions("openvino-genai")
        exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        options = exact | {"INFERENCE_NUM_THREADS": N_THREADS}
        with tempfile.TemporaryDirectory() as folder:
            write_openvino(target, f"{folder}/target")
            self.alone = self.genai.LLMPipeline(f"{folder}/target", "CPU", **options)
            if draft:
                write_openvino(draft, f"{folder}/draft")
                draft_model = self.genai.draft_model(f"{folder}/draft", "CPU", **options)
                scheduler = self.genai.SchedulerConfig()
                scheduler.cache_size = 1  # GB
                options |= {"draft_model": draft_model, "scheduler_config": scheduler}
                self.draft = self.genai.LLMPipeline(f"{folder}/target", "CPU", **options)

    def ask(self, pipeline, ids, n, K=None):
        settings = self.genai.GenerationConfig()
        settings.max_new_tokens, settings.ignore_eos, settings.do_sample = n, True, False
        if K:
            settings.num_assistant_tokens = K
        return pipeline.generate(self.openvino.Tensor(np.array([ids])), settings)

    def plain(self, ids, n):
        found = self.ask(self.alone, ids, n)
        return Answer(list(found.tokens[0]), n)

    def speculative(self, ids, n):
        found = self.ask(self.draft, ids, n, self.K)
        target = found.extended_perf_metrics.main_model_metrics
        return Answer(list(found.tokens[0]), len(target.raw_metrics.m_durations))


class LlamaServer(Program):
    name = "llama.cpp's server"

    def __init__(self, target, draft, K):
        import xllamacpp

        self.llama, self.K = xllamacpp, K
        # a wheel is compiled for many machines: say which instructions it uses on this one
        system = xllamacpp.get_system_info().replace(" = 1", "").strip("CPU :|")
        self.version = f"{versions('xllamacpp')} ({system})"
        with tempfile.TemporaryDirectory() as folder:
            target_file, draft_file = f"{folder}/target.gguf", f"{folder}/draft.gguf"
            write_gguf(target, target_file)
            self.alone = self.start(target_file)
            if draft:
                write_gguf(draft, draft_file)
                self.draft = self.start(target_file, draft_file)

    def start(self, target, draft=None):
        params = self.llama.CommonParams()
        params.model.path, params.n_parallel, params.verbosity = target, 1, 0
        params.load_mode = self.llama.llama_load_mode.LLAMA_LOAD_MODE_NONE
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = N_THREADS
        if draft:
            simple = self.llama.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE
            params.speculative.types = [simple]
            settings = params.speculative.draft
            settings.mparams.path, settings.n_max = draft, self.K
            settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = N_THREADS
        return self.llama.Server(params)

    def ask(self, server, ids, n):
        request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
        request |= {"return_tokens": True, "cache_prompt": False}
        address = f"{server.listening_address}/completion"
        found = requests.post(address, json=request, timeout=600).json()
        return Answer(found["tokens"], n - found["timings"].get("draft_n_accepted", 0))

    def plain(self, ids, n):
        return self.ask(self.alone, ids, n)

    def speculative(self, ids, n):
        return self.ask(self.draft, ids, n)


OURS = "ours"  # always takes part
OTHERS = {"transformers": Transformers, "openvino": OpenVINO, "llama_server": LlamaServer}
PROGRAMS = (OURS, *OTHERS)


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


def started(names, pair, folders, job):
    """(the programs, {name: what is not installed}): ours, and those of these names.

    folders: of the target's checkpoint, and of the draft's or None; for random weights None
    """
    programs, missing = [Ours(pair, job)], {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            kind = OTHERS[name]
            try:
                if not folders:
                    write_random(pair.target.config, Path(temporary))
                    folders = Path(temporary), None
                programs.append(kind(*folders, job.K))
            except ImportError as error:
                missing[kind.name] = error.name
    return programs, missing


# ---------------------------------------------------------------- turns


def take_turns(ways, prompts, n_tokens, repeats):
    """{name: (seconds of each turn, Answers)} of ways {name: generate}."""
    seconds, answers = {name: [] for name in ways}, {}
    names, rng = list(ways), np.random.default_rng(0)
    for turn in tqdm(range(repeats + 1), unit=" turns", leave=False, disable=None):
        for j in rng.permutation(len(names)):
            name = names[j]
            begin = time.perf_counter()
            answers[name] = [ways[name](ids, n_tokens) for ids in prompts]
            if turn:  # the first is the warm-up
                seconds[name].append(time.perf_counter() - begin)
    return {name: (seconds[name], answers[name]) for name in names}


def time_passes(programs, n_rows, repeats):
    """{name: (seconds of one row, of n_rows)}, medians, the programs taking turns; without those
    that have no such pass.
    """
    ids = list(range(200, 200 + n_rows))
    able = [one for one in programs if one.row_seconds]
    times = {one.name: [] for one in able}
    for _ in range(repeats + 1):
        for one in able:
            times[one.name].append((one.row_seconds(PAST, ids[:1]), one.row_seconds(PAST, ids)))
    # the first is the warm-up
    return {name: [*map(statistics.median, zip(*both[1:]))] for name, both in times.items()}


def check_passes(n_ctx, K):
    """Refuses a K whose passes a context has no room for."""
    most = n_ctx - len(PAST) - 1
    if K > most:
        problem = f"{K}: expected at most {most}, as passes over K + 1 tokens follow {len(PAST)}"
        raise SettingError("K", problem)


def compare(programs, prompts, job, repeats):
    """A row for each program and decoder. Speeds are None where texts have other lengths, which
    cannot be compared.
    """
    ways = {(one.name, way): write for one in programs for way, write in one.ways().items()}
    results = take_turns(ways, prompts, job.n_tokens, repeats)
    passes = time_passes(programs, job.K + 1, 4 * repeats)
    our_seconds, ours = next(iter(results.values()))
    rows, n = [], job.n_tokens * len(prompts)
    for (program, way), (seconds, answers) in results.items():
        whole = all(len(answer.ids) == job.n_tokens for answer in answers)
        one, many = passes.get(program, (None, None)) if way == "plain" else (None, None)
        rows.append(
            {
                "program": program,
                "decoder": way,
                "tokens_per_second": spread([n / t for t in seconds]) if whole else None,
                "against_ours": spread([a / b for a, b in zip(our_seconds, seconds)])
                if whole
                else None,
                "tokens_per_target_pass": n / sum(answer.passes for answer in answers),
                "same_texts": sum(one.ids == our.ids for one, our in zip(answers, ours)),
                "milliseconds_of_1_row": one and 1e3 * one,
                "milliseconds_of_all_rows": many and 1e3 * many,
                "cost_of_all_rows": one and many / one,
            }
        )
    return rows
