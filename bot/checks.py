"""Whether what a person sent is a decision that can be recorded on this inquiry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any

from agent_runner import policy, tool_shapes
from agent_runner.config import Config
from agent_runner.digest import SHORT, canonical
from agent_runner.errors import FixInput, ShowAgain
from agent_runner.model import Actor, Decision, Inquiry, Kind, Scope, Verdict
from bot import limiting
from bot.commands import Chose
from cards import choices, limits
from cards.model import Verb


class Checks:
    """The checks of one installation: an edited call is judged by its policy."""

    def __init__(
        self,
        config: Config,
        needs_approval: policy.NeedsApproval | None,
        people: Callable[[], policy.People],
        zone: tzinfo,
    ) -> None:
        self.config = config
        self.needs_approval = needs_approval
        self.people = people
        self.zone = zone

    def _saw_this(self, inquiry: Inquiry, command: Chose) -> None:
        """What the person saw must be what is stored (B08)."""
        seen = command.digest.lower()
        if seen and (len(seen) < SHORT or not inquiry.digest.startswith(seen)):
            raise ShowAgain(
                "What you saw is not what is asked now; nothing was decided.",
                hint="Look at the request again and decide on what it shows.",
                digest=inquiry.digest,
            )
        if command.revision is not None and command.revision > inquiry.revision:
            raise ShowAgain("This button belongs to another version of the request.", hint="Look again.")

    def decision(self, inquiry: Inquiry, command: Chose, now: datetime, *, acting_for: str = "") -> Decision:
        """The decision to record; raises `ShowAgain` or `FixInput` when it may not be recorded so."""
        self._saw_this(inquiry, command)
        if command.break_glass:
            self._check_alone(inquiry, command)
        if acting_for and command.scope in _RULED:
            raise FixInput("Whoever stands in for somebody approves this call only.", hint="Leave out scope.")
        command = command.having(limits=limiting.asked(inquiry, command, zone=self.zone, now=now))
        if limits.is_limit(inquiry) and command.verdict is Verdict.CHANGE:
            command = _with_amount(inquiry, command)
        check = _CHECKS[command.verdict]
        check(self, inquiry, command)
        self._check_limits(inquiry, command, now)
        answers = command.answers if command.verdict is Verdict.ANSWER else None
        return Decision(
            verdict=command.verdict,
            by=command.actor,
            at=now,
            reason=command.reason.strip(),
            conditions=command.conditions.strip(),
            limits=command.limits,
            input=command.input if command.verdict is Verdict.CHANGE else None,
            answers=answers,
            scope=command.scope,
            rule=inquiry.offer if command.scope in _RULED else "",
            until=self._until(inquiry, command.scope, now),
            acting_for=acting_for,
            break_glass=command.break_glass,
        )

    def _check_alone(self, inquiry: Inquiry, command: Chose) -> None:
        """What an approval without the others takes: a reason, and that they mean this very request."""
        if command.verdict is not Verdict.APPROVE or command.scope is not Scope.ONCE:
            raise FixInput("Break-glass only approves, and only once.", hint='Send verdict "approve".')
        if not command.reason.strip():
            raise FixInput("Field reason is missing: why alone?", hint="Everybody in the route reads it.")
        wanted = f"#{inquiry.number}"
        if command.confirm.strip() != wanted:
            raise FixInput(
                f'Field confirm must be "{wanted}".', hint="It says that you mean this request, alone."
            )
        if command.revision is not None and command.revision != inquiry.revision:
            raise ShowAgain("The request has changed since; nothing was decided.", hint="Look again.")
        call = call_of(inquiry)
        judgement = policy.judge(self.config.policy, call, needs_approval=self.needs_approval)
        if judgement.effect == "deny":
            raise FixInput(
                f"The policy forbids this call (rule: {judgement.rule}); break-glass does not change that.",
                hint="Reject it, or change the policy.",
            )

    def _until(self, inquiry: Inquiry, scope: Scope, now: datetime) -> datetime | None:
        """When what is approved with this call ends; never later than it was spelled out."""
        rules = self.config.policy
        if scope is Scope.RULE:
            return now + rules.approval_valid_for
        if scope is Scope.UNTIL and inquiry.offer_for is not None:
            return now + min(inquiry.offer_for, rules.grant_for)
        return None

    def _check_approve(self, inquiry: Inquiry, command: Chose) -> None:
        if inquiry.kind is Kind.QUESTION:
            raise FixInput("This is a question: answer it.", hint='Send verdict "answer" with answers.')
        if command.input is not None or command.conditions.strip():
            raise FixInput("Approve takes no changes.", hint='Send verdict "change" with them.')
        if (
            command.scope is Scope.RULE
            and inquiry.kind is Kind.PLAN
            and Verb.ALWAYS_RULE in choices.verbs(inquiry)
        ):
            return  # the plan, and edits of files while it is carried out
        if command.scope is not Scope.ONCE and not (choices.is_call(inquiry) and inquiry.quorum == 1):
            raise FixInput(
                "Only a tool call that one person can approve may be approved for more than once.",
                hint="Leave out scope.",
            )
        if command.scope in _RULED and not (inquiry.offer and inquiry.offer_for):
            raise FixInput(
                "There is no rule for this call that could be approved.",
                hint='Leave out scope, or send "task" for exactly this call.',
            )

    def _check_change(self, inquiry: Inquiry, command: Chose) -> None:
        if inquiry.kind is Kind.QUESTION:
            raise FixInput("This is a question: answer it.", hint='Send verdict "answer" with answers.')
        if inquiry.quorum > 1:
            raise FixInput(
                f"Request #{inquiry.number} needs {inquiry.quorum} people to approve the same thing.",
                hint="Reject it with your words instead; the revised call is shown to all again.",
            )
        if command.scope is not Scope.ONCE:
            raise FixInput("A changed call can only be approved once.", hint="Leave out scope.")
        if command.input is None:
            if not command.conditions.strip() and not command.limits:
                raise FixInput("What should change?", hint="Give an edited input, or conditions in words.")
            return
        if limits.is_limit(inquiry):
            return
        if not choices.is_call(inquiry):
            raise FixInput("This is changed in words.", hint="Send conditions instead of an input.")
        self._check_edited(inquiry, command.input, command)

    def _check_edited(self, inquiry: Inquiry, edited: dict[str, Any], command: Chose) -> None:
        try:
            same = canonical(edited) == canonical(inquiry.tool_input)
        except (ValueError, TypeError) as error:
            raise FixInput(f"The edited input is not JSON: {error}.", hint="Correct it.") from None
        if same:
            raise FixInput("The input is unchanged.", hint="Approve it as it is, or change something.")
        tool_shapes.check(inquiry.tool_name, inquiry.tool_input, edited)
        if isinstance(edited.get("command"), str) and not str(edited["command"]).strip():
            raise FixInput("The command is empty.", hint="Reject the request if nothing should run.")
        call = call_of(inquiry, edited)
        judgement = policy.judge(self.config.policy, call, needs_approval=self.needs_approval)
        if judgement.effect == "deny":
            raise FixInput(
                f"The edited call is forbidden by the policy (rule: {judgement.rule}).",
                hint="Change it to something the policy allows.",
            )
        self._may_decide_edited(inquiry, call, command.actor)

    def _check_limits(self, inquiry: Inquiry, command: Chose, now: datetime) -> None:
        """Nobody approves what cannot run: a condition that the call breaks already is refused."""
        if command.limits:
            call = call_of(inquiry, command.input)
            limiting.check(command.limits, call, zone=self.zone, now=now)

    def _may_decide_edited(self, inquiry: Inquiry, call: policy.Call, actor: Actor) -> None:
        """An edit must not move the call to where others would have had to decide."""
        route = policy.route(self.config.policy, call)
        allowed = policy.may_decide(
            actor,
            approvers=policy.approvers_now(route, inquiry),
            requester_may_decide=route.requester_may_decide,
            asked_by=inquiry.asked_by,
            people=self.people(),
        )
        if not allowed or route.quorum > 1:
            names = policy.names_of(route.approvers, inquiry.asked_by, self.people())
            raise FixInput(
                "The edited call needs the approval of others.",
                hint=f"Send it back with your words instead; these decide on it: {', '.join(names)}.",
            )

    def _check_reject(self, _inquiry: Inquiry, command: Chose) -> None:
        if not command.reason.strip():
            raise FixInput("Why not? A reason is needed.", hint="The agent reads it word for word.")

    def _check_answer(self, inquiry: Inquiry, command: Chose) -> None:
        if inquiry.kind is not Kind.QUESTION:
            raise FixInput("This is no question.", hint="Approve, change or reject it.")
        asked = [question.text for question in choices.questions(inquiry.tool_input)]
        if not asked:  # then even no answer at all would be complete (A10)
            raise FixInput("Its questions cannot be read.", hint="Reject it and say what you want.")
        answers = command.answers or {}
        missing = [q for q in asked if not answers.get(q, "").strip()]
        if missing:
            raise FixInput(f"Not answered yet: {'; '.join(missing)}", hint="Answer every question.")
        unknown = [q for q in answers if q not in asked]
        if unknown:
            raise FixInput(f"Not asked: {'; '.join(unknown)}", hint=f"The questions are: {'; '.join(asked)}")


_RULED = (Scope.RULE, Scope.UNTIL)
_CHECKS: dict[Verdict, Callable[[Checks, Inquiry, Chose], None]] = {
    Verdict.APPROVE: Checks._check_approve,
    Verdict.CHANGE: Checks._check_change,
    Verdict.REJECT: Checks._check_reject,
    Verdict.ANSWER: Checks._check_answer,
}


def call_of(inquiry: Inquiry, edited: dict[str, Any] | None = None) -> policy.Call:
    """The call as it was asked, or with an edited input, as the policy sees it."""
    return policy.Call(
        tool_name=inquiry.tool_name,
        tool_input=inquiry.tool_input if edited is None else edited,
        cwd=inquiry.cwd,
        workspace=inquiry.workspace,
    )


def _with_amount(inquiry: Inquiry, command: Chose) -> Chose:
    """Going on with another amount: in the input's `more`, or as the only words."""
    try:
        if command.input is None:
            amount, words = limits.amount_in(inquiry, command.conditions), ""
        else:
            amount, words = limits.checked(inquiry, command.input.get("more")), command.conditions
    except limits.BadAmount:
        raise FixInput(
            f"How much more? A number above 0, at most {limits.most(inquiry)}.",
            hint='Send it as input {"more": 5}, or as conditions; or approve what is asked for.',
        ) from None
    whole = limits.with_amount(inquiry, amount)
    others = {**whole, **(command.input or {}), "more": whole["more"]}
    if others != whole:
        raise FixInput("Only `more` can be changed here.", hint='Send input {"more": 5}.')
    changed: Chose = command.having(input=whole, conditions=words)
    return changed
