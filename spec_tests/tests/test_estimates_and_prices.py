"""Estimates are cheap, additive and rather too high; prices are exact, rounded up, and never guessed."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.estimators import BYTES_PER_TOKEN, FRAME, MEDIA_TOKENS, ByteEstimator
from triolet.adapters.price_table import PriceTable, Rates
from triolet.ports.identity import CallId
from triolet.ports.language_model import ModelIdentity, ToolDeclaration
from triolet.ports.messages import AssistantMessage, Media, ToolMessage, ToolResult, UserMessage, user_text
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

ESTIMATOR = ByteEstimator()
MODEL = ModelIdentity(provider="p", name="m")


@given(st.text(max_size=400), st.text(max_size=400))
def test_text_costs_its_bytes(left: str, right: str) -> None:
    """Never below a token for three bytes; two halves cost no less than the whole, and at most a token more."""
    whole = ESTIMATOR.text(left + right)
    assert whole * BYTES_PER_TOKEN >= len((left + right).encode("utf-8", "surrogatepass"))
    assert whole <= ESTIMATOR.text(left) + ESTIMATOR.text(right) <= whole + 1


def test_broken_text_is_estimated_too() -> None:
    assert ESTIMATOR.text("\ud800" * 3) == 3


def test_everything_in_a_message_counts() -> None:
    short, long = user_text("hi"), user_text("hi" * 300)
    assert FRAME < ESTIMATOR.message(short) < ESTIMATOR.message(long) - 190
    result = ToolResult(call=CallId("c"), name="look", outcome=ToolSuccess(output=JsonText('"' + "x" * 300 + '"')))
    once, twice = ToolMessage(results=(result,)), ToolMessage(results=(result, result))
    assert ESTIMATOR.message(twice) == 2 * ESTIMATOR.message(once) > 200
    said = AssistantMessage(text="x" * 300, reasoning="", calls=())
    assert ESTIMATOR.message(said) == FRAME + 100
    # What a provider wants to have back is sent, and so it counts.
    assert ESTIMATOR.message(attrs.evolve(said, opaque=JsonText('"' + "x" * 298 + '"'))) == FRAME + 200


def test_media_count_at_least_what_an_image_costs() -> None:
    def media(size: int) -> int:
        return ESTIMATOR.message(UserMessage(parts=(Media(media_type="image/png", base64="A" * size),)))

    assert media(4) == FRAME + MEDIA_TOKENS
    assert media(640_000) == FRAME + 10_000


def test_declarations_count_with_their_schema() -> None:
    small = ToolDeclaration(name="look", description="", input_schema={"type": "object"})
    large = attrs.evolve(small, description="Look at it. " * 30, input_schema={"type": "object", "title": "x" * 300})
    assert ESTIMATOR.tools(()) == 0
    assert ESTIMATOR.tools((small, large)) == ESTIMATOR.tools((small,)) + ESTIMATOR.tools((large,))
    assert ESTIMATOR.tools((large,)) - ESTIMATOR.tools((small,)) >= 220
    assert ESTIMATOR.schema({"title": "é" * 300}) >= 200


_FREE = {"input": 0, "output": 0}
RATES = Rates(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)


def test_each_kind_of_token_has_its_rate() -> None:
    """Input is the total, with cached tokens in it (CAP-017)."""
    usage = Usage(input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=100, output_tokens=10)
    table = PriceTable({"m": RATES})
    assert table.price(MODEL, usage) == 300 * 3 + 180 + 375 + 150
    plain = PriceTable({"m": Rates(input=3_000_000, output=15_000_000)})
    assert plain.price(MODEL, usage) == 1_000 * 3 + 150


def test_the_smallest_amount_is_rounded_up() -> None:
    table = PriceTable({"m": Rates(input=1, output=0)})
    assert [table.price(MODEL, Usage(input_tokens=n)) for n in (0, 1, 1_000_000, 1_000_001)] == [0, 1, 1, 2]


def test_an_unknown_model_has_no_price_and_a_free_one_costs_nothing() -> None:
    table = PriceTable({"free": Rates(input=0, output=0), ("q", "m"): RATES})
    assert table.price(MODEL, Usage(input_tokens=1)) is None
    assert table.price(ModelIdentity(provider="p", name="free"), Usage(input_tokens=10**9)) == 0


def test_a_pair_goes_before_a_name() -> None:
    table = PriceTable({"m": Rates(input=1_000_000, output=0), ("p", "m"): Rates(input=2_000_000, output=0)})
    assert table.price(MODEL, Usage(input_tokens=5)) == 10
    assert table.price(ModelIdentity(provider="other", name="m"), Usage(input_tokens=5)) == 5


@pytest.mark.parametrize(
    "wrong", [{"input": -1, "output": 0}, {"input": 0, "output": -1}, {"input": 0, "output": 0, "cache_read": -1}]
)
def test_rates_are_not_negative(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        Rates(**wrong)


@given(
    st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7)
)
def test_more_tokens_never_cost_less(fresh: int, read: int, write: int, output: int, rate: int) -> None:
    table = PriceTable({"m": Rates(input=rate, output=rate, cache_read=rate // 10, cache_write=rate)})
    usage = Usage(
        input_tokens=fresh + read + write, cache_read_tokens=read, cache_write_tokens=write, output_tokens=output
    )
    more = attrs.evolve(usage, input_tokens=usage.input_tokens + 1, output_tokens=output + 1)
    price, dearer = table.price(MODEL, usage), table.price(MODEL, more)
    assert price is not None
    assert dearer is not None
    assert 0 <= price <= dearer
