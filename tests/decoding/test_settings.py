"""Settings: one validated dataclass, whose fields are flags of generate and keys of its JSON."""

import dataclasses

import pytest

import main
from experiments.cli.flags import flags_of
from experiments.data.values import SettingError
from experiments.decoding.settings import Settings

KEYS = """prompt n_tokens_to_generate draft_model_size target_model_size models_dir K
draft_confidence temperature top_k top_p coupled seed stop mode mistake stream trace report backend
dtype kernels exact""".split()


def test_the_keys_of_the_json_object_are_what_files_of_results_have(as_json):
    assert sorted(Settings().as_json("a", 1)) == sorted(KEYS)
    assert sorted(as_json("--n_tokens_to_generate=1")["settings"]) == sorted(KEYS)


def test_every_field_is_a_flag_and_has_its_default():
    flags = flags_of(main.generate)
    for field in dataclasses.fields(Settings):
        assert flags[field.name].default == field.default


def test_settings_cannot_be_changed_only_replaced():
    settings = Settings(seed=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.seed = 6
    assert (settings.replace(seed=6).seed, settings.seed) == (6, 5)


@pytest.mark.parametrize(
    "changes, name",
    [
        ({"K": 0}, "K"),
        ({"K": -1}, "K"),
        ({"n_tokens_to_generate": 0}, "n_tokens_to_generate"),
        ({"seed": -1}, "seed"),
        ({"draft_confidence": 1.01}, "draft_confidence"),
        ({"draft_confidence": float("nan")}, "draft_confidence"),
        ({"draft_confidence": 0.5, "coupled": True}, "draft_confidence"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"mode": "x"}, "mode"),
        ({"verification": "x"}, "verification"),
        ({"paths": 0}, "paths"),
        ({"paths": 17}, "paths"),
        ({"paths": 2}, "paths"),  # greedy
        ({"paths": 2, "temperature": 1.0, "top_k": 1}, "paths"),
        ({"paths": 2, "temperature": 1.0, "mode": "autoregressive"}, "paths"),
        ({"paths": 2, "draft_model_size": "ngram"}, "paths"),
        ({"paths": 2, "draft_model_size": "eagle"}, "paths"),
        ({"paths": 2, "draft_model_size": "medusa"}, "paths"),
        ({"paths": 2, "K": "auto"}, "paths"),
        ({"paths": 2, "draft_confidence": 0.5}, "paths"),
        ({"paths": 2, "coupled": True}, "paths"),
        ({"paths": 2, "mistake": "reseed"}, "paths"),
        ({"paths": 2, "rule": "exercises.mine"}, "paths"),
        ({"paths": 2, "trace": True}, "paths"),
        ({"paths": 2, "report": "x.html"}, "paths"),
        ({"draft_confidence": 0.1, "draft_model_size": "ngram"}, "draft_confidence"),
        ({"coupled": True, "verification": "block"}, "coupled"),
        ({"mistake": "reseed", "mode": "autoregressive"}, "mistake"),
        ({"mistake": "reseed", "coupled": True}, "mistake"),
        ({"mistake": "reseed", "trace": True}, "mistake"),
        ({"rule": "exercises.mine", "mistake": "reseed"}, "rule"),
        ({"rule": "exercises.mine", "coupled": True}, "rule"),
        ({"rule": "exercises.mine", "trace": True}, "rule"),
        ({"rule": "exercises.mine", "report": "x.html"}, "rule"),
        ({"rule": "exercises.mine", "mode": "autoregressive"}, "rule"),
        ({"trace": True, "mode": "autoregressive"}, "trace"),
        ({"report": "x.html", "mode": "autoregressive"}, "report"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(changes, name):
    for make in (lambda: Settings(**changes), lambda: Settings().replace(**changes)):
        with pytest.raises(SettingError, match=f"^--{name} .*expected") as caught:
            make()
        assert caught.value.name == name
        assert str(caught.value) == f"--{name} {caught.value.problem}"


def test_which_decoders_run():
    assert Settings().decoders == ("autoregressive", "speculative")
    assert Settings(mode="speculative").decoders == ("speculative",)
    assert not Settings(mode="autoregressive").speculates


@pytest.mark.parametrize("name", ["trace", "report", "coupled"])
def test_what_shows_or_compares_rounds_has_them_watched(name):
    assert Settings(**{name: "x.html" if name == "report" else True}).watched
    assert not Settings().watched
