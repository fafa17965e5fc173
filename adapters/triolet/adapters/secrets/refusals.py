"""Why a value cannot serve as a secret, said without the value.

Decides the words of a refusal, and how bytes are looked at so that no error is ever made that holds them.
"""

from typing import Final

from triolet.ports.secrets import MAX_SECRET

NO_TEXT: Final = "is no UTF-8 text"
TOO_LONG: Final = f"is longer than {MAX_SECRET} bytes"


def text_of(data: bytes) -> str | None:
    """The text, or None where it is none. An error from decoding would carry the bytes, also as a context."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
