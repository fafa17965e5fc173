"""Wrong kernels: what Code Mode lists, and what it lets out."""

from typing import Any

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.programs.report import Egress
from triolet.ports.language_model import ToolDeclaration


@kernel_mutant("CAP-014")
def lists_anything(patches: Patches) -> None:
    """Code Mode takes every tool, whatever it does and whoever has to be asked."""

    def every(_: Any) -> Any:
        return lambda name, listed: list({tool.name: tool for given in listed.values() for tool in given}.values())

    patches.wrap("triolet.kernel.programs.code_mode._checked", every)
    patches.wrap("triolet.kernel.programs.code_mode.Toolkit", lambda _: lambda tools: None)


@kernel_mutant("CAP-014")
def declares_anything(patches: Patches) -> None:
    """A schema that cannot be said is declared as unknown."""
    patches.wrap("triolet.kernel.programs.code_mode.type_of", always(("unknown", [])))


@kernel_mutant("CAP-014")
def hides_a_tool_behind_another(patches: Patches) -> None:
    """Two names that look alike become one."""
    patches.wrap("triolet.kernel.programs.identifiers._mark", always("x"))
    patches.wrap(
        "triolet.kernel.programs.code_mode.identifiers",
        lambda _: lambda names: {name: name.replace("-", "_") + "_1" for name in names},
    )


@kernel_mutant("CAP-014")
def shows_what_is_listed(patches: Patches) -> None:
    """A model is offered the listed tools as well."""

    def shown(original: Any) -> Any:
        def all_of_them(toolkit: Any) -> tuple[ToolDeclaration, ...]:
            own: tuple[ToolDeclaration, ...] = original(toolkit)
            inner = [each for tool in toolkit if tool.calls is not None for each in original(tool.calls)]
            return (*own, *inner)

        return all_of_them

    patches.wrap("triolet.ports.tools.Toolkit.declarations", shown)


@kernel_mutant("CAP-016")
def has_no_budget(patches: Patches) -> None:
    """Whatever a program says leaves its pass."""
    patches.wrap("triolet.kernel.programs.report._cut", lambda _: lambda text, dropped, room, **_: text)


@kernel_mutant("CAP-016")
def redacts_values_only(patches: Patches) -> None:
    """Logs and what is thrown are not redacted."""

    def values(original: Any) -> Any:
        def partly(egress: Egress, parts: Any) -> Any:
            redacted = original(egress, parts)
            return {**parts, "result": redacted["result"]} if "result" in parts else parts

        return partly

    patches.wrap("triolet.kernel.programs.report.Egress._redacted", values)


@kernel_mutant("CAP-016")
def tells_what_tools_said(patches: Patches) -> None:
    """The list of calls holds their results."""

    def telling(original: Any) -> Any:
        async def call(host: Any, wanted: Any) -> Any:
            reply = await original(host, wanted)
            host.made[-1] += f" {getattr(reply, 'value', '')}"
            return reply

        return call

    patches.wrap("triolet.kernel.programs.host.BrokerHost.call", telling)


PROGRAM_MUTANTS: tuple[Mutant, ...] = (
    lists_anything,
    declares_anything,
    hides_a_tool_behind_another,
    shows_what_is_listed,
    has_no_budget,
    redacts_values_only,
    tells_what_tools_said,
)
