"""What Slack, the store and people's timing can do to a message: one table each, end to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from agent_runner.errors import FixConfiguration
from agent_runner.model import InquiryState
from tests.bot.slack.conftest import Scene, key_of, text_of
from tests.fakes.faults import hung, private_redis
from tests.fakes.slack_events import Message
from tests.fakes.values import a_question, an_inquiry

Make = Callable[..., Scene]

NOT_RECORDED = "Not recorded"


def request_posts(s: Scene, thread: str) -> list[Message]:
    """The messages of request 1 in a thread."""
    return [post for post in s.posts(thread) if key_of(post) == "request:1"]


def later(s: Scene, condition: Callable[[], Any]) -> Any:
    """Waits for something while the bot's clock runs ahead, as if minutes passed."""

    def look() -> Any:
        s.office.offset += timedelta(seconds=5)
        return condition()

    return s.until(look)


def settled(s: Scene) -> tuple[Message, Any]:
    """A job whose messages all show what is stored: the card of its request, and the task."""
    found = s.pending()
    later(s, lambda: not s.office.registers.dirty())
    return found


# --- Slack's answers to posting and updating ---------------------------------------------


def test_429_waits_as_long_as_slack_says(scene: Make) -> None:
    """Retry-After is honoured for posting and for updating, and nothing is posted twice."""
    s = scene()
    thread = s.asked()
    s.slack.fail("chat.postMessage", "ratelimited", retry_after=1)
    s.office.asks(s.office.task().id)
    card = s.card(thread, "request:1")
    first, second = [c for c in s.slack.called("chat.postMessage") if c.args.get("thread_ts") == thread][-2:]
    assert (first.error, second.error) == ("ratelimited", None)
    assert second.at - first.at >= 0.9
    s.slack.fail("chat.update", "ratelimited", times=2, retry_after=1)
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: s.seen(card).buttons == {})
    assert len(request_posts(s, thread)) == 1


@pytest.mark.parametrize(
    ("error", "times", "form"),
    [
        ("invalid_blocks", 1, "short"),
        ("msg_blocks_too_long", 1, "short"),
        ("msg_too_long", 2, "list"),
        ("invalid_blocks", 2, "list"),
        ("invalid_blocks", 3, "link"),
    ],
)
def test_a_refused_card_becomes_a_simpler_one(scene: Make, error: str, times: int, form: str) -> None:
    """Shorter card, numbered list, one line with a link; a number in the thread answers each of them."""
    s = scene()
    thread = s.asked()
    s.slack.fail("chat.postMessage", error, times)
    s.office.asks(s.office.task().id)
    card = s.card(thread, "request:1")
    kept = s.office.registers.receipts
    s.until(lambda: kept(s.office.task().id)["request:1"].shown)
    receipt = kept(s.office.task().id)["request:1"]
    assert (receipt.form, len(request_posts(s, thread))) == (form, 1)
    shown = text_of(card)
    assert ("kubectl rollout restart deploy/checkout" in shown) == (form != "link")
    assert ("1 approve" in shown) == (form != "link")
    assert (list(card.buttons) != []) == (form == "short")
    if form == "link":
        assert f"http://countersign.test/t/{s.office.task().id}" in shown
    s.slack.say(s.lin, s.ops, "1", thread_ts=thread)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)
    s.until(lambda: s.seen(card).edits > 0)
    assert len(request_posts(s, thread)) == 1


def test_without_interactivity_lists_are_posted(scene: Make) -> None:
    """Where clicks cannot arrive no card has a button, and numbers do everything."""
    s = scene(chat={"interactive": False})
    card, _ = s.pending()
    status = s.posts(str(card.thread_ts))[0]
    assert (card.buttons, status.buttons, card.blocks) == ({}, {}, [])
    assert "1 approve" in card.text
    s.slack.say(s.lin, s.ops, "3 not today", thread_ts=card.thread_ts)
    assert s.decided().reason == "not today"
    s.until(lambda: "Rejected by lin" in s.seen(card).text)


@pytest.mark.parametrize(
    "error", ["message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"]
)
def test_case_c08_what_cannot_be_changed_any_more_is_posted_anew(scene: Make, error: str) -> None:
    """The outcome is said in a new message."""
    s = scene()
    card, _ = settled(s)
    s.slack.fail("chat.update", error)
    s.slack.click(s.lin, card, "approve")
    anew = s.until(lambda: request_posts(s, str(card.thread_ts))[1])
    assert "Approved by lin" in text_of(anew)
    assert anew.buttons == {}
    s.quiet()
    assert len(request_posts(s, str(card.thread_ts))) == 2


def test_case_c08_posted_anew_once_even_if_the_answer_is_lost(scene: Make) -> None:
    """The old message, which is still there with the same mark, is not taken for the new one."""
    s = scene()
    card, _ = settled(s)
    s.slack.fail("chat.update", "edit_window_closed")
    s.slack.lose_answer("chat.postMessage")
    s.slack.click(s.lin, card, "approve")
    later(s, lambda: len(s.slack.called("conversations.replies")) > 0)
    later(s, lambda: s.office.registers.receipts(s.office.task().id)["request:1"].message_id)
    thread = str(card.thread_ts)
    assert len(request_posts(s, thread)) == 2
    assert "Approved by lin" in text_of(request_posts(s, thread)[1])


@pytest.mark.parametrize("error", ["internal_error", "http_500", "service_unavailable", "some_new_error"])
def test_what_passes_is_tried_again(scene: Make, error: str) -> None:
    """An error that heals, or that nobody knows, leaves the message on the list of work."""
    s = scene()
    thread = s.asked()
    s.slack.fail("chat.postMessage", error, 2)
    s.office.asks(s.office.task().id)
    later(s, lambda: request_posts(s, thread))
    assert len(request_posts(s, thread)) == 1


def test_a_lost_answer_is_not_posted_twice(scene: Make) -> None:
    """Slack took the message, and we never heard: it is found again by its mark and used."""
    s = scene()
    thread = s.asked()
    s.slack.lose_answer("chat.postMessage")
    s.office.asks(s.office.task().id)
    card = s.until(lambda: request_posts(s, thread)[0])
    later(s, lambda: s.office.registers.receipts(s.office.task().id)["request:1"].message_id)
    s.slack.click(s.lin, card, "approve")
    later(s, lambda: s.seen(card).buttons == {})
    assert len(request_posts(s, thread)) == 1


# --- places that are gone ----------------------------------------------------------------


@pytest.mark.parametrize("gone", [{"archived": True}, {"bot_member": False}, {"restricted": True}])
def test_a_task_goes_on_in_the_fallback_channel(scene: Make, gone: dict[str, bool]) -> None:
    """In a new thread that says why, and in which the request is answered."""
    s = scene(chat={"fallback": "C0FALL"})
    fall = s.slack.add_channel("fallback", "C0FALL", members={s.lin, s.kai, s.mei})
    s.asked()
    task = s.office.task()
    s.slack.change_channel(s.ops, **gone)
    s.office.asks(task.id)
    root = s.until(lambda: s.slack.posts(fall)[0])
    assert "Task #1 goes on here" in text_of(root)
    assert "restart the checkout pods" in text_of(root)
    find = lambda: next((p for p in s.slack.posts(fall, root.ts) if key_of(p) == "request:1"), None)  # noqa: E731  (a condition)
    card = s.until(find)
    s.slack.say(s.lin, fall, "status", thread_ts=root.ts)
    assert s.told(s.lin)[-1] == "This task is waiting for people."
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: "Approved by lin" in text_of(s.seen(card)))
    s.office.ends(task.id)
    s.until(lambda: "All done." in "".join(text_of(p) for p in s.slack.posts(fall, root.ts)))
    assert [p.ts for p in s.slack.posts(fall) if p.thread_ts is None] == [root.ts]


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "not_in_channel"])
def test_without_a_fallback_it_is_kept_and_tried_again(
    scene: Make, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost: when the channel is there again, the request is shown in it."""
    s = scene()
    thread = s.asked()
    with caplog.at_level(logging.ERROR, "bot.courier"):
        s.slack.fail("chat.postMessage", error, 2)
        s.office.asks(s.office.task().id)
        later(s, lambda: request_posts(s, thread))
    assert "there is no fallback chat" in caplog.text
    assert s.inquiry().open


def test_a_thread_whose_first_message_is_gone(scene: Make) -> None:
    """The channel is still there: the task goes on in a new thread of it."""
    s = scene()
    thread = s.asked()
    s.slack.fail("chat.postMessage", "cannot_reply_to_message")
    s.office.asks(s.office.task().id)
    root = s.until(lambda: next((p for p in s.slack.posts(s.ops) if p.thread_ts is None), None))
    assert "Task #1 goes on here" in text_of(root)
    s.until(lambda: [p for p in s.posts(root.ts) if key_of(p) == "request:1"])
    assert request_posts(s, thread) == []


# --- the token ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("auth.test", "invalid_auth"),
        ("auth.test", "account_inactive"),
        ("apps.connections.open", "not_allowed_token_type"),
    ],
)
def test_a_refused_token_is_told_at_the_start(scene: Make, method: str, error: str) -> None:
    """Whoever runs the bot learns what to do, with Slack's own word for it."""
    with pytest.raises(FixConfiguration) as told:
        scene(before=lambda slack: slack.fail(method, error))
    assert error in told.value.message
    assert told.value.hint.startswith("Check the token and install the app again.")


def test_a_token_that_is_revoked_later_is_in_the_log(scene: Make, caplog: pytest.LogCaptureFixture) -> None:
    """What could not be shown is shown when the token works again."""
    s = scene()
    thread = s.asked()
    with caplog.at_level(logging.ERROR, "bot.courier"):
        s.slack.fail("chat.postMessage", "token_revoked", 2)
        s.office.asks(s.office.task().id)
        later(s, lambda: request_posts(s, thread))
    assert "token_revoked" in caplog.text


# --- what is large -----------------------------------------------------------------------

LONG = "echo begin; " + "x" * 50_000 + "; rm -rf build"


def test_case_c01_c10_approve_comes_after_the_whole_text(scene: Make) -> None:
    """A command of 50 kB: first a card without a yes, then the file with all of it, then the button."""
    s = scene()
    card, _ = s.pending(an_inquiry(tool_input={"command": LONG}))
    s.until(lambda: "approve" in s.seen(card).buttons)
    thread = str(card.thread_ts)
    [shared] = [p for p in s.posts(thread) if p.files]
    assert s.slack.files[shared.files[0]["id"]]["content"].decode() == LONG
    order = [c.method for c in s.slack.calls if c.method in ("chat.update", "files.completeUploadExternal")]
    assert order.index("files.completeUploadExternal") < len(order) - 1 - order[::-1].index("chat.update")
    posted = next(c for c in s.slack.called("chat.postMessage") if "request:1" in str(c.args.get("metadata")))
    assert "approve" not in [
        e["action_id"] for b in posted.args["blocks"] for e in b.get("elements", []) if "action_id" in e
    ]
    assert "it can be decided once it is attached" in str(posted.args["blocks"])
    s.slack.click(s.lin, s.seen(card), "approve")
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


def test_case_c01_refused_with_its_button_it_becomes_simpler_where_it_stands(scene: Make) -> None:
    """A card that was taken before its file, and not after it, is not posted once more."""
    s = scene()
    thread = s.asked()
    s.slack.fail("chat.update", "invalid_blocks")
    s.office.asks(s.office.task().id, an_inquiry(tool_input={"command": LONG}))
    s.until(lambda: s.office.registers.receipts(s.office.task().id)["request:1"].shown)
    s.quiet()
    assert len(request_posts(s, thread)) == 1
    assert len([p for p in s.posts(thread) if p.files]) == 1
    s.slack.say(s.lin, s.ops, "1", thread_ts=thread)
    s.until(lambda: s.inquiry(1).state is InquiryState.APPROVED)


def test_a_link_to_this_machine_is_no_whole_text(scene: Make) -> None:
    """Where the page is out of reach, a number below the link says yes to nothing; a no counts."""
    s = scene(page="http://127.0.0.1:8321")
    thread = s.asked()
    s.slack.fail("chat.postMessage", "invalid_blocks", 3)
    s.office.asks(s.office.task().id)
    card = s.card(thread, "request:1")
    s.until(lambda: s.office.registers.receipts(s.office.task().id)["request:1"].shown)
    assert "http://127.0.0.1:8321/t/" in text_of(card)
    s.slack.say(s.lin, s.ops, "1", thread_ts=thread)
    assert len(s.told(s.lin)) == 1
    assert s.inquiry(1).open
    s.slack.say(s.lin, s.ops, "3 not today", thread_ts=thread)
    s.until(lambda: s.inquiry(1).state is InquiryState.REJECTED)


@pytest.mark.parametrize("step", ["files.getUploadURLExternal", "upload", "files.completeUploadExternal"])
def test_case_c01_without_the_file_there_is_no_approve(scene: Make, step: str) -> None:
    """While the upload fails nobody can say yes by button; it is repaired by itself."""
    s = scene()
    s.slack.fail(step, "internal_error", 2)
    card, _ = s.pending(an_inquiry(tool_input={"command": LONG}))
    s.until(lambda: len(s.slack.called("files.getUploadURLExternal")) > 0)
    assert list(s.seen(card).buttons) == ["reject"]
    later(s, lambda: "approve" in s.seen(card).buttons)
    assert len([p for p in s.posts(str(card.thread_ts)) if p.files]) == 1


def test_case_c10_many_questions_are_all_within_reach(scene: Make) -> None:
    """Texts far over the limits: sent, nothing silently missing, answered by numbers."""
    s = scene()
    rows = [
        {
            "question": f"Question {n} " + "why " * 800,
            "header": f"Q{n}",
            "multiSelect": False,
            "options": [{"label": f"option {n}.{m}", "description": "d" * 900} for m in range(4)],
        }
        for n in range(4)
    ]
    card, _ = s.pending(a_question(tool_input={"questions": rows}))
    files = later(s, lambda: [p for p in s.posts(str(card.thread_ts)) if p.files])
    content = "".join(s.slack.files[f["id"]]["content"].decode() for p in files for f in p.files)
    for n in range(4):
        assert ("why " * 800).strip() in content
        assert f"Question {n}" in content
    kept = s.office.registers.receipts
    s.until(lambda: kept(s.office.task().id)["request:1"].shown)  # before that, a typed yes is asked back
    s.slack.say(s.mei, s.ops, "1a 2b 3c 4d", thread_ts=card.thread_ts)
    assert list((s.decided().answers or {}).values()) == [f"option {n}.{n}" for n in range(4)]


# --- the store ---------------------------------------------------------------------------


def test_case_e04_c07_a_hung_store_is_said_in_time(scene: Make) -> None:
    """Click, form and words: told "not recorded" within seconds; the card shows what is stored."""
    with private_redis() as server:
        s = scene(url=server.url)
        card, _ = s.pending()
        s.slack.click(s.lin, card, "reject")
        form = s.form(s.lin)
        before = text_of(s.seen(card))
        with hung(server):
            began = monotonic()
            click = s.slack.click(s.lin, card, "approve")
            assert click.acked
            assert s.told(s.lin)[0].startswith(NOT_RECORDED)
            assert monotonic() - began < 2.5
            answer = s.submit(s.lin, form, {"reason": "not today"})
            assert answer.response_action == "errors"
            [words] = answer.errors.values()
            assert words.startswith(NOT_RECORDED)
            s.slack.say(s.lin, s.ops, "3 not today", thread_ts=card.thread_ts)
            assert s.told(s.lin, 2)[1].startswith(NOT_RECORDED)
            s.slack.say(s.mei, s.ops, "restart it", mention=True)
            assert s.told(s.mei)[0].startswith(NOT_RECORDED)
            s.slack.say(s.mei, s.ops, "lunch?")
            s.slack.command(s.eve, s.ops, "restart it")
            assert s.told(s.eve)[0].startswith(NOT_RECORDED)
            s.quiet()
            assert text_of(s.seen(card)) == before
        assert s.until(lambda: s.inquiry().open)
        assert len(s.told(s.mei)) == 1
        assert s.submit(s.lin, s.form(s.lin), {"reason": "not today"}).answer is None
        later(s, lambda: "Rejected by lin" in text_of(s.seen(card)))
        assert s.slack.late == []


# --- forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["expired_trigger_id", "ratelimited", "internal_error", "user_not_found"])
def test_a_form_that_does_not_open_is_told(scene: Make, error: str) -> None:
    """To the one who pressed, with the other way to say it."""
    s = scene()
    card, _ = s.pending()
    s.slack.fail("views.open", error)
    s.slack.click(s.lin, card, "reject")
    told = "The form did not open in time. Press again, or reply with the number and your words."
    assert s.told(s.lin) == [told]
    s.slack.click(s.lin, card, "reject")
    s.submit(s.lin, s.form(s.lin), {"reason": "no"})
    assert s.decided().reason == "no"


def test_a_form_that_cannot_be_filled_in_is_told(scene: Make) -> None:
    """It would say "one moment" for ever."""
    s = scene()
    card, _ = s.pending()
    s.slack.fail("views.update", "internal_error")
    s.slack.click(s.lin, card, "change")
    assert s.told(s.lin) == [
        "The form did not open in time. Press again, or reply with the number and your words."
    ]


def test_an_old_trigger_opens_nothing_twice(scene: Make) -> None:
    """The same press delivered again: its trigger is spent; the first form stays as it is."""
    s = scene()
    card, _ = s.pending()
    click = s.slack.click(s.lin, card, "reject")
    form = s.form(s.lin)
    s.slack.redeliver(click)
    s.told(s.lin)
    assert s.slack.modal(s.lin).id == form.id


@pytest.mark.parametrize(
    ("verb", "values"), [("reject", {"reason": "no"}), ("change", {"conditions": "slowly"})]
)
def test_decided_while_the_form_was_open(scene: Make, verb: str, values: dict[str, str]) -> None:
    """The form says who was faster instead of closing as if all were well."""
    s = scene()
    card, _ = s.pending()
    s.slack.click(s.lin, card, verb)
    form = s.form(s.lin)
    s.slack.click(s.kai, card, "approve")
    s.until(lambda: not s.inquiry().open)
    answer = s.submit(s.lin, form, values)
    assert answer.response_action == "update"
    assert "Already decided by kai. Nothing was changed." in str(s.slack.modal(s.lin).view)
    assert s.inquiry().state is InquiryState.APPROVED


def test_an_expired_request_says_so_to_whoever_presses(scene: Make) -> None:
    """By click and in the form; and nothing ran."""
    s = scene()
    card, _ = s.pending()
    s.slack.click(s.lin, card, "reject")
    form = s.form(s.lin)
    s.office.offset += timedelta(hours=9)
    s.slack.click(s.lin, card, "approve")
    assert s.told(s.lin)[0].startswith("The time to decide is over. Nothing ran.")
    answer = s.submit(s.lin, form, {"reason": "no"})
    assert answer.response_action == "update"
    assert s.inquiry().open  # the clock closes it; a press never does


def test_case_b12_ask_again_after_the_time_is_over(scene: Make) -> None:
    """One click opens a fresh request for the same call; the old card says as which."""
    s = scene()
    card, task = s.pending()
    s.office.offset += timedelta(hours=9)
    s.office.run(_expire(s))
    s.until(lambda: "ask_again" in s.seen(card).buttons)
    assert "Nobody answered until" in text_of(s.seen(card))
    s.office.ends(task.id)
    s.card(str(card.thread_ts), "result:2")
    s.slack.click(s.lin, s.seen(card), "ask_again")
    fresh = s.card(str(card.thread_ts), "request:2")
    assert "kubectl rollout restart deploy/checkout" in text_of(fresh)
    s.until(lambda: "Asked again as request #2." in text_of(s.seen(card)))


async def _expire(s: Scene) -> None:
    """The clock's look at what is over."""
    await asyncio.to_thread(s.office.clock.tick)
