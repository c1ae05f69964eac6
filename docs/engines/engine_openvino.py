"""OpenVINO GenAI, for judge.py: continuous batching with a draft model, or prompt look-up."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import openvino
import openvino_genai as genai

VERSION = f"OpenVINO GenAI {genai.__version__}"
WAYS = {
    "draft": "draft_model",
    "lookup": "prompt_lookup",
    "plain": "without speculation, as a control",
}
TOGETHER = 5
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
EXACT |= {"INFERENCE_NUM_THREADS": 1}  # enough for models this small


def start(way, target, draft, K, folder):
    """Export the models of the folders `target` and `draft` into `folder`, and load them. Returns
    write(prompts, job, seed) -> (texts, passes of the target, 0 where it does not count them).

    way: one of WAYS
    K: most drafted tokens in a round
    """
    target, draft = (export(path, folder / path.name) for path in (target, draft))
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1  # GB
    more = {"prompt_lookup": True} if way == "lookup" else {}
    if way == "draft":
        more = {"draft_model": genai.draft_model(draft, "CPU", **EXACT)}
    pipeline = genai.ContinuousBatchingPipeline(target, scheduler, "CPU", EXACT | more)

    def write(prompts, job, seed):
        inputs = [openvino.Tensor(np.array([ids], np.int64)) for ids in prompts]
        settings = [set_up(way, K, job, seed * len(prompts) + i) for i in range(len(prompts))]
        results = pipeline.generate(inputs, settings)
        texts = [result.m_generation_ids[0] for result in results]
        metrics = results[0].extended_perf_metrics
        passes = metrics.main_model_metrics.raw_metrics.m_batch_sizes if metrics else []
        return texts, len(passes) * len(prompts)  # each reads all texts, and counts for each

    return write


def export(path, out):
    """Write the model of a folder to the folder `out`, as OpenVINO reads it, in float32. Returns
    `out` as a string.
    """
    command = [Path(sys.executable).parent / "optimum-cli", "export", "openvino", "--model", path]
    command += ["--task", "text-generation-with-past", "--weight-format", "fp32", out]
    subprocess.run(command, check=True, capture_output=True)
    return str(out)


def set_up(way, K, job, seed):
    """The settings for one text of a job, by one of WAYS, with at most K drafted tokens."""
    settings = genai.GenerationConfig()
    settings.max_new_tokens = job.n_tokens
    settings.ignore_eos = True
    settings.rng_seed = seed
    settings.do_sample = job.temperature > 0
    if settings.do_sample:
        settings.temperature = job.temperature
        settings.top_k = job.top_k
        settings.top_p = job.top_p
    if way != "plain":
        settings.num_assistant_tokens = K
    if way == "lookup":
        settings.max_ngram_size = 3
    return settings
