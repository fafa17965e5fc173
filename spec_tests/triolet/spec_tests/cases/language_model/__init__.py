"""The suite of the LanguageModel port."""

from typing import Final

from triolet.spec_tests.cases.language_model.answering import ANSWERING
from triolet.spec_tests.cases.language_model.asking import ASKING
from triolet.spec_tests.cases.language_model.provider import (
    TRAITS,
    Act,
    Breaks,
    ModelSubject,
    Provider,
    Refuses,
    Says,
    Stalls,
)
from triolet.spec_tests.suite import Suite

__all__ = ["LANGUAGE_MODEL", "Act", "Breaks", "ModelSubject", "Provider", "Refuses", "Says", "Stalls"]

LANGUAGE_MODEL: Final = Suite(
    port="language-model",
    version=1,
    subject=ModelSubject,
    verbs=("identity", "stream"),
    cases=(*ANSWERING, *ASKING),
    traits=TRAITS,
)
