"""A step of building a wheel, which pyproject.toml names."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    """Puts the files of speculate/ beside the modules that they speak for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":  # in place of which pip install -e . has "editable"
            build_data["force_include"]["speculate"] = "/"
