"""What the rehearsal says and does, without the CLI."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from agent_runner.messages_api import (
    Answer,
    Request,
    Text,
    ToolResult,
    ToolUse,
)
from agent_runner.rehearsal import REQUEST_APPROVAL, language_of, rehearsal
from agent_runner.rehearsal_words import QUESTIONS, WORDS

EVERY_TOOL = ("Bash", "Write", "Edit", "Glob", "AskUserQuestion", "ExitPlanMode", REQUEST_APPROVAL)
PLAN_MODE = "Plan mode is active. You should create your plan at /state/plans/a-b.md using the Write tool."
CWD = " - Primary working directory: /srv/ops\n - Is a git repository: false"
CLOSING = "\n\n".join(["", WORDS["rehearsal"]["en"], WORDS["try_next"]["en"]])


Tool = Callable[[ToolUse], ToolResult]


def play(job: str, tool: Tool, *, tools: tuple[str, ...] = EVERY_TOOL, plan: bool = False) -> list[Any]:
    """The whole rehearsal of one job as (tool, input) pairs and at last the result text."""
    notes = [{"type": "text", "text": CWD}, *([{"type": "text", "text": PLAN_MODE}] if plan else [])]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": job}]},
        {"role": "system", "content": notes},
    ]
    said: list[Any] = []
    for _ in range(10):
        request = Request({"messages": messages, "tools": [{"name": name} for name in tools]})
        blocks = rehearsal(request).blocks
        calls = [block for block in blocks if isinstance(block, ToolUse)]
        if not calls:
            return [*said, *(block.text for block in blocks if isinstance(block, Text))]
        said += [(call.name, call.input) for call in calls]
        uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.input} for c in calls]
        results = [_result(tool(call), call.id) for call in calls]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    raise AssertionError("the rehearsal does not come to an end")


def _result(result: ToolResult, call_id: str) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": result.text,
        "is_error": result.is_error,
    }


def ok(text: str) -> Tool:
    """Every call succeeds with this text."""
    return lambda call: ToolResult(call.id, text)


def approve(call: ToolUse) -> ToolResult:
    """Every call succeeds; Bash prints what its printf would print."""
    lines = call.input["command"].split("'")[3::2] if call.name == "Bash" else ["done"]
    return ToolResult(call.id, "\n".join(lines))


def refuse(words: str) -> Tool:
    """Every call that changes something is refused with these words; looking is free."""

    def tool(call: ToolUse) -> ToolResult:
        if call.name == "Glob":
            return ToolResult(call.id, "")
        return ToolResult(call.id, f"PreToolUse:{call.name} hook error: {words}", True)

    return tool


GREET = {
    "command": "printf '%s\\n' 'Hello from the rehearsal' | tee hello.txt",
    "description": "Write a greeting to hello.txt",
}
LOOK = ("Glob", {"pattern": "*"})


def test_default_story_runs_one_gated_command() -> None:
    """Look for free, run one command, say what ran and what to try next."""
    assert play("say hello", approve) == [
        LOOK,
        ("Bash", GREET),
        "You approved, and the command ran as I asked. hello.txt now holds:\nHello from the rehearsal"
        + CLOSING,
    ]


def test_a_refusal_is_quoted_word_for_word() -> None:
    """The person's words are in the result, without the engine's prefix."""
    assert play("say hello", refuse('not "today", 明日')) == [
        LOOK,
        ("Bash", GREET),
        'It did not run. I was told:\nnot "today", 明日' + CLOSING,
    ]


def test_an_edited_call_is_noticed() -> None:
    """When something else came back than was asked for, the result says so and quotes it."""
    assert play("say hello", ok("Hello from Lin"))[-1] == (
        "It ran, but not as I asked: you changed it. What came back:\nHello from Lin" + CLOSING
    )


def test_conditions_in_words_bring_the_call_back_revised() -> None:
    """Asked to revise, the call is issued again with the words in it, safely quoted."""
    brief = "Lin agrees with changes; their words:\nsay it's me\nIssue the call again, revised."
    answers = iter([refuse(brief), approve])

    def tool(call: ToolUse) -> ToolResult:
        return ToolResult(call.id, "") if call.name == "Glob" else next(answers)(call)

    revised = "printf '%s\\n' 'Hello from the rehearsal' 'say it'\"'\"'s me' | tee hello.txt"
    assert play("say hello", tool)[1:3] == [("Bash", GREET), ("Bash", {**GREET, "command": revised})]


def test_endless_conditions_come_to_an_end() -> None:
    """After three attempts the scripted model gives up instead of asking for ever."""
    told = play("say hello", refuse("their words:\nno\nIssue the call again, revised."))
    assert [name for name, _ in told[:-1]] == ["Glob", "Bash", "Bash", "Bash"]


@pytest.mark.parametrize(
    ("job", "language"), [("ask me a question", "en"), ("问我一个问题", "zh"), ("質問して", "ja")]
)
def test_questions_are_asked_and_the_answers_quoted(job: str, language: Any) -> None:
    """Two questions, one of them with several choices; the answers come back in the result."""
    one, several = QUESTIONS[language]
    assert (one["multiSelect"], several["multiSelect"]) == (False, True)
    first, *_ = one["options"]
    engine_says = (
        f'Your questions have been answered: "{one["question"]}"="{first["label"]}", '
        f'"{several["question"]}"="a, b". You can now continue.'
    )
    answers = f"- {one['question']}: {first['label']}\n- {several['question']}: a, b"
    assert play(job, ok(engine_says)) == [
        ("AskUserQuestion", {"questions": [one, several]}),
        WORDS["answered"][language].format(words=answers)
        + "\n\n".join(["", WORDS["rehearsal"][language], WORDS["try_next"][language]]),
    ]


def test_edit_story_writes_and_edits_with_full_paths() -> None:
    """Two approvals: the file is written into the working directory, then edited."""
    path = str(PurePosixPath("/srv/ops/notes.md"))
    change = {"old_string": "Status: draft", "new_string": "Status: reviewed by a person"}
    assert play("edit a note", approve) == [
        ("Write", {"file_path": path, "content": "Status: draft\n"}),
        ("Edit", {"file_path": path, **change}),
        "Both steps ran. The last one said:\ndone" + CLOSING,
    ]


@pytest.mark.parametrize("job", ["please request approval", "deploy the service"])
def test_deploy_story_asks_in_words(job: str) -> None:
    """The request_approval tool gets a title, the action, the context and the next steps."""
    asked = {key: WORDS[f"deploy_{key}"]["en"] for key in ("title", "action", "context", "next_steps")}
    assert play(job, ok("Approved by Lin.")) == [
        (REQUEST_APPROVAL, asked),
        "You answered, and nothing was really deployed. I was told:\nApproved by Lin." + CLOSING,
    ]


def test_plan_story_writes_the_plan_shows_it_and_does_it() -> None:
    """In plan mode the plan goes into the CLI's plan file, is shown, and then carried out."""
    plan = WORDS["plan"]["en"].format(file="hello.txt")
    assert play("make a plan", approve, plan=True)[:-1] == [
        ("Write", {"file_path": "/state/plans/a-b.md", "content": plan}),
        ("ExitPlanMode", {}),
        ("Bash", GREET),
    ]


def test_plan_story_puts_the_plan_into_the_call_when_it_cannot_write() -> None:
    """Without the plan file the plan is in the call itself; a refused plan does nothing."""
    plan = WORDS["plan"]["en"].format(file="hello.txt")
    tools = ("Bash", "ExitPlanMode")
    assert play("anything", refuse("later"), plan=True, tools=tools) == [
        ("ExitPlanMode", {"plan": plan}),
        "The plan was not approved, so nothing was done. I was told:\nlater" + CLOSING,
    ]


def test_plan_story_outside_plan_mode_says_so() -> None:
    """ExitPlanMode is offered in every mode, but means something in plan mode only."""
    assert play("make a plan", approve) == [WORDS["no_plan_mode"]["en"] + CLOSING]


JOBS = (
    "say hello",
    "ask me",
    "make a plan",
    "edit it",
    "deploy",
    "问我",
    "計画を立てて",
    "修改笔记",
    "挨拶して",
)
TOOL_SETS = [set(), {"Glob"}, {"Bash"}, {"Write"}, {"Edit", "Glob"}, {"ExitPlanMode"}, set(EVERY_TOOL)]


@pytest.mark.parametrize(("job", "offered"), list(itertools.product(JOBS, TOOL_SETS)))
@pytest.mark.parametrize("plan", [False, True])
def test_only_offered_tools_are_called(job: str, offered: set[str], plan: bool) -> None:
    """Whatever is offered, the rehearsal calls nothing else and ends with words."""
    *calls, words = play(job, approve, tools=("Other", *sorted(offered)), plan=plan)
    assert {name for name, _ in calls} <= offered
    assert WORDS["rehearsal"][language_of(job)] in words


@pytest.mark.parametrize(
    ("text", "language"),
    [("hello", "en"), ("部署服务", "zh"), ("デプロイ", "ja"), ("質問", "ja"), ("", "en"), ("問題", "zh")],
)
def test_language_of(text: str, language: str) -> None:
    """Kana and Japanese-only words mean Japanese, other Han characters Chinese."""
    assert language_of(text) == language


def test_every_sentence_exists_in_every_language_with_the_same_fields() -> None:
    """No sentence lacks a language or drops a value that another language shows."""
    fields = ("{words}", "{file}", "{tool}")
    for key, sentences in WORDS.items():
        assert set(sentences) == {"en", "zh", "ja"}, key
        assert len({tuple(f in text for f in fields) for text in sentences.values()}) == 1, key


def test_titles_and_the_like_are_answered_without_a_story() -> None:
    """The CLI's own small requests offer no tools; they get a word, not a job."""
    titled = Request({"messages": [{"role": "user", "content": "deploy"}]})
    assert rehearsal(titled) == Answer([Text("Rehearsal")])
