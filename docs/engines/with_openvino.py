"""A pair of models in OpenVINO GenAI, from folders that `optimum-cli export openvino` wrote.

python docs/engines/with_openvino.py 17M-openvino 0.7M-17M-openvino "Once upon a time"
"""

import json
import sys

try:
    target, draft, prompt = sys.argv[1:]
    import openvino_genai as genai
except ModuleNotFoundError as missing:
    sys.exit(f"error: {missing.name} is not installed: pip install --group engines")
except ValueError:
    sys.exit(f"expected: {__doc__.splitlines()[-1]}")

# float32 throughout, as here; without these OpenVINO may compute in less
exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
scheduler = genai.SchedulerConfig()
scheduler.cache_size = 1  # GB
draft_model = genai.draft_model(draft, "CPU", **exact)
pair = {"draft_model": draft_model, "scheduler_config": scheduler}
pipeline = genai.LLMPipeline(target, "CPU", **pair, **exact)

settings = genai.GenerationConfig()
settings.max_new_tokens, settings.do_sample = 60, False
settings.num_assistant_tokens = 4

tokenizer = pipeline.get_tokenizer()
results = pipeline.generate(tokenizer.encode(prompt), settings)
tokens, metrics = list(results.tokens[0]), results.extended_perf_metrics
# how many tokens each pass of the target wrote; the first is the prefill
written = list(metrics.main_model_metrics.raw_metrics.m_batch_sizes)
print(json.dumps({"content": tokenizer.decode(tokens), "tokens": tokens, "written": written}))
