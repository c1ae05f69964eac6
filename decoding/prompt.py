"""A prompt: the token ids that a run continues, and where they came from."""

from dataclasses import dataclass

from checkpoints.files import InputError, SettingError


@dataclass(frozen=True)
class Prompt:
    """A text to continue. text is None where token ids were given."""

    number: int  # among several prompts, from 1; each has its own seed
    text: str | None
    ids: list
    seed: int

    @classmethod
    def of(cls, text, settings, pair, number=1):
        """The Prompt of a text; an empty one starts from <|endoftext|>. Raises InputError."""
        ids = encoded("prompt", text, pair.encoder) or [pair.encoder.end_of_text]
        if ids == [None]:
            problem = "'': expected text, as the vocabulary has no <|endoftext|> to begin with"
            raise SettingError("prompt", problem)
        return cls.of_ids(ids, settings, pair, text, number)

    @classmethod
    def of_ids(cls, ids, settings, pair, text=None, number=1):
        """The same for token ids."""
        longest = pair.target.config.n_ctx - 1
        if len(ids) > longest:
            expected = f"expected at most {longest}, the context less one; shorten it"
            raise InputError(f"prompt {number} has {len(ids)} tokens: {expected}")
        return cls(number, text, ids, settings.seed + number - 1)


def encoded(name, text, encoder):
    """The ids of a text that was given as the setting of that name."""
    try:
        return encoder.encode(text)
    except ValueError as error:
        raise SettingError(name, f"cannot be used: {error}") from None
