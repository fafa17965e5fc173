"""Every mutant, every suite, and the subjects that have to pass it."""

import shutil

from tests.mutants.account_mutants import ACCOUNT_MUTANTS
from tests.mutants.artifact_mutants import ARTIFACT_MUTANTS, Shelf, artifact_maker_of
from tests.mutants.executor_mutants import EXECUTOR_MUTANTS
from tests.mutants.executor_mutants import Executor as PassingExecutor
from tests.mutants.executor_mutants import maker_of as executor_maker_of
from tests.mutants.kernel_asking_mutants import ASKING_MUTANTS
from tests.mutants.kernel_budget_mutants import BUDGET_MUTANTS
from tests.mutants.kernel_call_mutants import CALL_MUTANTS
from tests.mutants.kernel_context_mutants import CONTEXT_MUTANTS
from tests.mutants.kernel_keeping_mutants import KEEPING_MUTANTS
from tests.mutants.kernel_limit_mutants import LIMIT_MUTANTS
from tests.mutants.kernel_program_mutants import PROGRAM_MUTANTS
from tests.mutants.kernel_run_mutants import RUN_MUTANTS
from tests.mutants.kernel_source_mutants import SOURCE_MUTANTS
from tests.mutants.kernel_steering_mutants import STEERING_MUTANTS
from tests.mutants.kernel_telling_mutants import TELLING_MUTANTS
from tests.mutants.ledger_mutants import LEDGER_MUTANTS
from tests.mutants.model_mutants import MODEL_MUTANTS, Adapter, maker_of
from tests.mutants.mutant import Mutant
from tests.mutants.sandbox_mutants import SANDBOX_MUTANTS
from tests.mutants.secret_mutants import SECRET_MUTANTS, Drawer, secret_maker_of
from tests.mutants.store_mutants import STORE_MUTANTS
from tests.mutants.store_reading_mutants import READING_MUTANTS
from tests.mutants.tool_source_mutants import TOOL_SOURCE_MUTANTS, Rack, tool_source_maker_of
from triolet.spec_tests import SUITES as BY_PORT
from triolet.spec_tests import Maker, makers
from triolet.spec_tests.ledger_makers import memory_ledger

SUITES = tuple(BY_PORT.values())

CONFORMING: dict[str, tuple[Maker, ...]] = {
    "conversation-store": (makers.memory_conversations,),
    # The second is what the mutants are made of; it has to be right before they can be wrong.
    "ledger": (memory_ledger,),
    "language-model": (makers.scripted_model, maker_of(Adapter)),
    # Those that use threads need a clock that does not jump: they are looked at with the shipped subjects.
    "artifact-store": (makers.memory_artifacts, artifact_maker_of(Shelf)),
    "secret-resolver": (makers.environment_secrets, secret_maker_of(Drawer)),
    "budgets": (makers.memory_budgets,),
    "code-executor": (makers.quickjs_wasm, executor_maker_of(PassingExecutor)),
    "tool-source": (makers.mcp_tools, tool_source_maker_of(Rack)),
    "kernel": (makers.kernel,),
    # Without the program, what is said of attacks is that they were not exercised.
    "sandbox": (makers.local_runner, *((makers.bubblewrap,) if shutil.which("bwrap") else ())),
}

MUTANTS: tuple[Mutant, ...] = (
    *SANDBOX_MUTANTS,
    *MODEL_MUTANTS,
    *STORE_MUTANTS,
    *READING_MUTANTS,
    *LEDGER_MUTANTS,
    *ARTIFACT_MUTANTS,
    *SECRET_MUTANTS,
    *ACCOUNT_MUTANTS,
    *EXECUTOR_MUTANTS,
    *TOOL_SOURCE_MUTANTS,
    *PROGRAM_MUTANTS,
    *RUN_MUTANTS,
    *CALL_MUTANTS,
    *LIMIT_MUTANTS,
    *ASKING_MUTANTS,
    *STEERING_MUTANTS,
    *TELLING_MUTANTS,
    *BUDGET_MUTANTS,
    *CONTEXT_MUTANTS,
    *KEEPING_MUTANTS,
    *SOURCE_MUTANTS,
)
