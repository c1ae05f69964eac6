"""From flags to values: the models to load, what decides a text, and the JSON object of a prompt.
Flags end here: the rooms below take values.
"""

from dataclasses import fields

from decoding.load import LoadedModels, ModelSpec
from decoding.run import GenerationConfig
from sampling import RULES, speculative


def spec_from(settings, target, drafts=()):
    """The ModelSpec of a target and its drafts, which are sizes or folders (str). settings: a
    cli.flags.Group; its flags that are fields of ModelSpec, such as --backend, are used.
    """
    flags = settings.as_dict()
    names = {field.name for field in fields(ModelSpec)} & flags.keys()
    return ModelSpec(target, tuple(drafts), **{name: flags[name] for name in names})


def pair_spec(settings):
    """The ModelSpec of the Settings of generate: a target, and a draft unless --mode needs none."""
    drafts = [settings.draft_model_size] if settings.speculates else []
    return spec_from(settings, settings.target_model_size, drafts)


def load_pair(settings, download=False):
    """Load the Pair of the Settings. download: fetch models that are missing. Raises InputError."""
    return pair_spec(settings).load(download=download).pair(settings.draft_model_size)


def config_from(settings):
    """The GenerationConfig of the Settings of generate: with --mistake, a wrong loop; with --rule,
    the reader's rule, whose module is imported, and so runs. Raises SettingError if that fails.
    """
    rule, loop = RULES[settings.rule_name], speculative
    if settings.rule:
        from proving.own_rule import load_rule  # here: a plain run does not need it

        rule = load_rule(settings.rule, settings.rule_name)
    if settings.mistake:
        from proving.mistakes import loop_with_mistake

        loop = loop_with_mistake(settings.mistake)
    return GenerationConfig(
        n_tokens=settings.n_tokens_to_generate,
        K=settings.K,
        to_probs=settings.to_probs,
        stop=settings.stop,
        confidence=settings.draft_confidence,
        coupled=settings.coupled,
        rule=rule,
        loop=loop,
    )


def kernels_in(settings, pair):
    """{size or folder, as in the Settings: {weight: kernel in words}} of the models of a Pair."""
    drafts = {settings.draft_model_size: pair.draft} if pair.draft else {}
    return pair_spec(settings).kernels_in(LoadedModels(pair.target, drafts, pair.encoder))


def json_of(settings, config, pair, prompt, summary, kernels):
    """The JSON object of a Prompt, as a dict: "settings", "kernels" and what `summary` holds. With
    --rule, measures the reader's rule and loop; raises SettingError if they fail.

    config, pair: the GenerationConfig and Pair of the settings; kernels: what kernels_in returned
    summary: the dict that decoding.metrics.summary returned, with the result of each decoder
    """
    flags = settings.as_json(prompt.text, prompt.seed, prompt.ids)
    json_object = {"settings": flags, "kernels": kernels} | summary
    if settings.rule:
        from proving.own_rule import measure_rule

        json_object |= measure_rule(settings.rule, settings.verification, config, pair, prompt)
    return json_object
