"""JSON text from a program, made into text that every store keeps.

Decides how a lone surrogate and U+0000 in it are repaired: as everywhere, by U+FFFD. Never looks at anything else; that
the text is strict JSON is asked where it is parsed.
"""

import re
from typing import Final

# `JSON.stringify` escapes a surrogate only if it stands alone; an escape is one after an even number of backslashes.
_BROKEN: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u(?:[dD][89a-fA-F][0-9a-fA-F]{2}|0000)")


def storable(text: str) -> str:
    """`text` with each escaped lone surrogate and U+0000 replaced."""
    return _BROKEN.sub("\\1\ufffd", text) if "\\u" in text else text
