"""What a mistyped command or flag may stand for: our names for the words of other programs."""

import difflib

from checkpoints.errors import InputError

# {our name: what llama.cpp, transformers, vLLM, gpt-fast and the papers call it}
OTHER_NAMES = {
    "K": "gamma draft_max draft_n n_draft num_speculative_tokens speculate_k num_assistant_tokens",
    "n_tokens_to_generate": "n_tokens max_tokens max_new_tokens n_predict num_tokens length",
    "target_model_size": "model target target_model checkpoint_path",
    "draft_model_size": "draft draft_model model_draft assistant_model speculative_model",
    "draft_confidence": "draft_p_min assistant_confidence_threshold",
    "temperature": "temp t",
    "backend": "gpu device cuda n_gpu_layers ngl",
    "kernels": "threads n_threads",
    "prompts": "file prompt_file input",
    "out": "output output_file",
    "play": "live page serve server",
    "chat": "interactive console repl",
    "check": "doctor verify",
    "benchmark": "measure",
}


def close_names(word, names):
    """The names that a mistyped word may stand for, best first, as a list; [] if none is close.

    Dashes, underscores and case do not count, and a beginning is enough.

    >>> close_names("--Temp", ["--top_k", "--temperature"])
    ['--temperature']
    >>> close_names("--max-new-tokens", ["--n_tokens_to_generate"])
    ['--n_tokens_to_generate']
    """
    by_normalized = {normalized(name): name for name in names}
    typed = normalized(word)
    if typed in by_normalized:
        return [by_normalized[typed]]
    if not typed:
        return []
    same_meaning = [name for name in names if typed in names_elsewhere(name)]
    completions = [name for known, name in by_normalized.items() if known.startswith(typed)]
    similar = difflib.get_close_matches(typed, by_normalized, cutoff=0.75)
    # the first of these lists that is not empty
    return same_meaning or completions or [by_normalized[known] for known in similar]


def normalized(name):
    """A name in lower case, without dashes around it, and with underscores inside.

    >>> normalized("--Top-K")
    'top_k'
    """
    return name.strip("-/").replace("-", "_").lower()


def names_elsewhere(name):
    """The list of names that other programs have for this command or flag of ours."""
    return OTHER_NAMES.get(name.strip("-/"), "").split()


def unknown_message(kind, word, names, expected=""):
    """The error message for a word that is none of `names` (a list of str): it lists the close
    names; without any, the text `expected`, or all names. kind: "command", "flag" or "argument".
    """
    close = " or ".join(close_names(word, names))
    return f"unknown {kind} {word!r}: expected {close or expected or ', '.join(names)}"


def find_mistake(name):
    """Return the Mistake (of proving.mistakes) of that name. Raises InputError for an unknown name;
    the message lists close names, or all.
    """
    from proving.mistakes import MISTAKES, get_mistake  # here: only --mistake needs it

    close = close_names(name, MISTAKES)
    if close and name not in MISTAKES:
        raise InputError(f"mistake {name!r}: expected {' or '.join(close)}")
    return get_mistake(name)


def only_word(command, words):
    """The size or folder given after a command: the one item of `words`. Raises InputError for none
    or more. command: its name, for the message.
    """
    if len(words) != 1:
        given = " ".join([command, *words])
        raise InputError(f"{given}: expected one size or folder after {command}")
    return words[0]
