"""What reaches the provider, how refusals come back, and how an answer is let go.

CAP-001, RUN-005, RUN-008, RUN-027, RUN-028.
"""

from typing import TypeVar

import trio

from triolet.ports.errors import TrioletError
from triolet.ports.language_model import (
    ContextTooLarge,
    Finished,
    ModelRefused,
    ModelUnavailable,
    TextChunk,
)
from triolet.spec_tests.cases.language_model.provider import ModelSubject, Refuses, Says, Stalls
from triolet.spec_tests.cases.language_model.setting import (
    history_with_calls,
    provider_of,
    question,
    read,
    until_idle,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case

E = TypeVar("E", bound=TrioletError)


@case("RUN-005", needs=("provider", "wire", "tools"))
async def the_whole_history_is_sent_in_order(subject: ModelSubject) -> None:
    """Instructions, inputs, calls and each call's one result reach the provider, in the order of the history."""
    provider = provider_of(subject)
    provider.will(Says(text=("Done.",)))
    await read(subject.port, question(*history_with_calls(), tools=True))
    (sent,) = provider.received
    texts = ["question-one", "city-0", "city-1", "result-zero", "result-one", "question-two"]
    places = [sent.find(text) for text in texts]
    ensure(-1 not in places, f"the provider was not sent {texts[places.index(-1)] if -1 in places else ''}")
    ensure_equal(places, sorted(places), "the order in which the history was sent")
    for text in ("result-zero", "result-one", "question-two", "Unmistakable instructions."):
        ensure_equal(sent.count(text), 1, f"times that {text!r} was sent")


@case("RUN-028", needs=("provider", "wire"))
async def the_output_schema_is_sent(subject: ModelSubject) -> None:
    """A request with an output schema shows it to the provider; one without does not."""
    provider = provider_of(subject)
    for output in (True, False):
        provider.will(Says(text=('{"unmistakable_degrees":1}',)))
        await read(subject.port, question(output=output))
        ensure_equal("unmistakable_degrees" in provider.received[-1], output, "whether the output schema was sent")


@case("CAP-003", needs=("provider", "wire", "tools"))
async def offered_tools_are_sent(subject: ModelSubject) -> None:
    """A request's tools reach the provider by name, description and schema."""
    provider = provider_of(subject)
    provider.will(Says(text=("Done.",)))
    await read(subject.port, question(tools=True))
    for text in ("get_weather", "Tell the unmistakable weather.", "unmistakable_city"):
        ensure(text in provider.received[-1], f"the provider was not sent {text!r}")


@case("CAP-001", needs=("provider",))
async def refusals_have_their_family(subject: ModelSubject) -> None:
    """What may pass is `ModelUnavailable` with the provider's own advice; what never will is `ModelRefused`."""
    provider = provider_of(subject)
    for busy in (Refuses(why="rate-limited", retry_after=7), Refuses(why="overloaded", retry_after=7)):
        provider.will(busy)
        error = await _refusal(subject, ModelUnavailable, busy.why)
        ensure_equal((error.reason, error.retry_after), (busy.why, 7), f"reason and advice, where it is {busy.why}")
    for final in (Refuses(why="authentication"), Refuses(why="not-found"), Refuses(why="bad-request")):
        provider.will(final)
        ensure_equal((await _refusal(subject, ModelRefused, final.why)).reason, final.why, "the reason of a refusal")


@case("RUN-027", needs=("provider",))
async def a_refusal_for_length_is_told_apart(subject: ModelSubject) -> None:
    """A provider that says that the request is too long gives `ContextTooLarge`, and a bad request does not."""
    provider_of(subject).will(Refuses(why="too-long"), Refuses(why="bad-request"))
    await _refusal(subject, ContextTooLarge, "a request that is too long")
    await _refusal(subject, ModelRefused, "a request that is bad")


@case("CAP-001", needs=("provider",))
async def one_request_is_one_request(subject: ModelSubject) -> None:
    """The adapter never asks again by itself, however the provider answers."""
    provider = provider_of(subject)
    refusals = [Refuses(why="rate-limited", retry_after=0), Refuses(why="overloaded"), Refuses(why="bad-request")]
    for count, refusal in enumerate(refusals, start=1):
        provider.will(refusal)
        await _refusal(subject, TrioletError, refusal.why)
        ensure_equal(len(provider.received), count, f"requests that reached the provider, {refusal.why}")


@case("RUN-008", needs=("provider",))
async def cancelling_lets_go_at_once(subject: ModelSubject) -> None:
    """Cancelling an answer under way ends it at once, and the provider's connection is let go."""
    provider = provider_of(subject)
    provider.will(Stalls(text=("Half",)))
    came = trio.Event()

    async def ask() -> None:
        async with subject.port.stream(question()) as parts:
            async for _ in parts:
                came.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await came.wait()
        nursery.cancel_scope.cancel()
    ensure(await until_idle(provider), "the provider's answer is still under way after it was cancelled")


@case("CAP-001", needs=("provider",))
async def leaving_early_lets_go(subject: ModelSubject) -> None:
    """Leaving the scope of an answer before its end lets the provider's connection go, and the model stays usable."""
    provider = provider_of(subject)
    provider.will(Stalls(text=("Half",)), Says(text=("Whole.",)))
    async with subject.port.stream(question()) as parts:
        async for part in parts:
            if isinstance(part, TextChunk):
                break
    ensure(await until_idle(provider), "the provider's answer is still under way after its scope was left")
    after = await read(subject.port, question())
    ensure_equal([type(part) for part in after if isinstance(part, Finished)], [Finished], "ends of the next answer")


async def _refusal(subject: ModelSubject, kind: type[E], what: str) -> E:
    with ensure_raises(kind, f"an answer of a provider that refuses ({what})") as caught:
        await read(subject.port, question())
    return caught.error


ASKING = (
    the_whole_history_is_sent_in_order,
    the_output_schema_is_sent,
    offered_tools_are_sent,
    refusals_have_their_family,
    a_refusal_for_length_is_told_apart,
    one_request_is_one_request,
    cancelling_lets_go_at_once,
    leaving_early_lets_go,
)
