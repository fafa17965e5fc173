"""Making text from outside harmless on a terminal.

Decides which characters may reach a terminal as they are. Whatever could move its cursor, change its state, reorder the
line or hide is replaced by a character that is one cell wide and can be seen. It bounds nothing and knows no style.
"""

import re
from typing import Final

_REPLACEMENT: Final = "\ufffd"

# C0, DEL and C1 controls; soft hyphen; marks, embeddings, overrides and isolates of writing direction; zero-width
# and invisible characters but the two joiners that scripts and emoji need; line and paragraph separators;
# surrogates; variation and tag characters that only carry hidden text; non-characters.
_UNSAFE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\ufffe\uffff\U000e0000-\U000e0fff]"
)
_SPACE: Final = re.compile(r"\s+")
_STACKED: Final = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{3})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]+"
)


def visible(text: str) -> str:
    """`text` with only line feeds and printable characters in it.

    A tab becomes a space; CR LF and a lone CR become a line feed; another control character becomes its picture
    (ESC is shown as U+241B); the rest of what is unsafe becomes U+FFFD. Stacks of combining marks are cut at three.
    """
    if text.isascii() and text.isprintable():
        return text
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return _STACKED.sub(r"\1", _UNSAFE.sub(_picture, unified))


def visible_line(text: str) -> str:
    """`visible` on one line: every run of white space is one space, and none is at the ends."""
    return _SPACE.sub(" ", visible(text)).strip()


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0x09:
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _REPLACEMENT
