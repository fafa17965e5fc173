"""Build hook: gives the wheel the namespace's `__init__.py` that the source tree must not have."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CloseNamespace(BuildHookInterface[Any]):
    """In the source tree four folders share `triolet`; an installed copy is one ordinary package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add `triolet/__init__.py` to standard builds; an editable install stays a namespace."""
        if version == "standard":
            build_data["force_include"]["tools/wheel_init.py"] = "triolet/__init__.py"
