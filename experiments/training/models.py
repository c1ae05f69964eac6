"""GPT-2 and the heads that draft for it (decoding/eagle.py, medusa.py) in PyTorch, to be trained.

They are made of transformers' parts. So their parameters have the names and shapes of the files.
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Block
from transformers.pytorch_utils import Conv1D

from checkpoints.folder import open_weights, read_config
from checkpoints.output import replace_atomically
from checkpoints.vocabulary import load_encoder
from decoding.streams import Purpose, stream
from experiments.training.grow import grow


def transformers_config(config):
    """Return the transformers.GPT2Config of a gpt2.Config."""
    return GPT2Config(
        vocab_size=config.n_vocab,
        n_positions=config.n_ctx,
        n_embd=config.n_embd,
        n_head=config.n_head,
        n_layer=config.n_layer,
        layer_norm_epsilon=config.epsilon,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=config.n_vocab - 1,
        eos_token_id=config.n_vocab - 1,
        architectures=["GPT2LMHeadModel"],
        dtype="float16",  # on disk
        attn_implementation="eager",  # at these shapes a fused attention is slower on a CPU
    )


# ---------------------------------------------------------------- models


class GPT2(GPT2LMHeadModel):
    """config: a gpt2.Config
    tensors: {name: array} as stored; without them, the weights are random
    """

    def __init__(self, config, tensors=None):
        super().__init__(transformers_config(config))
        if tensors:
            state = {name: torch.from_numpy(array) for name, array in tensors.items()}
            self.transformer.load_state_dict(state)

    def embed(self, ids, offset):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """Return the sums of token and position embeddings of a batch of texts.

        ids: a tensor of token ids; offset: the position of the first token, an int
        """
        positions = torch.arange(offset, offset + ids.shape[1])
        return self.transformer.wte(ids) + self.transformer.wpe(positions)

    def hidden(self, ids, offset=0):  # [batch, n_seq] -> [batch, n_seq, n_embd]
        """Return the output of the last block after the final norm.

        ids: a tensor of token ids; offset: the position of the first token, an int
        """
        positions = torch.arange(offset, offset + ids.shape[1])[None]
        output = self.transformer(ids, position_ids=positions, use_cache=False)
        return output.last_hidden_state

    def logits(self, hidden):  # [..., n_embd] -> [..., n_vocab]
        """Return the logits of hidden states, a float32 tensor, also in mixed precision."""
        return self.lm_head(hidden).float()

    def draft_logits(self, ids, offset, hidden, teacher):
        """Yield (0, logits [batch, n_seq, n_vocab]) once: of the next token at every position.

        ids: [batch, n_seq]; offset: the position of the first token
        hidden, teacher: not used; the heads, which are called in the same way, use them
        """
        yield 0, self.logits(self.hidden(ids, offset))


def seed_weights(seed):
    """Seed torch's global generator, which draws the weights of models made from now on."""
    torch.manual_seed(int(stream(Purpose.WEIGHTS, seed).generate_state(1)[0]))


def new_random_model(config, folder, seed):
    """Make a GPT2 with random weights, the sizes of a gpt2.Config and the vocabulary size of a
    model folder. Seeds torch's global generator. Raises InputError if there is no vocabulary.
    """
    seed_weights(seed)
    return GPT2(replace(config, n_vocab=load_encoder(folder).n_vocab))


def read_tensors(folder):
    """Read the parameters of a model folder: {name as stored: float32 array}. Raises InputError if
    its files are missing or damaged.
    """
    tensors = open_weights(folder, read_config(folder))
    return {name: tensor.read(np.float32) for name, tensor in tensors.items()}


def read_model(folder):
    """Read a model folder into a GPT2. Raises InputError if its files are missing or damaged."""
    return GPT2(read_config(folder), read_tensors(folder))


def read_grown_model(folder, layers, seed):
    """Read the model of a folder, and return a GPT2 twice as wide, with a little noise. Raises
    InputError if the files are missing or damaged.

    layers: the indices of the layers to keep, in order; seed: of the random numbers
    """
    config = read_config(folder)
    wide = replace(config, n_embd=2 * config.n_embd, n_head=2 * config.n_head, n_layer=len(layers))
    rng = np.random.default_rng(stream(Purpose.WEIGHTS, seed))
    return GPT2(wide, grow(read_tensors(folder), layers, rng, noise=0.02))


def write_tensors(module, path, **notes):
    """Write the parameters of a torch module to a safetensors file in float16, atomically.

    path: a Path. notes: strings for the file's metadata
    """
    halves = {name: tensor.half() for name, tensor in module.state_dict().items()}
    with replace_atomically(path) as part:
        part.write_bytes(save(halves, metadata={"format": "pt"} | notes))


def write_model(model, folder):
    """Write a GPT2 into a folder that exists, a Path, as Hugging Face stores GPT-2: config.json and
    model.safetensors (by write_tensors). The output head is not written, because it is the token
    embedding.
    """
    write_tensors(model.transformer, folder / "model.safetensors")
    model.config.save_pretrained(folder)


# ---------------------------------------------------------------- heads


class Eagle(nn.Module):
    """One block that guesses the target's next hidden state from the hidden state before and a
    token.

    When it drafts, it reads its own guesses, so it is trained on these as well: on a whole text at
    once, as if a draft began at every position. The i-th token of a draft attends to the text
    before the draft, with the target's hidden states, and then to the draft's own tokens.

    target: its gpt2.Config. n_embd, n_head: of the block
    n_draft_tokens: tokens of a draft in training; in use there may be more
    """

    def __init__(self, target, n_embd, n_head, n_draft_tokens=4):
        super().__init__()
        self.n_head, self.n_draft_tokens = n_head, n_draft_tokens
        block = GPT2Block(
            transformers_config(replace(target, n_embd=n_embd, n_head=n_head, n_layer=1))
        )
        self.fc, self.proj = Conv1D(n_embd, 2 * target.n_embd), Conv1D(target.n_embd, n_embd)
        self.h = nn.ModuleList([block])

    def draft_logits(self, ids, offset, hidden, teacher):
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 0, ..., n_draft_tokens - 1: what
        the head predicts for token i of drafts that begin at every position. Row j is to be like
        the target's logits at position i + j.

        ids: [batch, n_seq]; offset: the position of the first token
        hidden: [batch, n_seq, n_hidden], the target's hidden states
        teacher: the target, a GPT2, for its embeddings, final norm and output head
        """
        norm = teacher.transformer.ln_f
        embedded = teacher.embed(ids, offset)
        # the state before the first token: in use the cache holds 0 there, and Eagle.embed norms it
        nothing = norm(torch.zeros_like(hidden[:, :1]))
        keys, values = [], []  # guess_hidden appends those of each token of the draft
        for i in range(self.n_draft_tokens):
            hidden_before = torch.cat([nothing, hidden[:, :-1]], 1)
            hidden = norm(self.guess_hidden(hidden_before, embedded, keys, values))
            # what is guessed at the first i places belongs to drafts that began before the text
            yield i, teacher.logits(hidden[:, i:])

    def guess_hidden(self, hidden_before, embedded, keys, values):
        """Return a guess of the hidden state at every position, [batch, n_seq, n_hidden], before
        the norm. Appends to `keys` and `values`.

        hidden_before: [batch, n_seq, n_hidden], at the position before
        embedded: [batch, n_seq, n_hidden], of the tokens
        keys, values: lists of [batch, n_head, n_seq, d_head], an item for each earlier token of
            the drafts, so empty for the first
        """
        block = self.h[0]  # the only one
        x = self.fc(torch.cat([hidden_before, embedded], -1))
        qkv = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
        # [batch, n_seq, n_embd] -> [batch, n_head, n_seq, d_head]
        q, k, v = (part.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for part in qkv)
        keys.append(k)
        values.append(v)
        heads = self.attend(q, keys, values)
        x = x + block.attn.c_proj(heads.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.ln_2(x))
        return self.proj(x)

    def attend(self, q, keys, values):  # [batch, n_head, n_seq, d_head] -> the same
        """Return the output of attention, of every position to the text before its draft and to the
        tokens of its draft.

        q: the queries; keys, values: lists of [batch, n_head, n_seq, d_head], an item for each
            token of the draft so far
        """
        n_seq = q.shape[-2]
        n_before = len(keys) - 1  # tokens of the draft before this one
        ones = torch.ones(n_seq, n_seq, dtype=torch.bool)
        # Row i of the mask is for the token at position i. keys[0]: the text, up to where its draft
        # began
        masks = [ones.tril(-n_before)]
        # keys[1], keys[2], ...: one token of the draft each, n_back positions before this one
        for n_back in reversed(range(n_before)):
            masks.append(ones.tril(-n_back).triu(-n_back))
        mask = torch.cat(masks, -1)  # [n_seq, (n_before + 1) n_seq]
        return F.scaled_dot_product_attention(q, torch.cat(keys, 2), torch.cat(values, 2), mask)


class Medusa(nn.Module):
    """A head, which is a residual block, for each token of a draft, on the target's hidden state.

    target: its gpt2.Config
    """

    def __init__(self, target, n_heads):
        super().__init__()
        heads = (GPT2MLP(target.n_embd, transformers_config(target)) for _ in range(n_heads))
        self.heads = nn.ModuleList(heads)
        for head in self.heads:  # at first every head gives the target's own logits
            nn.init.zeros_(head.c_proj.weight)

    def draft_logits(self, ids, offset, hidden, teacher):
        """Yield (i, logits [batch, n_seq - i, n_vocab]) for i = 1, 2, ...: what head i predicts
        from the hidden state at every position. Row j, from position j, is to be like the target's
        logits at position i + j.

        hidden: [batch, n_seq, n_hidden], the target's hidden states. teacher: the target, a GPT2
        ids, offset: not used; they are there because Eagle.draft_logits has them
        """
        for i, head in enumerate(self.heads, 1):
            hidden_before = hidden[:, :-i].contiguous()  # Conv1D views it as a matrix
            yield i, teacher.logits(hidden_before + head(hidden_before))
