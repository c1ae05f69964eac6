"""What a run reads: passages of books, and what the teacher itself writes after passages of books.

A draft sees the target's texts when it is used, so it learns most from these. The batch of a step
depends on (seed, step) alone.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor
from transformers import DynamicCache

from backends.threads import ceil_div
from checkpoints.tokenizer import load_encoder
from cli.prompts import read_utf8
from decoding.streams import Purpose, stream
from encoder import END_OF_TEXT
from train.students import GPT2

OPENING = 32  # tokens of a book, which the teacher continues
READS = 4  # how often a text that the teacher has written is read, on average


def read_documents(corpus: str, split: str) -> list[str]:
    """The documents in a folder's files *_train.txt or *_valid.txt, which `split` names, sorted by
    name. A file is cut at each <|endoftext|>; blank pieces are left out, and of the others, the
    newlines at both ends. Raises ValueError without such a file.
    """
    paths = sorted(Path(corpus).glob(f"*_{split}.txt"))
    if not paths:
        raise ValueError(f"no *_{split}.txt in {corpus!r}: expected a folder of texts")
    text = f"\n{END_OF_TEXT}\n".join(map(read_utf8, paths))
    return [document.strip("\n") for document in text.split(END_OF_TEXT) if document.strip()]


def read_ids(corpus: str, split: str, folder: Path, least: int) -> Tensor:  # -> [n_ids]
    """The token ids of the texts in a folder's files *_train.txt or *_valid.txt, file after file.
    A text ends at <|endoftext|> or where its file ends; in the ids, each ends with <|endoftext|>.

    corpus: the folder of texts; split: "train" or "valid", which files
    folder: of a model or tokenizer, which has the vocabulary
    Raises ValueError without such a file, and for fewer than `least` tokens.
    """
    encoder = load_encoder(folder)
    ids: list[int] = []
    for document in read_documents(corpus, split):
        ids += encoder.encode(document) + [encoder.end_of_text]
    if len(ids) < least:
        raise ValueError(f"{corpus!r}: {len(ids)} {split} tokens; expected at least {least}")
    return torch.tensor(ids)


def version_of(*texts: Tensor) -> str:
    """The first 8 digits of the SHA-256 of ids, which tell texts from others."""
    return sha256(b"".join(ids.numpy().tobytes() for ids in texts)).hexdigest()[:8]


def generator(device: torch.device, purpose: Purpose, seed: int, *numbers: int) -> torch.Generator:
    """A torch.Generator on a device. Its random numbers depend on the other arguments, and are
    independent of those for other ones.
    """
    state = stream(purpose, seed, *numbers).generate_state(1)[0]
    return torch.Generator(device).manual_seed(int(state))


def passages(
    ids: Tensor, n_rows: int, n_seq: int, rng: torch.Generator
) -> Tensor:  # [n_ids] -> [n_rows, n_seq]
    """Cut passages of n_seq ids out of a text, at random places; they may overlap."""
    starts = torch.randint(len(ids) - n_seq + 1, (n_rows, 1), generator=rng, device=ids.device)
    return ids[starts + torch.arange(n_seq, device=ids.device)]  # by indices [n_rows, n_seq]


@torch.no_grad()
def continued(
    teacher: GPT2, openings: Tensor, n_seq: int, rng: torch.Generator | None = None
) -> Tensor:  # [n_rows, n_opening] -> [n_rows, n_seq]
    """Let a teacher continue texts, the openings, until they have n_seq tokens, the opening among
    them: sampled at temperature 1 with the generator `rng`, or greedily if that is None.
    """
    past = DynamicCache()
    text = openings
    unread = openings
    while text.shape[1] < n_seq:
        # versions of transformers have other names for the cache, the second argument
        read = teacher.transformer(unread, past, use_cache=True)
        logits = teacher.lm_head(read.last_hidden_state[:, -1])
        if rng:  # the argmax of logits + Gumbel noise is a sample
            logits = logits - torch.empty_like(logits).exponential_(generator=rng).log()
        unread = logits.argmax(-1, keepdim=True)
        text = torch.cat([text, unread], 1)
    return text


def written(
    teacher: GPT2, books: Tensor, n_sampled: int, n_greedy: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:  # [n_ids] -> [n_sampled, n_ctx], [n_greedy, n_ctx / 2]
    """Let a teacher continue passages of 32 tokens (OPENING) at random places of books: n_sampled
    of them sampled, to the end of its context, and n_greedy greedily, to its middle, as greedy
    texts repeat themselves soon. rng: makes all random choices
    """
    n_ctx = teacher.config.n_positions
    sampled = continued(teacher, passages(books, n_sampled, OPENING, rng), n_ctx, rng)
    greedy = continued(teacher, passages(books, n_greedy, OPENING, rng), n_ctx // 2)
    return sampled, greedy


def steps_of_books(
    books: Tensor, tokens_per_step: int, n_seq: int, seed: int, first: int, end: int
) -> Iterator[list[Tensor]]:
    """Yield for each of the steps first to end - 1 the list of its batches, which has one, as a
    target needs no more: passages [n_rows, n_seq] of books, about tokens_per_step tokens together,
    at random places that seed and step decide. books: [n_ids], the ids of a long text
    """
    for step in range(first, end):
        rng = generator(books.device, Purpose.PASSAGES, seed, step)
        yield [passages(books, max(1, tokens_per_step // n_seq), n_seq, rng)]


def steps_of_teacher(
    teacher: GPT2, books: Tensor, tokens_per_step: int, seed: int, first: int, end: int
) -> Iterator[list[Tensor]]:
    """Yield the batches of the steps first to end - 1, two for each step:

        [n_rows, n_ctx]        first texts that the teacher sampled at temperature 1 to the end of
                               its context, n_ctx, then as long passages of books
        [n_rows, n_ctx / 2]    texts that the teacher wrote greedily

    rows_of_a_step says how many rows. Whatever the teacher writes goes on from 32 tokens of books
    (OPENING). It writes before the first step, for all steps, a quarter of the rows that they read;
    each step draws its rows from these at random, so that each is read 4 times (READS) on average.

    books: [n_ids]; tokens_per_step: of both batches, about
    seed, first: decide what the teacher writes; seed and step what else is random
    """
    n_ctx = teacher.config.n_positions
    n_sampled, n_of_books, n_greedy = rows_of_a_step(tokens_per_step, n_ctx)
    n_steps = end - first
    n_to_sample = ceil_div(n_sampled * n_steps, READS)
    n_to_write_greedily = ceil_div(n_greedy * n_steps, READS)
    rng_of_texts = generator(books.device, Purpose.WRITTEN, seed, first)
    sampled, greedy = written(teacher, books, n_to_sample, n_to_write_greedily, rng_of_texts)
    for step in range(first, end):
        rng = generator(books.device, Purpose.PASSAGES, seed, step)
        by_teacher = drawn(sampled, n_sampled, rng)
        of_books = passages(books, n_of_books, n_ctx, rng)
        yield [torch.cat([by_teacher, of_books]), drawn(greedy, n_greedy, rng)]


def rows_of_a_step(tokens_per_step: int, n_ctx: int) -> tuple[int, int, int]:
    """How many texts of each kind steps_of_teacher reads in a step: (sampled, of books, greedy).
    The first two kinds have n_ctx tokens each and together two thirds of tokens_per_step, about;
    3 in 10 of these texts are of books, a fifth of all tokens or more. The last kind has n_ctx / 2
    tokens each and the other third.
    """
    n_long = max(2, round(tokens_per_step * 2 / 3 / n_ctx))
    n_of_books = round(0.3 * n_long)
    n_greedy = max(1, round(tokens_per_step / 3 / (n_ctx // 2)))
    return n_long - n_of_books, n_of_books, n_greedy


def drawn(rows: Tensor, n: int, rng: torch.Generator) -> Tensor:  # [n_rows, n_seq] -> [n, n_seq]
    """Draw n of the rows at random; one may come twice."""
    return rows[torch.randint(len(rows), (n,), generator=rng, device=rows.device)]
