"""python main.py prove gemma4: generate of transformers with a Gemma 4 assistant, which reads the
target's hidden states and keys and values. Both models are tiny, their weights random.
"""

from functools import lru_cache

from judge_transformers import PROMPT, as_table, judge, need_transformers, torch, transformers

from proof.cases import Case


def referee() -> list[dict]:
    """The results of `prove` for a tiny Gemma 4 with its assistant, in transformers' generate."""
    need_transformers()
    target, assistant = tiny_gemma4()

    @lru_cache(None)
    def first_draft(text):
        """The assistant's distribution for the first drafted token after a text."""
        ids = torch.tensor([[*PROMPT, *text]])
        with torch.no_grad():
            read = target(ids[:, :-1], output_hidden_states=True, return_shared_kv_states=True)
            last_token = target.get_input_embeddings()(ids[:, -1:])
            logits = assistant(
                inputs_embeds=torch.cat([last_token, read.hidden_states[-1][:, -1:]], dim=-1),
                position_ids=torch.tensor([[ids.shape[1] - 1]]),
                shared_kv_states=read.shared_kv_states,
            ).logits
        return logits[0, -1].double().softmax(-1).numpy()

    case = Case("K = 1", as_table(target), first_draft, K=1, n_tokens=3, prompt=PROMPT)
    return [judge("Gemma 4", target, assistant, case)]


def tiny_gemma4():
    """A Gemma 4 with a vocabulary of three tokens, and an assistant for it. Seeds torch."""

    def config(**shared):
        return transformers.Gemma4TextConfig(
            vocab_size=3,
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=2,
            layer_types=["sliding_attention", "full_attention"],
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=4,
            global_head_dim=4,
            hidden_size_per_layer_input=0,
            vocab_size_per_layer_input=0,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            initializer_range=0.5,  # far from equal probabilities
            **shared,
        )

    torch.manual_seed(3)
    target = transformers.Gemma4ForCausalLM(config())
    # both of its layers take their keys and values from the target
    assistant_config = transformers.Gemma4AssistantConfig(
        text_config=config(num_kv_shared_layers=2), backbone_hidden_size=8
    )
    return target.eval(), transformers.Gemma4AssistantForCausalLM(assistant_config).eval()
