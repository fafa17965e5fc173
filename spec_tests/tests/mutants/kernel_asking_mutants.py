"""Wrong kernels: approval, suspension and authority."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, kernel_mutant
from triolet.kernel import Aborted, NotSuspended
from triolet.kernel.machine.approvals import POLICY
from triolet.kernel.machine.grants import covering
from triolet.kernel.machine.observations import AttemptResumed, Forbidden
from triolet.kernel.machine.outcome_table import denied
from triolet.kernel.machine.plan import next_action
from triolet.kernel.pipeline.runnable import Runnable
from triolet.ports.approval import ApprovalRequest
from triolet.ports.authorizer import Allow, Deny
from triolet.ports.identity import ANONYMOUS
from triolet.ports.language_model import ModelRequest
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import ApprovalDecided, AttemptStarted, ToolSettled


def _requests(patches: Patches, **wrong: Any) -> None:
    def request(original: Any) -> Any:
        return lambda self, call: attrs.evolve(original(self, call), **wrong)

    patches.wrap("triolet.kernel.pipeline.authority.Authority.request", request)


@kernel_mutant("APPR-001")
def shows_what_is_secret(patches: Patches) -> None:
    """A preview shows the input as it is."""

    def preview(original: Any) -> Any:
        def plain(call: Any) -> Any:
            return original(attrs.evolve(call, tool=attrs.evolve(call.tool, redact=None)))

        return plain

    patches.wrap("triolet.kernel.pipeline.authority._preview", preview)


@kernel_mutant("APPR-001")
def takes_targets_as_they_come(patches: Patches) -> None:
    """Targets are neither sorted nor made distinct."""
    patches.wrap("triolet.kernel.pipeline.authority._targets", lambda _: lambda call: call.tool.targets(call.input))


@kernel_mutant("APPR-001")
def calls_all_risks_low(patches: Patches) -> None:
    """A request does not tell the risk that its tool declares."""
    _requests(patches, risk="low")


@kernel_mutant("APPR-001")
def outlives_its_run(patches: Patches) -> None:
    """A request has its own time, whatever its run's is."""
    patches.wrap("triolet.kernel.pipeline.authority._earlier", lambda _: lambda own, deadline: own)


@kernel_mutant("APPR-001")
def forgives_denials(patches: Patches) -> None:
    """Every denial is recoverable."""
    _requests(patches, denial="recoverable")


@kernel_mutant("APPR-002")
def takes_silence_for_a_yes(patches: Patches) -> None:
    """Where nobody answers the call runs."""

    def silent(original: Any) -> Any:
        def consenting(state: Any, seen: Any) -> Any:
            return tuple(
                attrs.evolve(record, verdict="approved")
                for record in original(state, seen)
                if isinstance(record, ApprovalDecided)
            )

        return consenting

    _observe(patches, "ApprovalSilent", silent)


@kernel_mutant("APPR-002")
def takes_any_answer(patches: Patches) -> None:
    """An answer counts whatever arguments it is about."""

    def answered(original: Any) -> Any:
        def lenient(state: Any, seen: Any) -> Any:
            return original(state, attrs.evolve(seen, decision=attrs.evolve(seen.decision, arguments=None)))

        return lenient

    _observe(patches, "ApprovalAnswered", answered)


@kernel_mutant("APPR-002")
def runs_what_was_asked_for(patches: Patches) -> None:
    """Edited input is recorded, and the call runs on its own."""

    def understood(original: Any) -> Any:
        def unedited(toolkit: Any, call: Any, answer: Any) -> Any:
            return original(toolkit, call, None)

        return unedited

    patches.wrap("triolet.kernel.pipeline.judge._understood", understood)


@kernel_mutant("APPR-002")
def grants_by_name(patches: Patches) -> None:
    """A grant covers every later call of its tool."""

    def any_of_the_tool(_: Any) -> Any:
        def cover(grants: Any, request: ApprovalRequest, at: Any) -> Any:
            loose = tuple(attrs.evolve(grant, arguments=request.arguments) for grant in grants)
            return covering(loose, request, at)

        return cover

    patches.wrap("triolet.kernel.machine.approvals.covering", any_of_the_tool)


@kernel_mutant("APPR-003")
def asks_before_it_knows(patches: Patches) -> None:
    """A request is committed before a desk is asked what it knows."""

    def offer(_: Any) -> Any:
        async def nothing(self: Any, requests: Any) -> Any:
            return []

        return nothing

    patches.wrap("triolet.kernel.approval_desk.ApprovalDesk.offer", offer)


@kernel_mutant("CAP-006")
def records_nobody(patches: Patches) -> None:
    """An answer is recorded as the policy's, whoever gave it."""

    def answered(original: Any) -> Any:
        return lambda state, seen: tuple(
            attrs.evolve(record, by=POLICY, reason="") if isinstance(record, ApprovalDecided) else record
            for record in original(state, seen)
        )

    _observe(patches, "ApprovalAnswered", answered)


@kernel_mutant("TOOL-004")
def starts_before_it_is_answered(patches: Patches) -> None:
    """What needs no yes starts while its batch still waits for one."""
    _start_early(patches, before=False)


@kernel_mutant("APPR-005")
def runs_before_it_records(patches: Patches) -> None:
    """A resumed attempt puts its answers on record once their calls have run."""

    def flush(original: Any) -> Any:
        async def late(self: Any) -> None:
            pending = [record for _, record in self._pending]
            resumed = any(isinstance(each, AttemptStarted) and each.recovery == "resumed" for each in pending)
            answered = any(isinstance(each, ApprovalDecided) for each in pending)
            settled = any(isinstance(each, ToolSettled) for each in pending)
            if resumed and answered and not settled and not next_action(self._state).waits:
                return
            await original(self)

        return late

    patches.wrap("triolet.kernel.interpreter.Interpreter._flush", flush)


@kernel_mutant("APPR-005")
def asks_the_model_again(patches: Patches) -> None:
    """A resumed attempt asks its model before it goes on."""

    def drive(original: Any) -> Any:
        async def asking(self: Any, opening: Any, **options: Any) -> None:
            if isinstance(opening, AttemptResumed):
                request = ModelRequest(run=self._run, turn=1, attempt=2, instructions="", messages=())
                async with self._seam._model_call._model.stream(request):
                    pass
            await original(self, opening, **options)

        return asking

    patches.wrap("triolet.kernel.interpreter.Interpreter.drive", drive)


@kernel_mutant("APPR-005")
def wants_all_answers_at_once(patches: Patches) -> None:
    """A resumed attempt takes its answers only if none is missing, and forgets them."""

    def drive(original: Any) -> Any:
        async def strict(self: Any, opening: Any, **options: Any) -> None:
            if isinstance(opening, AttemptResumed) and len(opening.answers) < 2:
                opening = attrs.evolve(opening, answers={})
            await original(self, opening, **options)

        return strict

    patches.wrap("triolet.kernel.interpreter.Interpreter.drive", drive)


@kernel_mutant("APPR-005")
def shrugs_at_a_second_resume(patches: Patches) -> None:
    """Who resumes what does not wait any more gets a result that was made up."""

    def resume(original: Any) -> Any:
        async def inventing(self: Any, suspended: Any) -> Any:
            try:
                return await original(self, suspended)
            except NotSuspended:
                return Aborted(
                    run=suspended.run,
                    conversation=suspended.conversation,
                    usage=suspended.usage,
                    turns=suspended.turns,
                    reason="lost",
                )

        return inventing

    patches.wrap("triolet.kernel.kernel.Kernel.resume", resume)


@kernel_mutant("APPR-005")
def forgets_answers_too_early(patches: Patches) -> None:
    """Answers leave the inbox when they are read, before anything is on record."""

    def resume(original: Any) -> Any:
        async def hasty(self: Any, suspended: Any) -> Any:
            inbox = self._inbox()
            requests = tuple(request.id for request in suspended.requests)
            answers = await inbox.take(requests)
            await inbox.discard(requests)
            for request, answer in answers.items():
                await inbox.post(request, answer)
            try:
                return await original(self, suspended)
            except OSError:
                await inbox.discard(requests)
                raise

        return hasty

    patches.wrap("triolet.kernel.kernel.Kernel.resume", resume)


@kernel_mutant("RUN-002")
def suspends_twice(patches: Patches) -> None:
    """A suspended attempt's trace shows its end twice."""

    def suspend(original: Any) -> Any:
        def twice(self: Any, run: Any, *waits: Any) -> None:
            original(self, run, *waits)
            self._semantic.append(self.terminal)
            original(self, run, *waits)

        return twice

    patches.wrap("triolet.kernel.trace.EventSource.suspend", suspend)


@kernel_mutant("RUN-031")
def starts_while_it_asks(patches: Patches) -> None:
    """A call that authority allows starts before the next one is asked about."""
    _start_early(patches, before=True)


@kernel_mutant("RUN-031")
def shrugs_at_denials(patches: Patches) -> None:
    """Every denial of an authorizer is that call's result."""

    def allowed(original: Any) -> Any:
        def soft(*args: Any) -> Any:
            made = original(*args)
            return denied("denied", made.reason) if isinstance(made, Forbidden) else made

        return soft

    patches.wrap("triolet.kernel.pipeline.judge._allowed", allowed)


@kernel_mutant("RUN-031")
def fails_at_any_denial(patches: Patches) -> None:
    """Every denial of an authorizer fails the run."""

    def allowed(original: Any) -> Any:
        def hard(*args: Any) -> Any:
            made = original(*args)
            return Forbidden(reason=made.detail) if isinstance(made, ToolRejected) else made

        return hard

    patches.wrap("triolet.kernel.pipeline.judge._allowed", allowed)


@kernel_mutant("RUN-031")
def allows_what_needs_a_yes(patches: Patches) -> None:
    """Where authority wants an approval, the call runs without."""
    _authorize(patches, lambda verdict: verdict if isinstance(verdict, Deny) else Allow())


@kernel_mutant("SEC-003", "RUN-031")
def remembers_what_was_allowed(patches: Patches) -> None:
    """What authority allowed once it is not asked about again."""
    known: dict[Any, Any] = {}

    def authorize(original: Any) -> Any:
        async def remembering(self: Any, call: Any) -> Any:
            if call.call.id not in known:
                known[call.call.id] = await original(self, call)
            return known[call.call.id]

        return remembering

    patches.wrap("triolet.kernel.pipeline.authority.Authority.authorize", authorize)


@kernel_mutant("SEC-003", "RUN-031")
def resumes_as_nobody(patches: Patches) -> None:
    """On resuming authority is asked for nobody in particular."""
    known: set[Any] = set()

    def authorize(original: Any) -> Any:
        async def nobody(self: Any, call: Any) -> Any:
            if call.call.id in known:
                self._started = attrs.evolve(self._started, principal=ANONYMOUS)
            known.add(call.call.id)
            return await original(self, call)

        return nobody

    patches.wrap("triolet.kernel.pipeline.authority.Authority.authorize", authorize)


def _authorize(patches: Patches, change: Any) -> None:
    def authorize(original: Any) -> Any:
        async def changed(self: Any, call: Any) -> Any:
            return change(await original(self, call))

        return changed

    patches.wrap("triolet.kernel.pipeline.authority.Authority.authorize", authorize)


def _observe(patches: Patches, name: str, wrapper: Any) -> None:
    """Replace the rule of one observation, where the machine looks it up."""
    from triolet.kernel.machine import decide, observations

    kind = getattr(observations, name)
    phases, rule = decide._RULES[kind]
    patches.replace_item(decide._RULES, kind, (phases, wrapper(rule)))


def _start_early(patches: Patches, *, before: bool) -> None:
    """Start handlers of what is allowed, one by one (`before`), or once all of the batch was judged."""

    def start(judgement: Any) -> None:
        if isinstance(judgement, Runnable):
            started: Any = judgement.tool.handler(judgement.input, None)  # type: ignore[arg-type]  # a mutant
            try:
                started.send(None)
            except StopIteration:
                return
            started.close()

    def judge(original: Any) -> Any:
        async def eager(toolkit: Any, action: Any, authority: Any) -> Any:
            judged: dict[Any, Any] = {}
            for call in action.calls:
                judged.update(await original(toolkit, attrs.evolve(action, calls=(call,)), authority))
                if before:
                    start(judged[call.id])
            if not before and any(isinstance(each, ApprovalRequest) for each in judged.values()):
                for each in judged.values():
                    start(each)
            return judged

        return eager

    patches.wrap("triolet.kernel.call_batch.judge_with_authority", judge)


ASKING_MUTANTS: tuple[Mutant, ...] = tuple(each for each in vars().values() if isinstance(each, Mutant))
