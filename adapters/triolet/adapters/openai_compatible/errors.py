"""What a failed request means to the caller: one typed error for each HTTP answer and each transport fault.

Decides by status, and by the code and type that the error's JSON body states; a body's prose is only searched for the
words by which servers without codes say that a prompt is too long (RUN-027). Never puts a word of the provider into an
error, since it may quote the request (SEC-006). Never retries (F-053); a provider's advice when to do so is handed on.
"""

import email.utils
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import attrs
import httpx2

from triolet.adapters.openai_compatible.provider_json import as_object, load
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import ContextTooLarge, ModelRefused, ModelUnavailable

LONGEST_ADVICE: Final = 86_400.0
"""Seconds; a provider that advises to wait longer is heard as saying this."""

_CONTEXT_CODES: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "request_too_large"}
)
_CONTEXT_WORDS: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens", re.IGNORECASE
)
_CONTENT_CODES: Final = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_QUOTA_CODES: Final = frozenset({"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached"})
_RATE_CODES: Final = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests"})
_OVERLOAD_CODES: Final = frozenset({"overloaded_error", "server_overloaded", "unavailable_error"})
_LOST_CODES: Final = frozenset({"model_not_found"})
_REQUEST_CODES: Final = _CONTEXT_CODES | _CONTENT_CODES | _QUOTA_CODES | _LOST_CODES | {"invalid_request_error"}


def answer_error(model: str, status: int, headers: Mapping[str, str], body: bytes) -> TrioletError:
    """The error for an HTTP answer whose status is not 200. `body` may be cut."""
    try:
        document = as_object(load(body)) or {}
    except ValueError:
        document = {}
    facts = _facts(document.get("error", document))
    return _classify(model, status, status, retry_after(headers), facts)


def stream_error(model: str, error: object) -> TrioletError:
    """The error for an ``error`` object inside a stream, after HTTP had said 200. Its own figures decide."""
    facts = _facts(error)
    status = facts.status
    if status is None:
        # A server that gives neither a status nor a code failed while it was answering: that may pass.
        status = 429 if facts.codes & _RATE_CODES else 400 if facts.codes & _REQUEST_CODES else 500
    return _classify(model, status, facts.status, None, facts)


def transport_error(model: str, fault: httpx2.HTTPError) -> ModelUnavailable:
    """The error for a fault below HTTP: no connection, a broken one, or one that took too long."""
    slow = isinstance(fault, httpx2.TimeoutException)
    return ModelUnavailable(model=model, reason="timeout" if slow else "transport")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a provider advises to wait, from 0 to `LONGEST_ADVICE`, or None without usable advice.

    A date is compared with the answer's own ``Date`` where there is one, so that no clock has to agree with another.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, LONGEST_ADVICE)
    advice = headers.get("retry-after")
    seconds = _number(advice)
    if seconds is None and advice is not None and (until := _date(advice)) is not None:
        now = _date(headers.get("date", "")) or datetime.now(UTC)
        seconds = max(until - now, timedelta()).total_seconds()
    return None if seconds is None else min(seconds, LONGEST_ADVICE)


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Facts:
    """What an error object states in a form that needs no reading, and whether its prose is about the context."""

    codes: frozenset[str]
    status: int | None
    says_too_long: bool


def _facts(error: object) -> _Facts:
    found = as_object(error) or {"message": error}
    stated = (found.get("code"), found.get("type"), found.get("status"))
    texts = frozenset(text for text in stated if isinstance(text, str))
    numbers = [number for number in stated if type(number) is int]
    numbers += [int(text) for text in texts if re.fullmatch(r"[45]\d\d", text)]
    message = found.get("message")
    return _Facts(
        codes=texts,
        status=next((number for number in numbers if 400 <= number < 600), None),
        says_too_long=isinstance(message, str) and _CONTEXT_WORDS.search(message) is not None,
    )


def _classify(
    model: str, status: int, shown: int | None, advice: float | None, facts: _Facts
) -> ModelUnavailable | ModelRefused | ContextTooLarge:
    """The rules, first match first. `shown` is the status that the error may claim."""
    codes = facts.codes

    def refused(
        reason: Literal["authentication", "not-found", "bad-request", "content"], detail: str = ""
    ) -> ModelRefused:
        return ModelRefused(model=model, reason=reason, detail=detail, status=shown)

    def unavailable(reason: Literal["transport", "overloaded", "rate-limited", "timeout"]) -> ModelUnavailable:
        return ModelUnavailable(model=model, reason=reason, status=shown, retry_after=advice)

    if status == 404 or codes & _LOST_CODES:
        return refused("not-found")
    if status == 402 or codes & _QUOTA_CODES:
        return refused("authentication", "the account has no credit or quota left")
    if status in (401, 403):
        return refused("authentication")
    if status == 429 or (status < 500 and codes & _RATE_CODES):
        return unavailable("rate-limited")
    if status in (408, 504):
        return unavailable("timeout")
    if status in (503, 529) or codes & _OVERLOAD_CODES:
        return unavailable("overloaded")
    if status >= 500 or status in (409, 425):
        return unavailable("transport")
    if status == 413 or codes & _CONTEXT_CODES or facts.says_too_long:
        return ContextTooLarge(model=model, status=shown)
    if codes & _CONTENT_CODES:
        return refused("content")
    if 300 <= status < 400:
        return refused("bad-request", "the server redirects, which is never followed; give the final base_url")
    return refused("bad-request")


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _date(text: str) -> datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
