"""What a program finds around it: the language, its tools, a console, and nothing of the machine. SEC-014, SEC-010."""

import os
import socket
import tempfile
from pathlib import Path
from typing import Final

from triolet.spec_tests.cases.code_executor.setting import ExecutorSubject, Host, run, value_of
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

MARK: Final = "TRIOLET_ATTACK_MARK"

# Every way that one host or another of JavaScript has of reaching a thing; each is tried, and what it found told.
REACH: Final = """async () => {
  const found = [];
  const tries = {
    environment: [() => process.env.MARK, () => Deno.env.get('MARK'), () => std.getenv('MARK'), () => os.getenv('MARK'),
                  () => Bun.env.MARK],
    file: [async () => (await import('fs')).readFileSync('PATH', 'utf8'), () => require('fs').readFileSync('PATH', 'utf8'),
           async () => (await import('std')).loadFile('PATH'), () => std.loadFile('PATH'), () => read('PATH'),
           () => Deno.readTextFileSync('PATH'), async () => (await import('file://PATH')).default],
    network: [async () => (await fetch('http://127.0.0.1:PORT/', {signal: AbortSignal.timeout(300)})).status,
              async () => { const net = await import('net'); return new Promise((good, bad) => {
                const to = net.connect(PORT, '127.0.0.1', () => { to.destroy(); good('yes') });
                to.on('error', bad) }) },
              () => new XMLHttpRequest() && 'yes', () => new WebSocket('ws://127.0.0.1:PORT/') && 'yes'],
    process: [async () => (await import('child_process')).execSync('echo yes').toString(), () => os.exec(['true']),
              async () => (await import('os')).pid || (await import('os')).hostname(), () => Deno.run && 'yes'],
    timer: [() => setTimeout && 'yes', () => setInterval && 'yes', () => os.setTimeout && 'yes',
            () => queueMicrotask.call && performance.now() > 0 && 'yes'],
    escape: [() => [].constructor.constructor('return process.env.MARK')(),
             () => (async () => {}).constructor('return import("fs")')().then((fs) => fs.readFileSync('PATH', 'utf8')),
             () => new Error().constructor.constructor('return this')().process.pid,
             () => files.read.constructor('return process')().pid,
             () => Object.getPrototypeOf(files.read).constructor('return globalThis.process.pid')()],
  };
  for (const kind in tries) for (const attempt of tries[kind]) {
    try { const got = await attempt(); if (got !== undefined && got !== null && got !== false) found.push(kind) } catch (e) {}
  }
  return [...new Set(found)];
}"""  # noqa: E501 -- a program


@case("SEC-014", "SEC-010", needs=("javascript", "isolated"))
async def nothing_of_the_machine_is_reached(subject: ExecutorSubject) -> None:
    """Environment, files, network, processes, timers and modules are not there, by whatever name hosts have them."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        path = Path(folder) / "mark.txt"
        path.write_text(MARK, encoding="utf-8")
        os.environ[MARK] = MARK
        try:
            found = await value_of(subject, reach(path, listener.getsockname()[1]))
        finally:
            del os.environ[MARK]
        ensure_equal(found, [], "what an attack reaches")
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return
        ensure(False, "a program connected to a socket of its host")


def reach(path: Path, port: int) -> str:
    """The attack on one file and one port of this machine."""
    return REACH.replace("PATH", str(path)).replace("PORT", str(port)).replace("MARK", MARK)


@case("SEC-014", needs=("javascript",))
async def a_realm_holds_the_language_and_the_tools(subject: ExecutorSubject) -> None:
    """A program's global names are those of the language, its namespaces, `console` and `ToolError`."""
    names = await value_of(subject, "async () => Object.getOwnPropertyNames(globalThis)")
    ours = set(map(str, names)) if isinstance(names, list) else set[str]()
    odd = sorted(name for name in ours - _LANGUAGE if not name.endswith(("Array", "Error")))
    ensure_equal(odd, [], "global names that are neither the language's nor the tools'")


@case("SEC-014", needs=("javascript",))
async def values_that_act_stay_inside(subject: ExecutorSubject) -> None:
    """Getters, proxies and objects with methods leave as plain JSON, and run only inside."""
    host = Host()
    source = """async () => {
      const p = new Proxy({a: 1}, {get: (t, k) => k === 'a' ? 'seen' : t[k]});
      await files.read({
        p, get b() { return 'got' }, c() {}, d: undefined, e: NaN, f: new Date(0), g: new Map([[1, 2]]),
        __proto__: {inherited: 1},
      });
      return {p, toJSON() { return {by: 'itself'} }};
    }"""
    value = await value_of(subject, source, host)
    ensure_equal(value, {"by": "itself"}, "the value")
    told = '{"p":{"a":"seen"},"b":"got","e":null,"f":"1970-01-01T00:00:00.000Z","g":{}}'
    ensure_equal(host.made, [("files", "read", told)], "what reached the host")


@case("SEC-014", needs=("javascript",))
async def text_is_made_storable(subject: ExecutorSubject) -> None:
    """Lone surrogates and U+0000 from a program are replaced before anybody keeps them."""
    host = Host()
    source = "async () => { console.log('a\\ud800\\0'); await files.read({t: 'b\\udfff\\0'}); return 'c\\ud83d\\0' }"
    result = await run(subject, source, host)
    said = (result.logs, host.made[0][2], str(getattr(result.ending, "value", "")))
    ensure_equal(said, ("a\ufffd\ufffd\n", '{"t":"b\ufffd\ufffd"}', '"c\ufffd\ufffd"'), "logs, argument and value")


_LANGUAGE: Final = frozenset(
    """
Object Function Error Iterator Array Map Set WeakMap WeakSet WeakRef FinalizationRegistry Promise Proxy Reflect RegExp
JSON Math Date String Number Boolean Symbol BigInt ArrayBuffer DataView DOMException
DisposableStack AsyncDisposableStack parseInt parseFloat isNaN isFinite
decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape Infinity NaN undefined globalThis eval
queueMicrotask atob btoa
files notes console ToolError
""".split()  # noqa: SIM905 -- a list would take a line for each
)


CAGING: Final = (
    nothing_of_the_machine_is_reached,
    a_realm_holds_the_language_and_the_tools,
    values_that_act_stay_inside,
    text_is_made_storable,
)
