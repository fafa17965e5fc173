"""File names in a question: found, taken out, and marked.

Decides when a question mentions a file: by its whole name, or by its last part where no other file shares it; in the
case it is written in if there is such a file, else in any case. It knows names only, no files.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

# Marks are single characters of a private use area. No name on offer has one, and none is left in a question, so that
# whatever a mark stands for cannot be taken for text.
_MARKS: Final = range(0xE000, 0xF900)
_ANY_MARK: Final = re.compile("[\ue000-\uf8ff]")
_QUOTES: Final = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019")


@attrs.frozen(kw_only=True, weakref_slot=False)
class Mentions:
    """What a question mentions."""

    names: tuple[str, ...]
    """The files, in the order in which they are mentioned first."""
    rest: str
    """The question without them."""
    marked: str
    """The question with every mention spelt as the file's whole name, in quotes as JSON has them."""


def mentions(question: str, names: Iterable[str]) -> Mentions:
    """Find the files among `names` that `question` mentions."""
    spellings = _spellings(names)
    text = _ANY_MARK.sub(" ", question)
    found: list[str] = []
    for flags in (re.NOFLAG, re.IGNORECASE):
        lowered = text.lower()
        # The longest first, so that "my notes.md" is not taken for "notes.md".
        for spelling, name in spellings:
            if spelling.lower() in lowered:
                text, times = _as_word(spelling, flags).subn(chr(_MARKS[len(found)]), text)
                if times:
                    found.append(name)

    def name_at(mark: re.Match[str]) -> str:
        return found[_MARKS.index(ord(mark[0]))]

    return Mentions(
        names=tuple(dict.fromkeys(name_at(mark) for mark in _ANY_MARK.finditer(text))),
        rest=_ANY_MARK.sub(" ", text),
        marked=_ANY_MARK.sub(lambda mark: json.dumps(name_at(mark), ensure_ascii=False), text),
    )


def _spellings(names: Iterable[str]) -> list[tuple[str, str]]:
    """How each file may be called, the longest spelling first."""
    whole = list(names)
    spellings = {name: name for name in whole}
    lasts = Counter(name.rpartition("/")[2].lower() for name in whole)
    for name in whole:
        last = name.rpartition("/")[2]
        if lasts[last.lower()] == 1:
            spellings.setdefault(last, name)
        # A question that was marked once mentions the same files.
        spellings.setdefault(json.dumps(name, ensure_ascii=False)[1:-1], name)
    return sorted(spellings.items(), key=lambda item: (-len(item[0]), item[0]))


def _as_word(name: str, flags: re.RegexFlag) -> re.Pattern[str]:
    # A name may be followed by a full stop or a question mark, but not by more of a name; quotes around it go with it.
    quoted = "|".join(f"{opening}{re.escape(name)}{closing}" for opening, closing in _QUOTES)
    return re.compile(rf"{quoted}|(?<![\w/.-]){re.escape(name)}(?![\w/-]|\.\w)", flags)
