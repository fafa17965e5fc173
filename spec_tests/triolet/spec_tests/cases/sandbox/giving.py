"""What gets in and what gets out: variables, secrets, files.

SEC-006, CAP-001.
"""

import os
import secrets

from triolet.ports.sandbox import Output, SecretVariable
from triolet.spec_tests.cases.sandbox.setting import SandboxSubject, python, request, run_python
from triolet.spec_tests.claims import ensure, ensure_equal, lever
from triolet.spec_tests.definition import case


@case("SEC-006")
async def nothing_of_the_host_environment_gets_in(subject: SandboxSubject) -> None:
    """A program finds the variables that its request sets, and none of the host's own."""
    name, value = f"TRIOLET_KIT_{secrets.token_hex(4)}", secrets.token_hex(8)
    os.environ[name] = value
    try:
        program = "import os; print(dict(os.environ))"
        result = await run_python(
            subject.port, program, environment={"GIVEN": "a b"}, policy={"environment": frozenset({"GIVEN"})}
        )
    finally:
        del os.environ[name]
    ensure("'GIVEN': 'a b'" in result.stdout.text, "a variable of the request did not arrive")
    ensure(value not in result.stdout.text, "a variable of the host got in")


@case("SEC-006", needs=("secret",))
async def a_secret_gets_in_and_not_out(subject: SandboxSubject) -> None:
    """The program has the value; what it prints of it, whole or in pieces, shows the handle's name instead."""
    known = lever(subject.secret, "secret")
    program = (
        "import os, sys, time\n"
        "value = os.environ['TOKEN']\n"
        "print(len(value), value, flush=True)\n"
        "for piece in (value[:3], value[3:]):\n"
        "    sys.stderr.write(piece); sys.stderr.flush(); time.sleep(0.05)\n"
    )
    asked = request(
        subject.port,
        *python(program),
        secrets=(SecretVariable(variable="TOKEN", handle=known.handle),),
        policy={"environment": frozenset({"TOKEN"})},
    )
    shown = ""
    async with subject.port.execute(asked) as events:
        async for event in events:
            shown += event.text if isinstance(event, Output) else repr(event)
    ensure(f"{len(known.value)} [secret" in shown, "the program did not get the value, or its name is not shown")
    ensure(known.value not in shown, "the value is in the output")
    ensure(known.value not in repr(asked), "the value is in the request")


@case("SEC-006", needs=("secret", "store"))
async def a_secret_is_in_no_artifact(subject: SandboxSubject) -> None:
    """A file that holds the value is refused, and the store has nothing of it."""
    known = lever(subject.secret, "secret")
    result = await run_python(
        subject.port,
        "import os; open('leak', 'w').write('x' + os.environ['TOKEN']); open('plain', 'w').write('x')",
        secrets=(SecretVariable(variable="TOKEN", handle=known.handle),),
        policy={"environment": frozenset({"TOKEN"})},
        artifacts=("*",),
    )
    ensure_equal([each.path for each in result.artifacts], ["plain"], "the collected files")
    ensure_equal([each.path for each in result.refused], ["leak"], "the refused files")


GIVING = (nothing_of_the_host_environment_gets_in, a_secret_gets_in_and_not_out, a_secret_is_in_no_artifact)
