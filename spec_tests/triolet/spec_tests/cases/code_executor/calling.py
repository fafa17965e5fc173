"""Calls from a program: one at a time, as they were made, and typed when they fail. CAP-015, SEC-014."""

from typing import Final

import trio

from triolet.spec_tests.cases.code_executor.setting import BINDINGS, ExecutorSubject, Host, run, value_of
from triolet.spec_tests.claims import SpecViolation, ensure_equal
from triolet.spec_tests.definition import case


@case("CAP-015", needs=("javascript",))
async def calls_reach_what_they_name(subject: ExecutorSubject) -> None:
    """Each bound name reaches the host with its own argument, and the program gets the answer."""
    host = Host()
    source = (
        "async () => [await files.read({a: [1, 'x', null]}), await notes.read({}), await notes.read(),"
        " Object.keys(files).join()]"
    )
    value = await value_of(subject, source, host)
    ensure_equal(value, [{"a": [1, "x", None]}, {}, {}, ",".join(BINDINGS[0].names)], "the value")
    expected = [("files", "read", '{"a":[1,"x",null]}'), ("notes", "read", "{}"), ("notes", "read", "{}")]
    ensure_equal(host.made, expected, "what reached the host")


@case("CAP-015", needs=("javascript",))
async def parallel_calls_are_queued(subject: ExecutorSubject) -> None:
    """Calls that a program makes at once reach the host one at a time, in their order."""
    host = Host()
    source = "async () => Promise.all([0, 1, 2, 3, 4].map((n) => files.read({n})))"
    value = await value_of(subject, source, host)
    ensure_equal(value, [{"n": n} for n in range(5)], "the answers in their places")
    ensure_equal([arguments for _, _, arguments in host.made], [f'{{"n":{n}}}' for n in range(5)], "the calls in order")
    ensure_equal(host.most, 1, "calls under way at once")


@case("CAP-015", needs=("javascript",))
async def a_failed_call_rejects_with_its_envelope(subject: ExecutorSubject) -> None:
    """A call that fails rejects with a `ToolError` that carries the envelope; caught, the program goes on."""
    source = (
        "async () => { try { await files.fail({}) } catch (e) {"
        " return [e instanceof ToolError, e instanceof Error, e.tag, e.message, e.envelope.payload,"
        " await files.read({on: 1})] } }"
    )
    value = await value_of(subject, source)
    ensure_equal(value, [True, True, "failure", "there is no such file", {"name": "a"}, {"on": 1}], "what was caught")


@case("CAP-015", needs=("javascript",))
async def what_the_host_raises_ends_the_pass(subject: ExecutorSubject) -> None:
    """An exception of the host is not the program's to catch: the pass ends and the exception passes."""

    class HostBroke(Exception):
        """The host's own."""

    try:
        await run(subject, "async () => { try { await files.read({}) } catch (e) {} }", Host(raises=HostBroke()))
    except HostBroke:
        return
    raise SpecViolation(problem="what a host raised did not come out of the pass")


@case("CAP-015", needs=("javascript",))
async def a_call_holds_nothing_else_up(subject: ExecutorSubject) -> None:
    """While a tool runs, the host makes progress, and another pass of the same executor starts and ends."""
    ran: list[object] = []

    async def another() -> None:
        if not ran:
            ran.append(None)
            with trio.fail_after(5):
                ran[0] = await value_of(subject, "async () => 5")

    await run(subject, "async () => { await files.read({}) }", Host(on_call=another))
    ensure_equal(ran, [5], "the value of a pass inside of a call of another")


@case("SEC-014", needs=("javascript",))
async def no_call_is_forged(subject: ExecutorSubject) -> None:
    """Nothing that a program does to its realm makes a call that it was not given, or answers one itself."""
    host = Host()
    source = """async () => {
      const seen = [];
      for (const name of Object.getOwnPropertyNames(globalThis)) if (/bridge|host|pending|settle|manifest/i.test(name)) seen.push(name);
      Object.prototype.__defineSetter__('tool', function () { seen.push('tool') });
      Object.prototype.id = 999;
      Array.prototype.push = function () { seen[0] = 'pushed'; };
      Promise.prototype.then = (function (then) { return function (...a) { return then.apply(this, a) } })(Promise.prototype.then);
      JSON.parse = () => 'forged'; JSON.stringify = () => '{"forged":true}';
      String.prototype.charCodeAt = () => 65;
      Reflect.apply = () => 'forged';
      Function.prototype.call = Function.prototype.apply = () => 'forged';
      globalThis.Promise = class {}; globalThis.Error = class {};
      try { files.read = files.fail } catch (e) {}
      try { globalThis.files = {read: () => 'forged'} } catch (e) {}
      try { delete globalThis.files } catch (e) {}
      try { Object.defineProperty(files, 'read', {value: () => 'forged'}) } catch (e) {}
      try { files.__proto__ = {other: 1} } catch (e) {}
      return [seen.length, await files.read({right: 1}), typeof files.other, typeof files.constructor];
    }"""  # noqa: E501 -- a program
    value = await value_of(subject, source, host)
    ensure_equal(value, [0, {"right": 1}, "undefined", "undefined"], "what an attack on the bridge gets")
    ensure_equal(host.made, [("files", "read", '{"right":1}')], "what reached the host")


CALLING: Final = (
    calls_reach_what_they_name,
    parallel_calls_are_queued,
    a_failed_call_rejects_with_its_envelope,
    what_the_host_raises_ends_the_pass,
    a_call_holds_nothing_else_up,
    no_call_is_forged,
)
