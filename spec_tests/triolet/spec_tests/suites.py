"""Every suite by the name of its port.

Decides only which there are. A new port adds its suite here, and everything else (certificates, the command,
coverage, mutants) finds it.
"""

from collections.abc import Mapping
from typing import Any, Final

from triolet.spec_tests.cases.artifact_store import ARTIFACT_STORE
from triolet.spec_tests.cases.budgets import BUDGETS
from triolet.spec_tests.cases.code_executor import CODE_EXECUTOR
from triolet.spec_tests.cases.conversation_store import CONVERSATION_STORE
from triolet.spec_tests.cases.kernel import KERNEL
from triolet.spec_tests.cases.language_model import LANGUAGE_MODEL
from triolet.spec_tests.cases.ledger import LEDGER
from triolet.spec_tests.cases.sandbox import SANDBOX
from triolet.spec_tests.cases.secret_resolver import SECRET_RESOLVER
from triolet.spec_tests.cases.tool_source import TOOL_SOURCE
from triolet.spec_tests.suite import Suite

SUITES: Final[Mapping[str, Suite[Any]]] = {
    suite.port: suite
    for suite in (
        LANGUAGE_MODEL,
        CONVERSATION_STORE,
        LEDGER,
        ARTIFACT_STORE,
        SECRET_RESOLVER,
        BUDGETS,
        KERNEL,
        SANDBOX,
        CODE_EXECUTOR,
        TOOL_SOURCE,
    )
}
