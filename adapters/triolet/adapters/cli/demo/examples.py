"""Worked examples for a small model: each tool used once or more, on files that do not exist.

Decides nothing about a run. They are shown before every request, exactly as real history is: the names in quotes, the
results as the tools give them. Without them a small model chooses tools nearly at random.
"""

from typing import Final

from triolet.adapters.openai_compatible import WorkedCall, WorkedExample
from triolet.ports.strict_json import JsonValue


def _example(
    question: str, tool: str, arguments: dict[str, JsonValue], result: JsonValue, **said: JsonValue
) -> WorkedExample:
    call = WorkedCall(tool=tool, arguments=arguments, result=result)
    return WorkedExample(question=question, calls=(call,), answer=said)


def _count(file: str, words: int) -> WorkedExample:
    question = f'How many words are in "{file}"?'
    return _example(question, "count_words", {"file": file}, {"file": file, "words": words}, file=file, words=words)


EXAMPLES: Final = (
    _count("apple.md", 312),
    _example("How many files are there?", "list_files", {}, {"files": 2, "names": ["apple.md", "b7-x.txt"]}, files=2),
    _count("b7-x.txt", 45),
    _example(
        "Which file mentions copper?",
        "search",
        {"text": "copper"},
        {"files": 1, "names": ["apple.md"], "passage": "a copper pot", "text": "copper"},
        file="apple.md",
    ),
    _count("PeachPie.rst", 88),
    _example(
        'What does "apple.md" say?',
        "read_passage",
        {"file": "apple.md", "line": 1},
        {"file": "apple.md", "text": "Apples are red."},
        file="apple.md",
        quote="Apples are red.",
    ),
    _count("q9zk3.md", 5120),
    _count("Notes_2.md", 1870),
)
