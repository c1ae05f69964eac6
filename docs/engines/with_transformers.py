"""A pair of models in transformers, which reads their folders as they are.

python docs/engines/with_transformers.py models/17M models/0.7M-17M "Once upon a time"
"""

import json
import sys

try:
    target, draft, prompt = sys.argv[1:]
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ModuleNotFoundError as missing:
    sys.exit(f"error: {missing.name} is not installed: pip install --group engines")
except ValueError:
    sys.exit(f"expected: {__doc__.splitlines()[-1]}")

tokenizer = AutoTokenizer.from_pretrained(target)
model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
assistant = AutoModelForCausalLM.from_pretrained(draft, dtype=torch.float32)

# how far to draft is read from the draft's own settings
settings = assistant.generation_config
settings.num_assistant_tokens = 4
settings.num_assistant_tokens_schedule = "constant"  # or it changes from round to round
settings.assistant_confidence_threshold = 0  # or it stops early

# transformers does not say how often the target ran, so count
passes = []
model.register_forward_hook(lambda *_: passes.append(1))

inputs = tokenizer(prompt, return_tensors="pt")
texts = model.generate(**inputs, assistant_model=assistant, max_new_tokens=60, do_sample=False)
tokens = texts[0, inputs["input_ids"].shape[1] :].tolist()
print(json.dumps({"content": tokenizer.decode(tokens), "tokens": tokens, "passes": len(passes)}))
