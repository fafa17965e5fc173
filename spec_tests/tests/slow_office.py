"""An office in which every port lets other tasks run before it acts and before its caller hears of it.

So each await of the kernel is one at which a run can be interrupted, with the effect done or not. It starts no task.
"""

import inspect
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from tests.approval_world import Office
from triolet.adapters.clocks import TrioClock
from triolet.kernel import Agent, Capabilities, Kernel, open_kernel
from triolet.ports.authorizer import Allow
from triolet.ports.language_model import LanguageModel


class Slow:
    """Any port, with a checkpoint on both sides of each of its verbs."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._port, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def slowly(*args: Any, **kwargs: Any) -> Any:
            await trio.lowlevel.checkpoint()
            answer = await verb(*args, **kwargs)
            await trio.lowlevel.checkpoint()
            return answer

        return slowly


class _AllowsAll:
    async def authorize(self, action: object, principal: object) -> Allow:
        return Allow()


class SlowOffice(Office):
    """An office with all of its ports bound, and each of them slow."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = TrioClock(1_000_000)  # type: ignore[arg-type]  # any instant will do

    def kernel(
        self, *agents: Agent[Any, Any], model: LanguageModel | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Kernel]:
        """A kernel over this office. The model is as it is; `Paced` is a slow one."""
        ports: dict[str, Any] = {
            "conversations": self.store,
            "approval": self.desk,
            "authorizer": _AllowsAll(),
            "inbox": self.inbox,
            "inputs": self.inputs,
            **self.ports,
        }
        slow: dict[str, Any] = {
            name: tuple(map(Slow, port)) if isinstance(port, tuple) else Slow(port) for name, port in ports.items()
        }
        bound = Capabilities(model=model, clock=self.clock, ids=self.ids, **slow)
        return open_kernel(agents=agents, capabilities=bound, **options)
