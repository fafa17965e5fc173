"""The suite of the ArtifactStore port."""

from typing import Final

from triolet.spec_tests.cases.artifact_store.guarding import GUARDING
from triolet.spec_tests.cases.artifact_store.keeping import KEEPING
from triolet.spec_tests.cases.artifact_store.setting import ArtifactSubject
from triolet.spec_tests.suite import Suite

__all__ = ["ARTIFACT_STORE", "ArtifactSubject"]

ARTIFACT_STORE: Final = Suite(
    port="artifact-store",
    version=1,
    subject=ArtifactSubject,
    verbs=("delete", "describe", "get", "put"),
    cases=(*KEEPING, *GUARDING),
)
