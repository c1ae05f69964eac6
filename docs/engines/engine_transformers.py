"""transformers, for judge.py: its generate with an assistant model, or with prompt look-up."""

import torch
import transformers
from transformers import AutoModelForCausalLM

VERSION = f"transformers {transformers.__version__}"
WAYS = {
    "draft": "assistant_model",
    "lookup": "prompt_lookup_num_tokens",
    "plain": "without speculation, as a control",
}
TOGETHER = 1  # its assisted generation takes no more


def start(way, target, draft, K, folder):
    """Load the models of the folders `target` and `draft`; `folder` is not needed. Returns
    write(prompts, job, seed) -> (texts, passes of the target), which seeds torch.

    way: one of WAYS
    K: most drafted tokens in a round
    """
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # enough for models this small
    model, assistant = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for path in (target, draft)
    )
    passes = []
    model.register_forward_hook(lambda *_: passes.append(1))
    drafting = {}
    if way == "draft":
        settings = assistant.generation_config
        settings.num_assistant_tokens = K
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0
        drafting = {"assistant_model": assistant}
    elif way == "lookup":
        drafting = {"prompt_lookup_num_tokens": K}

    def write(prompts, job, seed):
        sampling = {}
        if job.temperature > 0:
            sampling = dict(temperature=job.temperature, top_k=job.top_k, top_p=job.top_p)
        torch.manual_seed(seed)
        ids = torch.tensor(prompts)
        passes.clear()
        texts = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=job.n_tokens,
            do_sample=job.temperature > 0,
            **drafting,
            **sampling,
        )
        return texts[:, ids.shape[1] :].tolist(), len(passes)

    return write
