"""The suite of the ToolSource port."""

from typing import Final

from triolet.spec_tests.cases.tool_source.changing import CHANGING
from triolet.spec_tests.cases.tool_source.offering import OFFERING
from triolet.spec_tests.cases.tool_source.setting import Definition, ToolSourceSubject
from triolet.spec_tests.suite import Suite

__all__ = ["TOOL_SOURCE", "Definition", "ToolSourceSubject"]

TOOL_SOURCE: Final = Suite(
    port="tool-source",
    version=1,
    subject=ToolSourceSubject,
    verbs=("name", "requires", "changed", "snapshot"),
    cases=(*OFFERING, *CHANGING),
)
