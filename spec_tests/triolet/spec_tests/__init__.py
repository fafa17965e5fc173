"""The conformance suite that is shipped: cases, the certificates they lead to, and the requirements they stand for.

Everything named here is public; modules below are not, but for the makers in `triolet.spec_tests.makers`, the
stand-ins beside them, and the vectors, which are read as files.
"""

from triolet.spec_tests.cases.artifact_store import ARTIFACT_STORE, ArtifactSubject
from triolet.spec_tests.cases.budgets import BUDGETS, BudgetSubject
from triolet.spec_tests.cases.code_executor import CODE_EXECUTOR, ExecutorSubject
from triolet.spec_tests.cases.conversation_store import CONVERSATION_STORE, StoreSubject
from triolet.spec_tests.cases.kernel import KERNEL, KernelSubject
from triolet.spec_tests.cases.language_model import (
    LANGUAGE_MODEL,
    Act,
    Breaks,
    ModelSubject,
    Provider,
    Refuses,
    Says,
    Stalls,
)
from triolet.spec_tests.cases.ledger import LEDGER, LedgerSubject
from triolet.spec_tests.cases.sandbox import SANDBOX, KnownSecret, SandboxSubject
from triolet.spec_tests.cases.secret_resolver import SECRET_RESOLVER, SecretSubject
from triolet.spec_tests.cases.tool_source import TOOL_SOURCE, ToolSourceSubject
from triolet.spec_tests.catalogue import CATALOGUE, MILESTONES, Requirement
from triolet.spec_tests.certificate import Certificate, Declared, Row, published_schema
from triolet.spec_tests.certificate_page import page, row_line
from triolet.spec_tests.certifying import InvalidSelection, certify
from triolet.spec_tests.claims import (
    NotExercised,
    NotTriggered,
    SpecViolation,
    ensure,
    ensure_equal,
    ensure_raises,
    lever,
    not_triggered,
)
from triolet.spec_tests.coverage_rows import CoverageRow, coverage
from triolet.spec_tests.definition import Case, case
from triolet.spec_tests.isolation.supervisor import certify_target
from triolet.spec_tests.isolation.target import BadTarget
from triolet.spec_tests.running import LIMIT_SECONDS, CaseRun, run_case
from triolet.spec_tests.subject import Maker, Subject
from triolet.spec_tests.suite import Suite
from triolet.spec_tests.suites import SUITES

__all__ = [
    "ARTIFACT_STORE",
    "BUDGETS",
    "CATALOGUE",
    "CODE_EXECUTOR",
    "CONVERSATION_STORE",
    "KERNEL",
    "LANGUAGE_MODEL",
    "LEDGER",
    "LIMIT_SECONDS",
    "MILESTONES",
    "SANDBOX",
    "SECRET_RESOLVER",
    "SUITES",
    "TOOL_SOURCE",
    "Act",
    "ArtifactSubject",
    "BadTarget",
    "Breaks",
    "BudgetSubject",
    "Case",
    "CaseRun",
    "Certificate",
    "CoverageRow",
    "Declared",
    "ExecutorSubject",
    "InvalidSelection",
    "KernelSubject",
    "KnownSecret",
    "LedgerSubject",
    "Maker",
    "ModelSubject",
    "NotExercised",
    "NotTriggered",
    "Provider",
    "Refuses",
    "Requirement",
    "Row",
    "SandboxSubject",
    "Says",
    "SecretSubject",
    "SpecViolation",
    "Stalls",
    "StoreSubject",
    "Subject",
    "Suite",
    "ToolSourceSubject",
    "case",
    "certify",
    "certify_target",
    "coverage",
    "ensure",
    "ensure_equal",
    "ensure_raises",
    "lever",
    "not_triggered",
    "page",
    "published_schema",
    "row_line",
    "run_case",
]
