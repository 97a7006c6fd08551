"""The JSON API over real HTTP, with the real handler and a real store."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from agent_runner import audit
from agent_runner.audit import Event
from agent_runner.model import Failure, Kind
from tests.bot.web.webdesk import LIN, MEI, QUESTIONS, WebDesk

AT = "2026-03-02T14:00:00Z"
MEI_JSON = {"name": "mei", "person": "", "platform": "web", "tenant": "", "user_id": "mei"}
LIN_JSON = {"name": "lin", "person": "lin", "platform": "web", "tenant": "", "user_id": "lin"}
RETRY_HINT = "Try again in a moment: nothing is done twice. `countersign doctor` shows the cause."


def error(code: str, message: str, hint: str = "", **more: str) -> dict[str, Any]:
    """The one shape of errors."""
    return {"error": {"code": code, "message": message, "hint": hint, **more}}


def test_a_job_from_asking_to_its_result(desk: WebDesk) -> None:
    """One task through all its states, each as the API shows it, whole."""
    with desk.client() as client:
        created = client.post("/api/tasks", json={"text": "restart the pods"})
        assert (created.status_code, created.json()) == (201, {"id": "t_1"})
        desk.start("t_1", activity="tool", detail="Bash", tool_calls=1)
        running = client.get("/api/tasks/t_1").json()
        assert running["progress"] == {"activity": "tool", "detail": "Bash", "tool_calls": 1, "since": AT}
        inquiry = desk.defer("t_1", "Bash", {"command": "make restart"}, agent_words="Restarting.")
        desk.later(seconds=90)
        waiting = client.get("/api/tasks/t_1").json()
        asked = {
            "id": "i_2",
            "number": 1,
            "revision": 1,
            "kind": "approval",
            "state": "pending",
            "task_id": "t_1",
            "batch": "t_1-1-1",
            "tool_name": "Bash",
            "tool_input": {"command": "make restart"},
            "digest": inquiry.digest,
            "workspace": "ops",
            "asked_by": MEI_JSON,
            "asked_at": AT,
            "rule": "Bash(*)",
            "offer": "",
            "offer_for": None,
            "agent_words": "Restarting.",
            "warnings": [],
            "approvers": ["anyone"],
            "quorum": 1,
            "requester_may_decide": True,
            "veto": True,
            "expires_at": "2026-03-02T22:00:00Z",
            "hold": "deferred",
            "settled": False,
            "remind_at": None,
            "reminded_at": None,
            "escalate_at": None,
            "escalate_to": [],
            "escalated_at": None,
            "replaces": None,
            "votes": [],
            "decision": None,
            "execution": "none",
            "execution_failed": False,
            "started_at": None,
            "finished_at": None,
            "held_back": "",
            "output": "",
        }
        assert waiting == {
            "id": "t_1",
            "number": 1,
            "state": "waiting",
            "workspace": "ops",
            "session_id": waiting["session_id"],
            "asked_by": MEI_JSON,
            "text": "restart the pods",
            "created_at": AT,
            "updated_at": AT,
            "messages": [{"role": "user", "text": "restart the pods", "at": AT, "by": MEI_JSON}],
            "inquiries": [asked],
            "result": None,
            "failure": None,
            "usage": {
                "cost_usd": 0.01,
                "model_calls": 2,
                "turns": 1,
                "active_ms": 4000,
                "waiting_ms": 90_000,
            },
            "follow_ups": [],
            "progress": None,
        }
        assert client.get("/api/inquiries/i_2").json() == asked
        assert client.get("/api/inquiries?state=pending").json() == {"items": [asked], "next": None}

        decided = client.post(
            "/api/inquiries/i_2/decision", json={"verdict": "approve", "digest": inquiry.digest[:8]}
        )
        at = "2026-03-02T14:01:30Z"
        decision: dict[str, Any] = {
            "verdict": "approve",
            "by": MEI_JSON,
            "at": at,
            "reason": "",
            "conditions": "",
            "limits": [],
            "input": None,
            "answers": None,
            "scope": "once",
            "rule": "",
            "acting_for": "",
            "break_glass": False,
            "until": None,
        }
        approved = {
            **asked,
            "revision": 2,
            "state": "approved",
            "decision": decision,
            "votes": [{"by": MEI_JSON, "at": at, "verdict": "approve", "words": "", "acting_for": ""}],
        }
        assert (decided.status_code, decided.json()) == (200, approved)

        desk.ran(desk.store.inquiry("i_2"), "ok", seconds=2)
        desk.end("t_1", "Restarted.")
        done = client.get("/api/tasks/t_1").json()
    assert done["inquiries"] == [
        {
            **approved,
            "revision": 4,
            "execution": "finished",
            "started_at": at,
            "finished_at": "2026-03-02T14:01:32Z",
            "output": "ok",
        }
    ]
    assert (done["state"], done["result"], done["failure"]) == ("done", "Restarted.", None)
    assert done["usage"] == {
        "cost_usd": pytest.approx(0.09),
        "model_calls": 4,
        "turns": 2,
        "active_ms": 8000,
        "waiting_ms": 90_000,
    }
    assert [(m["role"], m["text"], m["by"]) for m in done["messages"]] == [
        ("user", "restart the pods", MEI_JSON),
        ("agent", "Restarted.", None),
    ]


NO_JSON = error(
    "malformed_json",
    "The body is not JSON: Expecting value: line 1 column 1 (char 0).",
    "Send one JSON object in UTF-8.",
)
LIST_BODY = error("invalid", "The body is a list, not an object.", 'Send an object: {"...": ...}.')
NO_TASK = error("not_found", "There is no task t_9.", "Check the id; it may have been mistyped.")
NO_INQUIRY = error("not_found", "There is no request i_9.", "Check the id.")
VERDICTS = "Send one of: approve, change, reject, answer."
BAD: list[tuple[str, str, bytes | dict[str, Any] | None, int, dict[str, Any]]] = [
    ("POST", "/api/tasks", b"", 400, NO_JSON),
    ("POST", "/api/tasks", b"[1]", 422, LIST_BODY),
    ("POST", "/api/tasks", {}, 422, error("invalid", "Field text is missing.", 'Send {"text": "..."}.')),
    (
        "POST",
        "/api/tasks",
        {"text": 7},
        422,
        error("invalid", "Field text must be text, not a number.", "Correct its type."),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": "x", "plan": "yes"},
        422,
        error("invalid", "Field plan must be true or false, not text.", "Correct its type."),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": "x", "worksapce": "ops", "model": "m"},
        422,
        error("invalid", "Unknown field: model, worksapce.", "Known are: text, workspace, plan."),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": "x", "workspace": "nope"},
        422,
        error("invalid", "There is no workspace nope.", "There are: ops, docs."),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": " \n "},
        422,
        error("invalid", "There are no words in it.", "Say what should be done."),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": "x" * 1_000_000},
        422,
        error(
            "invalid",
            "The text has 1000000 characters; 100000 are allowed.",
            "Put the long part in a file in the workspace and name it.",
        ),
    ),
    (
        "POST",
        "/api/tasks",
        {"text": "x" * 2_000_001},
        413,
        error(
            "too_large",
            "The body is larger than 2000000 bytes.",
            "Put what is long into a file in the workspace and name it.",
        ),
    ),
    ("GET", "/api/tasks/t_9", None, 404, NO_TASK),
    ("POST", "/api/tasks/t_9/messages", {"text": "hello"}, 404, NO_TASK),
    ("POST", "/api/tasks/t_9/messages", b"no", 400, NO_JSON),
    (
        "POST",
        "/api/tasks/t_9/messages",
        {"words": "x"},
        422,
        error("invalid", "Unknown field: words.", "Known are: text."),
    ),
    ("POST", "/api/tasks/t_9/stop", None, 404, NO_TASK),
    ("POST", "/api/tasks/t_9/stop", {}, 404, NO_TASK),
    (
        "POST",
        "/api/tasks/t_9/stop",
        {"now": True},
        422,
        error("invalid", "Unknown field: now.", "This call takes no fields."),
    ),
    ("POST", "/api/tasks/t_9/retry", None, 404, NO_TASK),
    (
        "GET",
        "/api/tasks?state=open",
        None,
        422,
        error(
            "invalid",
            "state cannot be 'open'.",
            "Send one of: queued, running, waiting, done, failed, stopped, stuck.",
        ),
    ),
    (
        "GET",
        "/api/tasks?limit=201",
        None,
        422,
        error("invalid", "limit cannot be '201'.", "Send a number from 1 to 200."),
    ),
    (
        "GET",
        "/api/tasks?stat=done",
        None,
        422,
        error("invalid", "Unknown parameter: stat.", "Known are: state, limit, after."),
    ),
    ("GET", "/api/inquiries/i_9", None, 404, NO_INQUIRY),
    (
        "GET",
        "/api/inquiries?state=open",
        None,
        422,
        error(
            "invalid",
            "state cannot be 'open'.",
            "Send one of: pending, approved, changed, rejected, answered, expired, withdrawn.",
        ),
    ),
    (
        "GET",
        "/api/inquiries?after=x",
        None,
        422,
        error("invalid", "after cannot be 'x'.", "Send what `next` said in the answer before."),
    ),
    ("POST", "/api/inquiries/i_9/decision", {"verdict": "approve"}, 404, NO_INQUIRY),
    ("POST", "/api/inquiries/i_9/decision", b"verdict=approve", 400, NO_JSON),
    ("POST", "/api/inquiries/i_9/decision", {}, 422, error("invalid", "Field verdict is missing.", VERDICTS)),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": "yes"},
        422,
        error("invalid", "Field verdict cannot be 'yes'.", VERDICTS),
    ),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": True},
        422,
        error("invalid", "Field verdict must be text, not true or false.", "Correct its type."),
    ),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": "approve", "scope": "forever"},
        422,
        error("invalid", "Field scope cannot be 'forever'.", "Send one of: once, task, rule, until."),
    ),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": "change", "input": "ls"},
        422,
        error("invalid", "Field input must be an object, not text.", "Correct its type."),
    ),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": "answer", "answers": {"Which?": 1}},
        422,
        error(
            "invalid",
            "The answer to 'Which?' must be a text or a list of texts, not a number.",
            'Send {"answers": {"<question>": "<choice or own words>"}}.',
        ),
    ),
    (
        "POST",
        "/api/inquiries/i_9/decision",
        {"verdict": "approve", "by": "lin"},
        422,
        error(
            "invalid",
            "Unknown field: by.",
            "Known are: verdict, reason, conditions, limits, input, answers, scope, digest, break_glass, "
            "confirm.",
        ),
    ),
    ("POST", "/api/inquiries/i_9/ask_again", None, 404, NO_INQUIRY),
    ("GET", "/api/audit?task=t_9", None, 404, NO_TASK),
    (
        "GET",
        "/api/audit?since=soon",
        None,
        422,
        error("invalid", "since cannot be 'soon'.", "Send a time like 2026-01-31T18:00:00Z."),
    ),
    (
        "GET",
        "/api/audit?after=7",
        None,
        422,
        error("invalid", "after cannot be '7'.", "Send what `next` said in the answer before."),
    ),
    (
        "GET",
        "/api/nothing",
        None,
        404,
        error("not_found", "There is nothing at this address.", "Check the address."),
    ),
    (
        "DELETE",
        "/api/tasks/t_9",
        None,
        405,
        error("wrong_method", "DELETE is not possible here.", "Possible: GET, HEAD."),
    ),
    (
        "PUT",
        "/api/tasks",
        {"text": "x"},
        405,
        error("wrong_method", "PUT is not possible here.", "Possible: GET, HEAD, POST."),
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "answer"), BAD)
def test_bad_input_is_answered_with_what_is_wrong(
    shared: WebDesk,
    method: str,
    path: str,
    body: bytes | dict[str, Any] | None,
    status: int,
    answer: dict[str, Any],
) -> None:
    """Every mistake gets the one error shape: what happened, and what to send instead."""
    sent: dict[str, Any] = {"json": body} if isinstance(body, dict) else {"content": body}
    with shared.client() as client:
        got = client.request(method, path, **sent)
    assert (got.status_code, got.json()) == (status, answer)


DECISIONS: list[tuple[dict[str, Any], int, dict[str, Any]]] = [
    (
        {"verdict": "reject"},
        422,
        error("invalid", "Why not? A reason is needed.", "The agent reads it word for word."),
    ),
    (
        {"verdict": "change"},
        422,
        error("invalid", "What should change?", "Give an edited input, or conditions in words."),
    ),
    (
        {"verdict": "change", "input": {"command": "make restart"}},
        422,
        error("invalid", "The input is unchanged.", "Approve it as it is, or change something."),
    ),
    (
        {"verdict": "change", "input": {"command": 7}},
        422,
        error("invalid", "Field command must stay a text, not a number.", "Keep each field's type."),
    ),
    (
        {"verdict": "answer", "answers": {"Which?": "A"}},
        422,
        error("invalid", "This is no question.", "Approve, change or reject it."),
    ),
    (
        {"verdict": "approve", "digest": "0" * 64},
        409,
        error(
            "digest_differs",
            "What you saw is not what is asked now; nothing was decided.",
            "Look at the request again and decide on what it shows.",
        ),
    ),
]


@pytest.mark.parametrize(("body", "status", "answer"), DECISIONS)
def test_a_decision_that_does_not_fit_decides_nothing(
    desk: WebDesk, body: dict[str, Any], status: int, answer: dict[str, Any]
) -> None:
    """After each mistake the request is open as before."""
    inquiry = desk.asked()
    with desk.client() as client:
        got = client.post(f"/api/inquiries/{inquiry.id}/decision", json=body)
        assert (got.status_code, got.json()) == (status, answer)
        assert client.get(f"/api/inquiries/{inquiry.id}").json()["state"] == "pending"


def test_case_e10_a_limit_is_a_request_of_its_own_kind(desk: WebDesk) -> None:
    """It says what was used of what; another amount is one number, and the task is queued again."""
    given = {"limit": "usd", "used": 2.03, "of": 2, "more": 2}
    asked = desk.asked("Limit", given, kind=Kind.LIMIT, tool_use_id="", rule="limits.max_task_usd")
    path = f"/api/inquiries/{asked.id}"
    with desk.client() as client:
        shown = client.get(path).json()
        assert [shown[name] for name in ("kind", "tool_name", "tool_input", "rule")] == [
            *("limit", "Limit", given, "limits.max_task_usd")
        ]
        refused = client.post(f"{path}/decision", json={"verdict": "change", "input": {"more": 21}})
        assert (refused.status_code, refused.json()) == (
            422,
            error(
                "invalid",
                "How much more? A number above 0, at most 20.",
                'Send it as input {"more": 5}, or as conditions; or approve what is asked for.',
            ),
        )
        taken = client.post(f"{path}/decision", json={"verdict": "change", "input": {"more": 5}})
        assert (taken.status_code, taken.json()["state"]) == (200, "changed")
        record = client.get(f"/api/audit?task={asked.task_id}").json()["items"]
    assert record[-1]["details"]["input"] == {**given, "more": 5}
    assert desk.queued == [asked.task_id] * 2
    assert desk.store.task(asked.task_id).allowance.usd == 5.03


def test_who_may_not_decide_is_told_who_may(desk: WebDesk) -> None:
    """403 names the people; the attempt is on record."""
    inquiry = desk.asked(approvers=("group:oncall",))
    with desk.client("mei") as client:
        got = client.post(f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "approve"})
        record = client.get(f"/api/audit?task={inquiry.task_id}").json()["items"]
    assert (got.status_code, got.json()) == (
        403,
        error("not_allowed", "mei may not decide request #1.", "These can: lin."),
    )
    assert record[-1]["event"] == "refused_attempt"


def test_the_second_decision_is_told_who_was_first(desk: WebDesk) -> None:
    """409 says by whom and how, for a person and for a program."""
    inquiry = desk.asked()
    path = f"/api/inquiries/{inquiry.id}/decision"
    with desk.client("lin") as lin, desk.client("mei") as mei:
        assert lin.post(path, json={"verdict": "reject", "reason": "not now"}).status_code == 200
        got = mei.post(path, json={"verdict": "approve"})
    assert (got.status_code, got.json()) == (
        409,
        error("already_decided", "Request #1 is already rejected by lin.", by="lin", state="rejected"),
    )


def test_case_b06_two_deciders_at_once_make_one_decision(desk: WebDesk) -> None:
    """Whoever is first, one gets 200 and the other 409, and there is one decision on record."""
    inquiry = desk.asked()
    path, answers, together = f"/api/inquiries/{inquiry.id}/decision", [], threading.Barrier(2)

    def decide(who: str, body: dict[str, str]) -> None:
        with desk.client(who) as client:
            client.get("/healthz")
            together.wait()
            answers.append((who, client.post(path, json=body)))

    bodies = {"mei": {"verdict": "approve"}, "lin": {"verdict": "reject", "reason": "no"}}
    threads = [threading.Thread(target=decide, args=item) for item in bodies.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won, lost = sorted(answers, key=lambda item: item[1].status_code)
    assert (won[1].status_code, lost[1].status_code) == (200, 409)
    assert lost[1].json()["error"]["by"] == won[0]
    events = [entry.event for entry in desk.store.audit_of(inquiry.task_id)]
    assert events.count(Event.DECIDED) == 1
    assert desk.queued == [inquiry.task_id] * 2


def test_too_late_is_gone_and_can_be_asked_again(desk: WebDesk) -> None:
    """410 after its time; `ask_again` opens a fresh request that can be decided."""
    inquiry = desk.asked()
    desk.later(hours=9)
    with desk.client() as client:
        late = client.post(f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "approve"})
        assert (late.status_code, late.json()) == (
            410,
            error("expired", "Request #1 is over since 2026-03-02 22:00 UTC."),
        )
        desk.expire(inquiry)
        desk.start(inquiry.task_id)
        desk.end(inquiry.task_id, "Nobody answered.")
        again = client.post(f"/api/inquiries/{inquiry.id}/ask_again")
        assert again.status_code == 201
        fresh = again.json()
        assert (fresh["number"], fresh["state"], fresh["replaces"]) == (2, "pending", inquiry.id)
        twice = client.post(f"/api/inquiries/{inquiry.id}/ask_again")
        assert (twice.status_code, twice.json()) == (
            409,
            error("wrong_state", "Request #1 was asked again already."),
        )
        decided = client.post(f"/api/inquiries/{fresh['id']}/decision", json={"verdict": "approve"})
        assert decided.json()["state"] == "approved"


def test_answers_may_be_texts_or_lists(desk: WebDesk) -> None:
    """Several choices of one question are a list; the engine gets them joined."""
    inquiry = desk.asked("AskUserQuestion", QUESTIONS)
    answers = {"Which database?": "Postgres", "Which environments?": ["dev", "prod"]}
    with desk.client() as client:
        short = client.post(
            f"/api/inquiries/{inquiry.id}/decision",
            json={"verdict": "answer", "answers": {"Which database?": "Postgres"}},
        )
        assert (short.status_code, short.json()) == (
            422,
            error("invalid", "Not answered yet: Which environments?", "Answer every question."),
        )
        got = client.post(
            f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "answer", "answers": answers}
        )
    assert got.json()["decision"]["answers"] == {
        "Which database?": "Postgres",
        "Which environments?": "dev, prod",
    }


@pytest.mark.parametrize(
    ("text", "told", "state"),
    [
        ("1", {"reply": "reply.decided", "text": "Recorded for request #1: approved."}, "queued"),
        (
            "what does it do?",
            {
                "reply": "reply.kept",
                "text": "The agent is busy. Your message is kept and it reads it next.",
            },
            "waiting",
        ),
        ("stop", {"reply": "reply.stopping", "text": "Stopping."}, "stopped"),
    ],
)
def test_words_in_a_thread_do_what_they_say(
    desk: WebDesk, text: str, told: dict[str, str], state: str
) -> None:
    """An answer, a follow-up, a control word: each is done, and said."""
    inquiry = desk.asked()
    with desk.client() as client:
        got = client.post(f"/api/tasks/{inquiry.task_id}/messages", json={"text": text})
        assert (got.status_code, got.json()) == (202, told)
        assert client.get(f"/api/tasks/{inquiry.task_id}").json()["state"] == state


def test_the_words_answered_are_in_the_language_asked_for(desk: WebDesk) -> None:
    """`text` follows Accept-Language; `reply` is for programs."""
    inquiry = desk.asked()
    with desk.client() as client:
        got = client.post(
            f"/api/tasks/{inquiry.task_id}/messages",
            json={"text": "1"},
            headers={"Accept-Language": "de, zh-CN;q=0.8, en;q=0.5"},
        )
    assert got.json() == {"reply": "reply.decided", "text": "请求 #1 已记录：已批准。"}


def test_the_thread_as_numbered_lists(desk: WebDesk) -> None:
    """What the terminal shows: every message with its key, revision and text."""
    inquiry = desk.asked()
    with desk.client() as client:
        got = client.get(f"/api/tasks/{inquiry.task_id}/posts").json()
    shown = [(item["key"], item["revision"]) for item in got["items"]]
    assert (got["state"], shown) == ("waiting", [("status", 3), ("request:1", 1)])
    lines = got["items"][1]["text"].splitlines()
    assert "    make restart" in lines
    assert [line for line in lines if line.lstrip().startswith("1 approve")]


def test_stop_and_retry(desk: WebDesk) -> None:
    """Both are accepted where they make sense, and refused with 409 where not."""
    with desk.client() as client:
        client.post("/api/tasks", json={"text": "go"})
        stopped = client.post("/api/tasks/t_1/stop")
        assert (stopped.status_code, stopped.json()) == (202, {"id": "t_1", "state": "stopped"})
        again = client.post("/api/tasks/t_1/stop", json={})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "wrong_state")
        client.post("/api/tasks", json={"text": "go"})
        desk.start("t_2")
        desk.end("t_2", failure=Failure(code="model_unreachable", message="refused", hint="wait"))
        failed = client.get("/api/tasks/t_2").json()
        assert failed["failure"] == {"code": "model_unreachable", "message": "refused", "hint": "wait"}
        retried = client.post("/api/tasks/t_2/retry")
        assert (retried.status_code, retried.json()) == (202, {"id": "t_2", "state": "queued"})


def test_lists_are_paged(desk: WebDesk) -> None:
    """Tasks newest first, requests oldest first; `next` leads on until it is null."""
    for _ in range(3):
        desk.asked()
    with desk.client() as client:
        tasks = _all(client, "/api/tasks?limit=2", "number")
        assert tasks == [[3, 2], [1]]
        assert _all(client, "/api/inquiries?limit=1&state=pending", "number") == [[1], [2], [3]]
        assert _all(client, "/api/tasks?state=done", "number") == [[]]
        assert _all(client, "/api/audit?limit=4", "seq") == [[1, 2, 3, 1], [2, 3, 1, 2], [3]]
        assert _all(client, "/api/audit?task=t_1&limit=2", "seq") == [[1, 2], [3]]
        keys = set(client.get("/api/tasks").json()["items"][0])
    assert keys == {
        "id",
        "number",
        "state",
        "workspace",
        "session_id",
        "asked_by",
        "text",
        "created_at",
        "updated_at",
        "result",
        "failure",
        "usage",
        "follow_ups",
    }


def _all(client: httpx.Client, path: str, field: str) -> list[list[int]]:
    """One field of all items, page by page."""
    pages, after = [], ""
    while True:
        page = client.get(path + after).json()
        pages.append([item[field] for item in page["items"]])
        if page["next"] is None:
            return pages
        after = f"&after={page['next']}"


def test_the_record_can_be_verified_from_what_the_api_shows(desk: WebDesk) -> None:
    """Items hold exactly what their hash covers, so anybody can check the chain."""
    inquiry = desk.asked()
    with desk.client("lin") as client:
        client.post(f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "reject", "reason": "no"})
        items = client.get(f"/api/audit?task={inquiry.task_id}").json()["items"]
    chain = [audit.Entry.model_validate(item) for item in items]
    assert [entry.event for entry in chain] == ["task_asked", "turn_started", "inquiry_asked", "decided"]
    assert audit.first_bad(chain) is None
    assert [item["hash"] for item in items] == [audit.entry_hash(entry) for entry in chain]


FILTERED = {
    "actor=lin": ["decided"],
    "actor=LIN": ["decided"],
    "actor=person:lin": ["decided"],
    "actor=web::mei": ["task_asked", "inquiry_asked"],
    "actor=nobody": [],
    "since=2026-03-02T14:00:30Z": ["decided"],
    "until=2026-03-02T14:00:30Z&task=t_1": ["task_asked", "turn_started", "inquiry_asked"],
    "actor=lin&task=t_1": ["decided"],
}


def test_the_record_is_filtered(desk: WebDesk) -> None:
    """By person in any spelling, by time, by task."""
    inquiry = desk.asked()
    desk.later(minutes=1)
    with desk.client("lin") as client:
        client.post(f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "approve"})
        found = {query: client.get(f"/api/audit?{query}").json()["items"] for query in FILTERED}
    assert {query: [item["event"] for item in items] for query, items in found.items()} == FILTERED


def test_health_says_whether_the_store_answers(desk: WebDesk) -> None:
    """Without a login, and from any host name."""
    with desk.client("") as client:
        got = client.get("/healthz", headers={"Host": "10.0.0.7:8321"})
    assert (got.status_code, got.json()) == (
        200,
        {"ok": True, "redis": True, "runners": 1, "version": "1.2.3"},
    )


def test_people_are_who_their_tokens_say() -> None:
    """The two people of these tests differ in every way that the API tells them apart."""
    assert (MEI.key, LIN.key) == ("web::mei", "person:lin")


# --- approvals that outlive one call -----------------------------------------------------------

OFFER: dict[str, Any] = {"offer": "Bash(make restart:*)", "offer_for": "1h"}


def test_a_rule_is_approved_listed_and_revoked(desk: WebDesk) -> None:
    """`scope` of a decision says how far it reaches; what was given is listed until it is taken back."""
    inquiry = desk.asked(**OFFER)
    with desk.client() as client:
        assert client.get("/api/grants").json() == {"items": [], "next": None}
        sent = {"verdict": "approve", "scope": "until"}
        decided = client.post(f"/api/inquiries/{inquiry.id}/decision", json=sent).json()["decision"]
        assert (decided["scope"], decided["rule"], decided["until"]) == (
            *("until", "Bash(make restart:*)", "2026-03-02T15:00:00Z"),
        )
        given = {
            "id": "g1",
            "task_id": inquiry.task_id,
            "inquiry_id": inquiry.id,
            "number": 1,
            "digest": inquiry.digest,
            "rule": "Bash(make restart:*)",
            "workspace": "ops",
            "by": MEI_JSON,
            "at": AT,
            "until": "2026-03-02T15:00:00Z",
            "times": None,
            "used": 0,
            "revoked_by": None,
            "revoked_at": None,
        }
        assert client.get("/api/grants").json() == {"items": [given], "next": None}
        revoked = client.post("/api/grants/g1/revoke")
        assert (revoked.status_code, revoked.json()) == (
            *(200, {**given, "revoked_by": MEI_JSON, "revoked_at": AT}),
        )
        again = client.post("/api/grants/g1/revoke")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
        assert client.get("/api/grants").json() == {"items": [], "next": None}


def test_a_rule_that_was_not_offered_cannot_be_approved(desk: WebDesk) -> None:
    """Neither by a scope without an offer, nor by sending a rule of one's own."""
    inquiry = desk.asked()
    with desk.client() as client:
        path = f"/api/inquiries/{inquiry.id}/decision"
        plain = client.post(path, json={"verdict": "approve", "scope": "rule"})
        own = client.post(path, json={"verdict": "approve", "scope": "rule", "rule": "Bash"})
    assert (plain.status_code, plain.json()["error"]["message"]) == (
        *(422, "There is no rule for this call that could be approved."),
    )
    assert (own.status_code, own.json()["error"]["message"]) == (422, "Unknown field: rule.")
    assert desk.store.inquiry(inquiry.id).open
