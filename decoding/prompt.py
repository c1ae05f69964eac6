"""A prompt: the token ids that a run continues, their text, and the seed."""

from dataclasses import dataclass

from checkpoints.errors import InputError, SettingError


@dataclass(frozen=True)
class Prompt:
    """A text to continue. text is None if the user gave token ids."""

    number: int  # among several prompts, from 1; each has its own seed
    text: str | None
    ids: list  # of int
    seed: int

    @classmethod
    def from_text(cls, text, pair, seed, number=1):
        """Make the Prompt of a text for a Pair, with seed + number - 1 as its seed. An empty text
        becomes <|endoftext|>. Raises InputError if the text has too many tokens or cannot be
        encoded.
        """
        ids = encode_setting("prompt", text, pair.encoder) or [pair.encoder.end_of_text]
        if ids == [None]:  # the text is empty, and the encoder has no end of text
            problem = "'': expected text, as the vocabulary has no <|endoftext|> to begin with"
            raise SettingError("prompt", problem)
        return cls.from_ids(ids, pair, seed, text, number)

    @classmethod
    def from_ids(cls, ids, pair, seed, text=None, number=1):
        """Make the Prompt of [id] for a Pair, with seed + number - 1 as its seed. text: that of the
        ids, if it is known. Raises InputError if the ids leave no room in the target's context.
        """
        max_tokens = pair.target.config.n_ctx - 1
        if len(ids) > max_tokens:
            expected = f"expected at most {max_tokens}, the context less one; shorten it"
            raise InputError(f"prompt {number} has {len(ids)} tokens: {expected}")
        return cls(number, text, ids, seed + number - 1)


def encode_setting(name, text, encoder):
    """Encode the text of the setting `name` to [id]. Raises SettingError if it has no ids."""
    try:
        return encoder.encode(text)
    except ValueError as error:
        raise SettingError(name, f"cannot be used: {error}") from None
