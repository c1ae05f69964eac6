"""A mistake is switched on for everybody who holds the function, and switched off again."""

import pytest
from toys import tiny_model

import gpt2
import sampling
from experiments.proving.mistakes import MISTAKES, Mistake
from experiments.proving.patching import made


@pytest.mark.parametrize("name", MISTAKES)
def test_changes_the_code_and_gives_it_back(name):
    changes = MISTAKES[name].changes
    before = {function: function.__code__ for function in changes}
    with pytest.raises(KeyboardInterrupt), made(MISTAKES[name]):
        assert all(function.__code__ is not code for function, code in before.items())
        raise KeyboardInterrupt
    assert all(function.__code__ is code for function, code in before.items())


def test_code_that_moved_is_noticed():
    for piece in ("no such code", "draft"):  # neither none nor several
        with pytest.raises(LookupError, match="expected once"):
            with made(Mistake("", "", "", {sampling.verify: {piece: ""}})):
                pass


def test_everybody_who_holds_the_function_has_the_mistake():
    model, held = tiny_model(1), gpt2.Model.read
    with made(MISTAKES["whole-text-with-cache"]):
        cache = model.new_cache()
        held(model, [1, 2], cache), held(model, [1, 2, 3], cache)
        assert cache.length == 5
    cache = model.new_cache()
    held(model, [1, 2], cache), held(model, [1, 2, 3], cache)
    assert cache.length == 3
