"""Worked examples for a small model: each tool used once or more, on files that do not exist.

Decides nothing about a run. They are shown before every request, exactly as real history is: the names in quotes, the
results as the tools give them. Without them a small model chooses tools nearly at random.
"""

from typing import Final

from triolet.adapters.openai_compatible import WorkedCall, WorkedExample
from triolet.ports.strict_json import JsonValue


def _example(
    question: str, tool: str, arguments: dict[str, JsonValue], result: dict[str, JsonValue], **said: JsonValue
) -> WorkedExample:
    call = WorkedCall(tool=tool, arguments=arguments, result=result)
    answer: dict[str, JsonValue] = {"by": tool, **said}
    return WorkedExample(question=question, calls=(call,), answer=answer)


def _count(file: str, words: int) -> WorkedExample:
    result: dict[str, JsonValue] = {"file": file, "words": words}
    return _example(f'How many words are in "{file}"?', "count_words", {"file": file}, result, **result)


def _list(*names: JsonValue) -> WorkedExample:
    files = len(names)
    return _example("How many files are there?", "list_files", {}, {"files": files, "names": [*names]}, files=files)


def _search(text: str, passage: str, *names: JsonValue) -> WorkedExample:
    result: dict[str, JsonValue] = {"files": len(names), "names": [*names], "passage": passage, "text": text}
    said: dict[str, JsonValue] = {"file": names[0]} if names else {"by": "nothing"}
    return _example(f"Which file mentions {text}?", "search", {"text": text}, result, **said)


def _read(file: str, passage: str, said: str) -> WorkedExample:
    given: dict[str, JsonValue] = {"file": file, "line": 1}
    result: dict[str, JsonValue] = {"file": file, "passage": passage}
    return _example(f'What does "{file}" say?', "read_passage", given, result, file=file, passage=said)


# The order matters: what was shown last is likeliest to be done next. Counting is robust, so it takes the end.
EXAMPLES: Final = (
    _count("apple.md", 312),
    _list("Notes_2.md", "apple.md", "b7-x.txt", "cake", "fig.csv", "oats.md", "pie/Peach.rst"),
    _search("copper", "a copper pot", "pie/Peach.rst"),
    _read("apple.md", "Apples are red. They grow on trees in the garden.", "Apples are red."),
    _count("b7-x.txt", 45),
    _search("salt", "salt and sugar", "cake", "apple.md"),
    _read("cake", "# Cake with oats\n\nBake it for an hour. Then let it rest.", "# Cake with oats"),
    _count("PeachPie.rst", 88),
    _search("the moon", ""),
    _count("q9zk3.md", 5120),
    _search("winter", "in winter we rest", "oats.md"),
    _read("b7-x.txt", "Dear Anna, the ship came in on Monday. We sold all.", "Dear Anna, the ship came in on Monday."),
    _count("Notes_2.md", 1870),
)
