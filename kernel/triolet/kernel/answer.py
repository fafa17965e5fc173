"""Judging a final answer: does it decode, and what does the application say about it?

Decides what a model is told about an answer that is no valid output (RUN-028), and asks the application's selector
about one that is (RUN-029). Whether the run ends with it is the machine's.
"""

from typing import Any

from triolet.kernel.agent import Agent
from triolet.kernel.machine.observations import AnswerJudged
from triolet.kernel.machine.plan import JudgeAnswer
from triolet.ports.canonical import encode_text
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import InputId, Instant, RunId
from triolet.ports.strict_json import JsonText
from triolet.ports.text import repair


def judge_answer(agent: Agent[Any, Any], run: RunId, action: JudgeAnswer, at: Instant) -> AnswerJudged:
    """The answer decoded and encoded again, or the problem with it in words for the model."""
    text = action.answer.message.text
    correction = InputId(f"{run}-{action.answer.turn}-correction")
    if not action.structured:
        disposition = _disposition(agent, text)
        return AnswerJudged(
            output=encode_text(text), problem=None, disposition=disposition, correction=correction, at=at
        )
    codec = agent.output_codec
    try:
        value = codec.decode_text(text)
        output = codec.encode_text(value)
    except (InvalidJson, InvalidValue) as error:
        problem = repair(f"Your answer was not accepted: {error.message}. Answer again with only the JSON.")
        return AnswerJudged(output=None, problem=problem, correction=correction, at=at)
    disposition = _disposition(agent, value)
    return AnswerJudged(output=output, problem=None, disposition=disposition, correction=correction, at=at)


def _disposition(agent: Agent[Any, Any], value: object) -> JsonText | None:
    declared = agent.disposition
    return None if declared is None else declared.codec.encode_text(declared.select(value))
