"""A language model behind any server with OpenAI's ``/chat/completions``.

Decides how such a model is opened, and checks the options before anything is sent. What it asks and how it reads the
answer is the tool protocol's and the connection's business.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final, Literal
from urllib.parse import urlsplit

import httpx2

from triolet.adapters.openai_compatible.bounds import InvalidOption, Limits, Timeouts
from triolet.adapters.openai_compatible.connection import Chat
from triolet.adapters.openai_compatible.json_schema import JsonSchema, TwoStages
from triolet.adapters.openai_compatible.native import Native
from triolet.adapters.openai_compatible.protocol import ToolProtocol
from triolet.adapters.openai_compatible.wire import OWN_KEYS, Bodies, BodyOptions
from triolet.ports.language_model import LanguageModel, ModelIdentity, ModelPart, ModelRequest, ModelSettings
from triolet.ports.strict_json import JsonValue

Protocol = Literal["native", "json-schema"] | JsonSchema

_OPEN_SETTINGS: Final = ModelSettings()
_TIMEOUTS: Final = Timeouts()
_LIMITS: Final = Limits()
_KEY: Final = re.compile(r"[\x21-\x7e]{1,4096}")


@asynccontextmanager
async def open_openai_compatible(
    *,
    base_url: str,
    model: str,
    api_key: str | None = None,
    provider: str = "openai-compatible",
    protocol: Protocol = "native",
    defaults: ModelSettings = _OPEN_SETTINGS,
    strict_schemas: bool = False,
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    extra: Mapping[str, JsonValue] | None = None,
    timeouts: Timeouts = _TIMEOUTS,
    limits: Limits = _LIMITS,
    use_environment: bool = True,
) -> AsyncGenerator[LanguageModel, None]:
    """Open a model; requests go to ``{base_url}/chat/completions``.

    `api_key` is sent as a bearer token and kept nowhere else. `provider` and `model` are the model's identity.
    `protocol` is how tools are called: ``native`` where the server has tool calls of its own, ``json-schema`` (or
    `JsonSchema` with options) where it only enforces schemas. `defaults` fills in settings that a request leaves open.
    `strict_schemas` adds ``"strict": true`` to schemas, which some providers need to enforce them and which then
    limits what a schema may say. `max_tokens_name` is what the server calls the output limit. `extra` is added to
    every body, for settings of one provider. `use_environment` lets proxy and certificate variables apply.

    Lifetime: holds up to `limits.connections` connections, closed on leaving. Emits nothing. Never retries. Many runs
    may use it at once. Raises `InvalidOption` before anything is opened.
    """
    endpoint = _endpoint(base_url)
    if not model:
        raise InvalidOption(option="model", problem="it is empty")
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        "Connection": "close",  # see `connection`
    }
    if api_key is not None:
        if not _KEY.fullmatch(api_key):
            raise InvalidOption(option="api_key", problem="it is not 1 to 4096 visible ASCII characters")
        headers["Authorization"] = f"Bearer {api_key}"
    extra = extra or {}
    if taken := OWN_KEYS & extra.keys():
        raise InvalidOption(option="extra", problem=f"the adapter itself sets {', '.join(sorted(taken))}")
    bodies = Bodies(BodyOptions(model=model, defaults=defaults, extra=extra, max_tokens_name=max_tokens_name))
    patience = httpx2.Timeout(connect=timeouts.connect, pool=timeouts.connect, write=timeouts.idle, read=None)
    places = httpx2.Limits(max_connections=limits.connections)
    async with httpx2.AsyncClient(
        headers=headers, timeout=patience, limits=places, trust_env=use_environment, follow_redirects=False
    ) as client:
        chat = Chat(client=client, url=endpoint, model=model, timeouts=timeouts, limits=limits)
        made = _protocol(protocol, bodies, cache_bytes=limits.cache_bytes, strict=strict_schemas)
        yield _Model(ModelIdentity(provider=provider, name=model), chat, made)


class _Model:
    """See `LanguageModel`."""

    __slots__ = ("_chat", "_identity", "_protocol")

    def __init__(self, identity: ModelIdentity, chat: Chat, protocol: ToolProtocol) -> None:
        self._identity = identity
        self._chat = chat
        self._protocol = protocol

    @property
    def identity(self) -> ModelIdentity:
        return self._identity

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelPart]]:
        """The request is sent when the first part is asked for."""
        return aclosing(self._protocol.respond(self._chat, request))


def _protocol(protocol: Protocol, bodies: Bodies, *, cache_bytes: int, strict: bool) -> ToolProtocol:
    if isinstance(protocol, JsonSchema):
        return TwoStages(bodies, protocol, cache_bytes=cache_bytes, strict=strict)
    if protocol == "json-schema":
        return TwoStages(bodies, JsonSchema(), cache_bytes=cache_bytes, strict=strict)
    if protocol == "native":
        return Native(bodies, cache_bytes=cache_bytes, strict=strict)
    raise InvalidOption(option="protocol", problem="it is neither native nor json-schema, nor a JsonSchema value")


def _endpoint(base_url: str) -> str:
    """The URL to post to. Only what `urlsplit` and the HTTP client read alike is let through."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        httpx2.URL(base_url)
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if not usable or re.search(r"[\s?#@\\]", base_url):
        raise InvalidOption(
            option="base_url", problem="it is no plain http or https URL such as http://localhost:8080/v1"
        )
    return base_url.rstrip("/") + "/chat/completions"
