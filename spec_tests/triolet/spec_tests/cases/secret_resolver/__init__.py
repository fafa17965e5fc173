"""The suite of the SecretResolver port."""

from typing import Final

from triolet.spec_tests.cases.secret_resolver.resolving import RESOLVING
from triolet.spec_tests.cases.secret_resolver.setting import SecretSubject
from triolet.spec_tests.suite import Suite

__all__ = ["SECRET_RESOLVER", "SecretSubject"]

SECRET_RESOLVER: Final = Suite(
    port="secret-resolver",
    version=1,
    subject=SecretSubject,
    verbs=("resolve",),
    cases=RESOLVING,
)
