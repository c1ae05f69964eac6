"""python main.py prove transformers: its generate with an assistant model, whole, on two GPT-2s.

The models are tiny, their weights random; all code between the prompt and the text is transformers'
own. What follows judges the rule alone, and the lossy one that an ensemble weight asks for:

    python main.py prove docs/referee/judge_transformers.py:rule
    python main.py prove docs/referee/judge_transformers.py:ensemble
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from proof.cases import Case, Model, Text, filtered
from proof.prove import prove

try:
    import torch
    import transformers
    from transformers.generation.utils import _speculative_sampling
except ImportError:
    transformers = None

PROMPT = (0, 2)
SETTINGS: dict[str, dict[str, Any]] = {
    "temperature 1": dict(),
    "temperature 0.5": dict(temperature=0.5),
    "top_k 2": dict(top_k=2),
    "EOS": dict(eos_token_id=1),
    "assistant_confidence_threshold 0.5": dict(assistant_confidence_threshold=0.5),
}


def referee(settings: dict[str, dict[str, Any]] = SETTINGS) -> list[dict[str, Any]]:
    """Judge generate in each setting. Returns a result of `prove` for each.

    settings: {its name in the result: arguments of `judge`}
    Raises ValueError without torch and transformers.
    """
    need_transformers()
    gpt2s = tiny_gpt2(1), tiny_gpt2(2)
    case = Case("two tiny GPT-2s", *map(as_table, gpt2s), K=2, n_tokens=3, prompt=PROMPT)
    return [judge(name, *gpt2s, case, **given) for name, given in settings.items()]


def need_transformers() -> None:
    if transformers is None:
        how = "pip install --group referee, with pip 25.1 or newer"
        raise ValueError(f"expected torch and transformers: {how}")
    transformers.logging.set_verbosity_error()


def judge(
    setting: str,
    target_model: Any,
    assistant: Any,
    case: Case,
    temperature: float = 1.0,
    top_k: int = 0,
    eos_token_id: int | None = None,
    assistant_confidence_threshold: float = 0.0,
) -> dict[str, Any]:
    """Judge generate with two models of transformers. Returns the result of `prove`.

    setting: what the result's name says about the arguments below
    case: the same models as tables, to compute what is right
    temperature, top_k, eos_token_id: of generate
    assistant_confidence_threshold: of the assistant, whose generation_config is changed
    """

    # target and draft_model, those of `prove`, are tables: the two models are read in their place
    def generate(target, draft_model, ids, n_tokens, K, end=None):
        def count(*_):
            target.passes += 1

        assistant.generation_config.update(
            num_assistant_tokens=K,
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=assistant_confidence_threshold,
        )
        counting = target_model.register_forward_hook(count)
        prompt = torch.tensor([ids])
        text = target_model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            assistant_model=assistant,
            do_sample=True,
            max_new_tokens=n_tokens,
            temperature=temperature,
            top_k=top_k,
            eos_token_id=end,
            pad_token_id=end,  # the assistant does not see another one in the prompt
        )
        counting.remove()
        return text[0, len(ids) :].tolist()

    name = f"generate of transformers {transformers.__version__} with an assistant, {setting}"
    case = replace(case, end=eos_token_id)
    return prove(generate, [case], name, filtered(temperature, top_k))


def tiny_gpt2(seed: int) -> Any:
    """A GPT-2 with a vocabulary of three tokens and random weights."""
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=3,
        n_positions=16,
        n_embd=8,
        n_layer=1,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.5,  # far from equal probabilities
    )
    return transformers.GPT2LMHeadModel(config).eval()


def as_table(model: Any) -> Model:
    """The model as `prove` reads it: text after the prompt -> [n_vocab]."""

    @lru_cache(None)
    def row_after(text: Text) -> np.ndarray:
        with torch.no_grad():
            logits = model(torch.tensor([[*PROMPT, *text]])).logits[0, -1]
        return logits.double().softmax(-1).numpy()

    return row_after


def rule(draft, p, q, weight=None):
    """A round of generate, given the rows of both models. Returns the accepted tokens and one more.

    weight: assistant_ensemble_weight; None judges no ensemble
    """
    log = lambda rows: torch.tensor(rows).log()[None]
    ids = torch.tensor([draft], dtype=torch.long)
    tokens, _ = _speculative_sampling(ids, log(q), len(draft), log(p), weight)
    return tokens[0].tolist()


def ensemble(draft, p, q):
    """A round with assistant_ensemble_weight: lossy, as its documentation says."""
    return rule(draft, p, q, weight=0.7)
