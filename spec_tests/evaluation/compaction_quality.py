"""How much of what matters a summary keeps: facts are planted in a conversation, and looked for afterwards.

Measures the quality of summaries by the model inside this machine, apart from every test of correctness: nothing here
can fail a build. Prints one line of JSON for each conversation and one for all of them. Run it by `make eval`.
"""

import argparse
import json
import random
import sys
from typing import Any, Final

import attrs
import trio

from triolet.adapters.local_model import open_local_model
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import ScriptedModel, turn
from triolet.kernel import Agent, NotCompacted, open_kernel
from triolet.ports.language_model import LanguageModel, ModelSettings
from triolet.ports.messages import UserMessage

SUMMARY_TOKENS: Final = 120
_SMALL_TALK: Final = (
    ("Thanks, that helps.", "You are welcome."),
    ("Let me think about it for a moment.", "Take your time."),
    ("The weather is nice here.", "That is good to hear."),
    ("I read something about gardens yesterday.", "Gardens are a fine subject."),
)


@attrs.frozen(kw_only=True)
class Fact:
    """One planted fact: how it is said, and the word that shows that it was kept."""

    kind: str
    said: str
    word: str


def facts_of(dice: random.Random) -> list[Fact]:
    """One fact of each kind, with words that no model can guess."""
    number, port = dice.randint(1_000, 9_999), dice.randint(10_000, 60_000)
    name = dice.choice(["Ottilie", "Balthasar", "Xaver", "Ingeborg", "Leopold"])
    city = dice.choice(["Kassel", "Gera", "Husum", "Worms", "Aalen"])
    file = f"{dice.choice(['ledger', 'harbour', 'quartz', 'meadow'])}_{dice.randint(10, 99)}.csv"
    return [
        Fact(kind="name", said=f"My colleague {name} decides about it.", word=name),
        Fact(kind="number", said=f"The order number is {number}.", word=str(number)),
        Fact(kind="path", said=f"The data is in the file {file}.", word=file),
        Fact(kind="place", said=f"It has to be delivered to {city}.", word=city),
        Fact(kind="setting", said=f"The service listens on port {port}.", word=str(port)),
    ]


async def measure(model: LanguageModel, seed: int) -> dict[str, Any]:
    """Plant facts, compact the conversation with `model`, and say which of them the summary keeps."""
    dice = random.Random(seed)
    facts = facts_of(dice)
    said = [(fact.said, "Noted.") for fact in facts] + [dice.choice(_SMALL_TALK) for _ in range(3)]
    dice.shuffle(said)
    # A model this small does not stop by itself; what it says twice is no summary.
    settings = ModelSettings(temperature=0.0, max_output_tokens=SUMMARY_TOKENS)
    agent = Agent(id="talker", input=str, output=str, instructions="Take notes.", settings=settings)
    script = ScriptedModel([turn(answer) for _, answer in said] + [turn("Yes?")])
    began = trio.current_time()
    async with (
        open_kernel(agents=[agent], capabilities=in_memory(model=script)) as kernel,
        kernel.conversation() as talk,
    ):
        for question, _ in said:
            await talk.run(agent, question)
        await talk.run(agent, "Are you there?")
        row: dict[str, Any] = {"seed": seed, "facts": len(facts)}
        try:
            await talk.compact(agent, model=model)
        except NotCompacted as error:
            return {**row, "kept": {fact.kind: False for fact in facts}, "problem": error.reason}
        first = talk.context[0]
    summary = first.parts[0].text if isinstance(first, UserMessage) and first.parts[0].kind == "text" else ""
    kept = {fact.kind: fact.word in summary for fact in facts}
    return {**row, "kept": kept, "characters": len(summary), "seconds": round(trio.current_time() - began, 1)}


async def main(conversations: int, seed: int) -> None:
    """Measure some conversations, and print what was kept."""
    rows: list[dict[str, Any]] = []
    async with open_local_model() as model:
        for number in range(conversations):
            rows.append(await measure(model, seed + number))
            print(json.dumps({"name": "compaction-quality", **rows[-1]}), flush=True)
        name = model.identity.name
    total = sum(row["facts"] for row in rows)
    kept = sum(sum(row["kept"].values()) for row in rows)
    by_kind = {kind: sum(row["kept"][kind] for row in rows) for kind in rows[0]["kept"]}
    print(
        json.dumps(
            {
                "name": "compaction-quality-total",
                "model": name,
                "seed": seed,
                "kept": kept,
                "facts": total,
                "share": round(kept / total, 3),
                "by_kind": by_kind,
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How much of what matters does a summary keep?")
    parser.add_argument("--conversations", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.conversations < 1:
        parser.error("at least one conversation")
    sys.exit(trio.run(main, given.conversations, given.seed))
