"""The same weights in this project and in the programs people would run instead.

A program is made from (target folder, draft folder or None, K). `ways` gives the decoders it has,
{name: function (ids, n) -> Answer}; row_seconds(past, ids) the seconds of a pass over ids after the
past, and is None where a program has no pass over several rows. Making one raises ImportError where
it is not installed.
"""

import json
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import requests

import utils
from backends.blas import N_THREADS
from experiments.decoding.decoders import decode
from sampling import Filter


@dataclass(frozen=True)
class Answer:
    """The new ids, and how many passes of the target wrote them."""

    ids: list
    passes: int


def versions(*packages):
    """What stands beside every figure."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


class Ours:
    name = "this project"

    def __init__(self, target, draft, K):
        backend = utils.get_backend()
        self.model = utils.load_model(target, backend)
        self.draft = utils.load_model(draft, backend) if draft else None
        self.K, self.cache = K, self.model.new_cache()
        self.version = versions("numpy")

    def generate(self, ids, n, decoder="autoregressive"):
        how = {"K": self.K, "filter": Filter(), "seed": 0}
        rounds = list(decode(decoder, self.model, self.draft, ids, n, **how))
        return Answer([int(token) for one in rounds for token in one.tokens], len(rounds) - 1)

    def ways(self):
        ways = {"plain": self.generate}
        if self.draft:
            name = f"speculative, K = {self.K}"
            ways[name] = lambda ids, n: self.generate(ids, n, "speculative")
        return ways

    def row_seconds(self, past, ids):
        self.cache.length = 0
        self.model.read(past, self.cache)
        begin = time.perf_counter()
        self.model.read(past + ids, self.cache, n_last=len(ids))
        return time.perf_counter() - begin


class Transformers:
    name = "transformers"

    def __init__(self, target, draft, K):
        import torch
        import transformers

        torch.set_num_threads(N_THREADS)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.torch, self.K, self.version = torch, K, versions("transformers", "torch")

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

    def generate(self, ids, n, assistant=None):
        prompt = self.torch.tensor([ids])
        self.passes = 0
        with self.torch.no_grad():
            found = self.model.generate(prompt, max_new_tokens=n, assistant_model=assistant)
        return Answer(found[0, len(ids) :].tolist(), self.passes)

    def ways(self):
        ways = {"plain": self.generate}
        if self.draft:
            ways[f"assisted, K = {self.K}"] = lambda ids, n: self.generate(ids, n, self.draft)
        return ways

    def row_seconds(self, past, ids):
        past, ids = self.torch.tensor([past]), self.torch.tensor([ids])
        with self.torch.no_grad():
            cache = self.model(past, use_cache=True).past_key_values
            begin = time.perf_counter()
            self.model(ids, past_key_values=cache, use_cache=True)
            return time.perf_counter() - begin


class OpenVINO:
    name = "OpenVINO GenAI"
    row_seconds = None

    def __init__(self, target, draft, K):
        import openvino
        import openvino_genai

        from experiments.engines.openvino_folder import write_openvino

        self.openvino, self.genai, self.K = openvino, openvino_genai, K
        self.version = versions("openvino-genai")
        exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        options = exact | {"INFERENCE_NUM_THREADS": N_THREADS}
        with tempfile.TemporaryDirectory() as folder:
            write_openvino(target, f"{folder}/target")
            self.plain = self.genai.LLMPipeline(f"{folder}/target", "CPU", **options)
            self.pair = None
            if draft:
                write_openvino(draft, f"{folder}/draft")
                draft_model = self.genai.draft_model(f"{folder}/draft", "CPU", **options)
                scheduler = self.genai.SchedulerConfig()
                scheduler.cache_size = 1  # GB
                options |= {"draft_model": draft_model, "scheduler_config": scheduler}
                self.pair = self.genai.LLMPipeline(f"{folder}/target", "CPU", **options)

    def settings(self, n):
        settings = self.genai.GenerationConfig()
        settings.max_new_tokens, settings.ignore_eos, settings.do_sample = n, True, False
        return settings

    def ask(self, pipeline, ids, settings):
        return pipeline.generate(self.openvino.Tensor(np.array([ids])), settings)

    def generate(self, ids, n):
        found = self.ask(self.plain, ids, self.settings(n))
        return Answer(list(found.tokens[0]), n)

    def speculative(self, ids, n):
        settings = self.settings(n)
        settings.num_assistant_tokens = self.K
        found = self.ask(self.pair, ids, settings)
        target = found.extended_perf_metrics.main_model_metrics
        return Answer(list(found.tokens[0]), len(target.raw_metrics.m_durations))

    def ways(self):
        ways = {"plain": self.generate}
        if self.pair:
            ways[f"speculative, K = {self.K}"] = self.speculative
        return ways


class CTranslate2:
    name = "CTranslate2"
    row_seconds = None

    def __init__(self, target, draft, K):
        import ctranslate2
        import transformers  # noqa: F401, its converter needs it

        ctranslate2.set_log_level(40)  # errors only
        self.version = versions("ctranslate2")
        vocabulary = json.loads((Path(target) / "vocab.json").read_bytes())
        self.symbols = {i: symbol for symbol, i in vocabulary.items()}
        converter = ctranslate2.converters.TransformersConverter(str(target))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model"
            converter.convert(path, quantization="float32")
            options = {"compute_type": "float32", "intra_threads": N_THREADS}
            self.generator = ctranslate2.Generator(path, **options)

    def generate(self, ids, n):
        found = self.generator.generate_batch(
            [[self.symbols[i] for i in ids]],
            max_length=n,
            min_length=n,
            end_token=[],
            include_prompt_in_result=False,
        )
        return Answer(found[0].sequences_ids[0], n)

    def ways(self):
        return {"plain": self.generate}


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, target, draft, K):
        import llama_cpp

        from experiments.engines.gguf_file import write_gguf

        self.version = versions("llama-cpp-python")
        options = {
            "n_ctx": 0,
            "n_threads": N_THREADS,
            "n_threads_batch": N_THREADS,
            "use_mmap": False,
            "verbose": False,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.gguf"
            write_gguf(Path(target), path)
            # one computes the logits of the last row of a pass, the other those of all rows
            self.last = llama_cpp.Llama(path, logits_all=False, **options)
            self.every = llama_cpp.Llama(path, logits_all=True, **options)

    def generate(self, ids, n):
        return Answer(list(islice(self.last.generate(ids, temp=0.0), n)), n)

    def ways(self):
        return {"plain": self.generate}

    def row_seconds(self, past, ids):
        self.every.reset()
        self.every.eval(past)
        begin = time.perf_counter()
        self.every.eval(ids)
        return time.perf_counter() - begin


class LlamaServer:
    name = "llama.cpp's server"
    row_seconds = None

    def __init__(self, target, draft, K):
        import xllamacpp

        from experiments.engines.gguf_file import write_gguf

        self.llama, self.K = xllamacpp, K
        # a wheel is compiled for many machines: say which instructions it uses on this one
        system = xllamacpp.get_system_info().replace(" = 1", "").strip("CPU :|")
        self.version = f"{versions('xllamacpp')} ({system})"
        with tempfile.TemporaryDirectory() as folder:
            target_file, draft_file = f"{folder}/target.gguf", f"{folder}/draft.gguf"
            write_gguf(Path(target), target_file)
            self.servers = {"plain": self.start(target_file)}
            if draft:
                write_gguf(Path(draft), draft_file)
                self.servers[f"speculative, K = {K}"] = self.start(target_file, draft_file)

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

    def generate(self, server, ids, n):
        request = {"prompt": ids, "n_predict": n, "temperature": 0, "ignore_eos": True}
        request |= {"return_tokens": True, "cache_prompt": False}
        address = f"{server.listening_address}/completion"
        found = requests.post(address, json=request, timeout=600).json()
        return Answer(found["tokens"], n - found["timings"].get("draft_n_accepted", 0))

    def ways(self):
        return {name: partial(self.generate, server) for name, server in self.servers.items()}


PROGRAMS = {
    "ours": Ours,
    "transformers": Transformers,
    "openvino": OpenVINO,
    "ctranslate2": CTranslate2,
    "llama_cpp": LlamaCpp,
    "llama_server": LlamaServer,
}
