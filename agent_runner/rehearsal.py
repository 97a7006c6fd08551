"""The rehearsal: a scripted model that lets a newcomer try the whole loop without an API key.

It follows from the conversation alone (no state), so it survives restarts as the tasks do. A
job's words choose a story: a gated command, a question, a plan, an edit, or an approval in
words. It never calls a tool that the request does not offer, and it says what it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_runner.messages_api import Answer, Block, Request, Text, ToolResult, ToolUse
from agent_runner.rehearsal_words import ANSWERS_MARK, PATTERNS, QUESTIONS, WORDS, Language

REQUEST_APPROVAL = "mcp__countersign__request_approval"
"""The engine's own tool for steps that are no single tool call."""
FREE = "Glob"
GREETING_FILE = "hello.txt"
NOTES_FILE = "notes.md"
HOOK_ERROR = re.compile(r"^PreToolUse:\S+ hook error: ")
"""The engine's prefix before the reason of a refused call (fact E8)."""
REVISE = re.compile(r"their words:\n(?P<words>.+)\nIssue the call again", re.DOTALL)
"""How the engine's brief asks for a revised call (`agent_runner.briefs`)."""
MOST_ATTEMPTS = 3
"""How often the command is offered in one job: a first one and two revised ones."""
ERROR_TAG = re.compile(r"</?tool_use_error>")


@dataclass(frozen=True)
class Step:
    """One call made since the job was asked for, with what came back."""

    use: ToolUse
    result: ToolResult

    @property
    def words(self) -> str:
        """What came back, without the engine's own prefix."""
        return HOOK_ERROR.sub("", ERROR_TAG.sub("", self.result.text)).strip()


@dataclass(frozen=True)
class Talk:
    """What a story is told from: the job, its language, the tools offered, the steps so far."""

    request: Request
    job: str
    language: Language
    steps: Sequence[Step]

    def say(self, key: str, **values: Any) -> str:
        """A sentence in the job's language."""
        return WORDS[key][self.language].format(**values)

    def offered(self, tool: str) -> bool:
        """Whether the request offers that tool."""
        return tool in self.request.tool_names

    def call(self, words: str, tool: str, **tool_input: Any) -> list[Block]:
        """Words and a call; words about the missing tool when it is not offered."""
        if not self.offered(tool):
            return self.end(self.say("not_offered", tool=tool))
        return [Text(words), ToolUse(self.request.fresh_id(), tool, tool_input)]

    def end(self, words: str) -> list[Block]:
        """The result of the job: what happened, what this is, and what to try next."""
        return [Text("\n\n".join([words, self.say("rehearsal"), self.say("try_next")]))]

    def step(self, tool: str, number: int = 0) -> Step | None:
        """The n-th call of that tool since the job was asked for."""
        made = [step for step in self.steps if step.use.name == tool]
        return made[number] if number < len(made) else None


def rehearsal(request: Request) -> Answer:
    """What the scripted model answers to this request."""
    if request.auxiliary:
        return Answer([Text("Rehearsal")])
    job = request.last_user_text
    made = [
        Step(use, request.tool_results.get(use.id, ToolResult(use.id, "")))
        for use in request.tool_uses_since_prompt
    ]
    talk = Talk(request, job, language_of(job), made)
    return Answer(story_of(talk)(talk), input_tokens=0, output_tokens=0)  # it costs nothing, and says so


def language_of(text: str) -> Language:
    """Japanese if it has kana or Japanese-only words, Chinese if it has other Han, else English."""
    if re.search(r"[\u3040-\u30ff]|質問|計画|編集|実行|承認", text):
        return "ja"
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def story_of(talk: Talk) -> Callable[[Talk], list[Block]]:
    """The story the job's words ask for; a task in plan mode always tells the plan."""
    for name, pattern in PATTERNS.items():
        if re.search(pattern, talk.job, re.IGNORECASE):
            return _STORIES[name]
    return _plan if talk.offered("ExitPlanMode") and talk.request.plan_mode else _command


def _command(talk: Talk) -> list[Block]:
    if talk.step(FREE) is None and talk.step("Bash") is None and talk.offered(FREE):
        return talk.call(talk.say("look_first"), FREE, pattern="*")
    return _greet(talk)


def _greet(talk: Talk) -> list[Block]:
    """Write the greeting with one gated command, revise it if told so, then tell what really ran."""
    attempts = [step for step in talk.steps if step.use.name == "Bash"]
    refusals = [step for step in attempts if step.result.is_error]
    wishes = [wish["words"].strip() for step in refusals if (wish := REVISE.search(step.words))]
    lines = [talk.say("greeting"), *wishes]
    if len(attempts) == len(wishes) < MOST_ATTEMPTS:
        return talk.call(talk.say("will_revise" if wishes else "will_run"), "Bash", **_greeting(talk, lines))
    done = attempts[-1]
    if done.result.is_error:
        return talk.end(talk.say("refused", words=done.words))
    if done.words != "\n".join(lines) or talk.request.hook_notes:
        told = "\n".join([done.words, *talk.request.hook_notes])
        return talk.end(talk.say("ran_changed", words=told))
    return talk.end(talk.say("ran_revised" if wishes else "ran", file=GREETING_FILE, words=done.words))


def _greeting(talk: Talk, lines: Sequence[str]) -> dict[str, str]:
    quoted = " ".join(shlex.quote(line) for line in lines)
    command = f"printf '%s\\n' {quoted} | tee {GREETING_FILE}"
    return {"command": command, "description": talk.say("greeting_file", file=GREETING_FILE)}


def _question(talk: Talk) -> list[Block]:
    asked = talk.step("AskUserQuestion")
    if asked is None:
        questions = QUESTIONS[talk.language]
        return talk.call(talk.say("will_ask"), "AskUserQuestion", questions=questions)
    if asked.result.is_error:
        return talk.end(talk.say("not_answered", words=asked.words))
    answers = "\n".join(f"- {q}: {a}" for q, a in ANSWERS_MARK.findall(asked.words))
    return talk.end(talk.say("answered", words=answers or asked.words))


def _plan(talk: Talk) -> list[Block]:
    """Write the plan where the CLI wants it, show it, then do it."""
    shown = talk.step("ExitPlanMode")
    if shown is None:
        if not talk.offered("ExitPlanMode") or not talk.request.plan_mode:
            return talk.end(talk.say("no_plan_mode"))
        plan, file, written = talk.say("plan", file=GREETING_FILE), talk.request.plan_file, talk.step("Write")
        if written is None and file and talk.offered("Write"):
            return talk.call(talk.say("will_plan"), "Write", file_path=file, content=plan)
        in_file = written is not None and not written.result.is_error
        return talk.call(talk.say("plan_ready"), "ExitPlanMode", **({} if in_file else {"plan": plan}))
    if shown.result.is_error:
        return talk.end(talk.say("plan_refused", words=shown.words))
    return _greet(talk)


def _edit(talk: Talk) -> list[Block]:
    """Write a file, then edit it: two approvals."""
    path = f"{talk.request.working_directory}/{NOTES_FILE}"
    first, second = talk.say("draft"), talk.say("edited")
    written, edited = talk.step("Write"), talk.step("Edit")
    if written is None:
        return talk.call(talk.say("will_write"), "Write", file_path=path, content=f"{first}\n")
    if written.result.is_error:
        return talk.end(talk.say("refused", words=written.words))
    if edited is None:
        change = {"file_path": path, "old_string": first, "new_string": second}
        return talk.call(talk.say("will_edit"), "Edit", **change)
    if edited.result.is_error:
        return talk.end(talk.say("refused", words=edited.words))
    return talk.end(talk.say("edit_done", words=edited.words))


def _deploy(talk: Talk) -> list[Block]:
    asked = talk.step(REQUEST_APPROVAL)
    if asked is None:
        keys = ("title", "action", "context", "next_steps")
        return talk.call(
            talk.say("will_request"), REQUEST_APPROVAL, **{key: talk.say(f"deploy_{key}") for key in keys}
        )
    key = "deploy_refused" if asked.result.is_error else "deploy_answered"
    return talk.end(talk.say(key, words=asked.words))


_STORIES: dict[str, Callable[[Talk], list[Block]]] = {
    "deploy": _deploy,
    "plan": _plan,
    "edit": _edit,
    "question": _question,
}
