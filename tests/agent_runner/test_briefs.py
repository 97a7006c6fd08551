from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner import briefs
from agent_runner.model import REQUEST_APPROVAL, Inquiry
from tests.fakes.values import a_decision, a_plan, an_inquiry

EDITED = {"command": "kubectl rollout restart deploy/checkout -n staging"}
NO = "Do not try to reach the same effect in another way."
CALL = 'Bash with input\n{\n "command": "kubectl rollout restart deploy/checkout"\n}'


def said(verdict: str, **words: object) -> Inquiry:
    """The ordinary call with Lin's word on it."""
    states = {"approve": "approved", "change": "changed", "reject": "rejected"}
    return an_inquiry(state=states[verdict], decision=a_decision(verdict, **words))


@pytest.mark.parametrize(
    ("text", "golden"),
    [
        (
            briefs.rejected(said("reject", reason="use the\ncanary first")),
            "Rejected by Lin. It did not run. Their reason, word for word:\nuse the\ncanary first\n" + NO,
        ),
        (briefs.rejected(an_inquiry()), f"Rejected by somebody. It did not run. {NO}"),
        (
            briefs.conditions(said("change", conditions="only in staging")),
            "Not run as it stands. Lin agrees with changes; their words:\nonly in staging\n"
            "Issue the call again, revised to meet these words; it will be shown to them before it runs. "
            "If the words cannot be met, say why instead.",
        ),
        (
            briefs.expired(an_inquiry()),
            "Nobody answered until 2026-03-02 22:00 UTC. It did not run. This is not a refusal: nobody "
            f"decided. {NO} Say what remains undone and end; people can ask for it again.",
        ),
        (
            briefs.withdrawn(),
            f"Withdrawn: the job was stopped while this call waited. It did not run. {NO}",
        ),
        (
            briefs.unknown(),
            "Outcome unknown: this call was started before, the worker stopped, and it may or may not have "
            "taken effect. It is not run again by itself. Check the present state with read-only steps and "
            "report it.",
        ),
        (
            briefs.denied_by_rule("Bash(sudo *)"),
            f"Forbidden by this workspace's policy (rule: Bash(sudo *)). Nobody was asked. {NO}",
        ),
        (
            briefs.one_at_a_time(),
            "Not run yet: another call of this turn waits for a person, and calls that need approval go one "
            "at a time. After that one is settled, issue this call again exactly as it was.",
        ),
        (
            briefs.not_in_subagent(),
            "Not run: a subagent can neither ask a question nor have a plan approved. Hand this need back: "
            "end, and report it, so that the main agent can do it.",
        ),
        (
            briefs.asked_together(),
            "Not run yet: people are asked about this call together with the other one of this turn that "
            "waits for them. Do nothing about it now; you will be told what they decided.",
        ),
        (
            briefs.of_siblings([said("approve"), said("reject", reason="no")]),
            "What was decided about the other calls of that turn:\n1. Bash with input\n"
            '{\n "command": "kubectl rollout restart deploy/checkout"\n}\n'
            "Approved by Lin. It did not run yet: make this call again, exactly as it was.\n"
            '2. Bash with input\n{\n "command": "kubectl rollout restart deploy/checkout"\n}\n'
            f"Rejected by Lin. It did not run. Their reason, word for word:\nno\n{NO}",
        ),
        (
            briefs.refused_often(),
            "Not run, and nobody was asked again: people have refused exactly this call three times. "
            f"{NO} Stop here and say what you would need.",
        ),
        (
            briefs.nobody_answered(an_inquiry()),
            "Nobody answered until 2026-03-02 22:00 UTC. It did not run. This is not a refusal: nobody "
            f"decided. {NO} Hand it back: end, and report the exact call, so that the main agent can make "
            "it; it can wait for people for longer.",
        ),
        (briefs.not_run("its approval is too old."), f"Not run: its approval is too old. {NO}"),
        (
            briefs.ran_as_changed(said("change", input=EDITED, conditions="staging only")),
            "Lin approved this call with changes. What ran instead of your input:\n"
            '{\n "command": "kubectl rollout restart deploy/checkout -n staging"\n}'
            " Their words:\nstaging only",
        ),
        (
            briefs.asked_again(said("approve")),
            f"Lin has now approved the request that had expired. Make this call:\n{CALL}",
        ),
        (
            briefs.asked_again(an_inquiry(state="expired")),
            "The request that had expired was asked again; again nobody answered. It did not run:\n" + CALL,
        ),
        (
            briefs.asked_again(said("reject", reason="no")),
            f"The request that had expired was asked again:\n{CALL}\n"
            f"Rejected by Lin. It did not run. Their reason, word for word:\nno\n{NO}",
        ),
        (
            briefs.asked_again(said("change", conditions="later")),
            f"The request that had expired was asked again:\n{CALL}\n"
            "Not run as it stands. Lin agrees with changes; their words:\nlater\n"
            "Issue the call again, revised to meet these words; it will be shown to them before it runs. "
            "If the words cannot be met, say why instead.",
        ),
        (
            # The call as asked is what the gate knows again; it puts the edited input in its place.
            briefs.asked_again(said("change", input=EDITED)),
            f"Lin has now approved the request that had expired. Make this call:\n{CALL}",
        ),
        (
            briefs.taken_up_again("restart the pods"),
            "The worker that ran this turn stopped in the middle. Check what was already done before "
            "repeating any step, then go on. The request was:\n\nrestart the pods",
        ),
        (
            briefs.approved_plan(a_plan(state="approved", decision=a_decision())),
            "Lin approved this plan:\n1. look\n2. restart",
        ),
        (
            briefs.approved_step(said("approve")),
            "Approved by Lin. Go on with exactly the step that was described.",
        ),
        (
            briefs.approved_step(said("change", conditions="after 18:00")),
            "Approved by Lin under these conditions, word for word:\nafter 18:00",
        ),
        (briefs.approved_step(an_inquiry()), "No decision is on record. Do not go on with this step."),
    ],
)
def test_what_the_model_reads(text: str, golden: str) -> None:
    """Every sentence whole."""
    assert text == golden


def test_different_ends_are_different_words() -> None:
    """No two ways of not running read alike, and none of them is "the user denied"."""
    texts = [
        briefs.rejected(said("reject", reason="no")),
        briefs.expired(an_inquiry()),
        briefs.withdrawn(),
        briefs.unknown(),
        briefs.denied_by_rule("Bash"),
        briefs.one_at_a_time(),
        briefs.not_in_subagent(),
        briefs.not_run("x."),
        briefs.conditions(said("change", conditions="c")),
    ]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "brief",
    [
        briefs.expired,
        briefs.rejected,
        lambda _: briefs.withdrawn(),
        lambda _: briefs.denied_by_rule("Bash"),
        lambda _: briefs.not_run("x."),
    ],
    ids=["expired", "rejected", "withdrawn", "forbidden", "not run"],
)
def test_case_b11_no_refusal_invites_a_way_around(brief: Callable[[Inquiry], str]) -> None:
    """Nobody answering is no refusal, and neither is an invitation to try something else."""
    assert NO in brief(an_inquiry())
    assert "denied" not in briefs.expired(an_inquiry()).lower()


@given(st.text(min_size=1), st.sampled_from(["reject", "conditions", "ran", "step", "again"]))
def test_a_persons_words_reach_the_model_as_typed(words: str, where: str) -> None:
    """Character for character, on lines of their own."""
    texts = {
        "reject": lambda: briefs.rejected(said("reject", reason=words)),
        "conditions": lambda: briefs.conditions(said("change", conditions=words)),
        "ran": lambda: briefs.ran_as_changed(said("change", input=EDITED, conditions=words)),
        "step": lambda: briefs.approved_step(
            an_inquiry(
                tool_name=REQUEST_APPROVAL,
                state="changed",
                decision=a_decision("change", conditions=words),
            )
        ),
        "again": lambda: briefs.asked_again(said("reject", reason=words)),
    }
    assert f"\n{words}" in texts[where]()
