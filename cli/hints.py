"""What a mistyped command or flag may stand for: our names for the words of other programs."""

import difflib

from checkpoints.errors import InputError

# {our name: what llama.cpp, transformers, vLLM, gpt-fast and the papers call it}
OTHER_NAMES = {
    "K": "gamma draft_max draft_n n_draft num_draft_tokens spec_draft_n_max num_speculative_tokens "
    "speculate_k num_assistant_tokens lookahead",
    "n_tokens_to_generate": "n n_predict max_tokens max_new_tokens num_tokens max_length",
    "length": "n_tokens_to_generate max_tokens max_new_tokens",  # of the console
    "target_model_size": "m model model_path checkpoint_path",
    "draft_model_size": "md model_draft draft drafter assistant_model speculative_model "
    "approx_model speculative_config spec_type prompt_lookup_num_tokens ngram eagle medusa",
    "draft_confidence": "draft_p_min assistant_confidence_threshold",
    "verification": "verify rejection_sample_method acceptance_method",
    "temperature": "t greedy do_sample",
    "seed": "s",
    "prompts": "f file prompt_file input",
    "models_dir": "model_dir",
    "backend": "gpu device cuda n_gpu_layers ngl",
    "dtype": "fp16 float16 precision",
    "kernels": "threads n_threads",
    "exact": "deterministic",
    "batch_size": "parallel max_num_seqs",
    "cluster": "dask workers",
    "report": "html",
    "out": "output output_file",
    "generate": "run complete",
    "chat": "interactive console repl shell",
    "play": "live page web ui demo server",
    "mistakes": "museum bugs",
    "benchmark": "measure evaluate",
    "download": "fetch get pull",
    "check": "doctor verify",
    "export": "convert",
}


def close_names(word, names):
    """A list of up to four of our `names` that a mistyped word may stand for; [] if none is close.
    Dashes, underscores and case do not count. A name of another program (OTHER_NAMES) counts as
    ours. The list holds the first of these kinds that there is:

    - the name that is equal to the word
    - names with a part that begins with the word: "tok" for n_tokens_to_generate
    - names with a similar spelling
    - names with which the word begins or ends: "stop_token" for stop

    >>> close_names("--Temp", ["--top_k", "--temperature"])
    ['--temperature']
    >>> close_names("--max-new-tokens", ["--n_tokens_to_generate"])
    ['--n_tokens_to_generate']
    """
    typed = normalized(word)
    if not typed:
        return []
    own = {normalized(name): name for name in names}
    others = {other: name for name in names for other in names_elsewhere(name)}
    # {spelling: our name}; own stands first for the order, and last to win over an equal spelling
    name_of = own | others | own
    if typed in name_of:
        return [name_of[typed]]
    beginning = [known for known in name_of if f"_{typed}" in f"_{known}"]
    similar = difflib.get_close_matches(typed, name_of, cutoff=0.75)
    contained = [
        known for known in name_of if typed.startswith(f"{known}_") or typed.endswith(f"_{known}")
    ]
    # each name once, and not too many
    return list(dict.fromkeys(name_of[known] for known in beginning or similar or contained))[:4]


def normalized(name):
    """A name in lower case, with underscores inside, without the dashes of a flag and the slash of
    a command in chat.

    >>> normalized("--Top-K")
    'top_k'
    """
    return name.strip("-/").replace("-", "_").lower()


def names_elsewhere(name):
    """The list of names that other programs have for this command or flag of ours."""
    return OTHER_NAMES.get(name.strip("-/"), "").split()


def unknown_message(kind, word, names, expected=""):
    """The error message (str) for a word that is none of `names`, a list of str. It lists the close
    names; if there is none, it says the text `expected`, or lists all names.

    kind: what the word should be: "command", "flag" or "argument"
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
