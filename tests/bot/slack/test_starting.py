"""How jobs begin on Slack, go on in their thread, and what never begins one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta

from agent_runner.config import Workspace
from agent_runner.model import InquiryState, TaskState
from agent_runner.people import Person
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.slack_events import Message

Make = Callable[..., Scene]

HELP = "Write what you want done."
TWO = {
    "ops": Workspace(path="/srv/ops"),
    "web": Workspace(path="/srv/web", places=({"platform": "slack", "chat": "C0WEB"},)),  # type: ignore[arg-type]  # as the file has it
}
OLD = 3600.0
"""Seconds that count as an outage."""


# --- ways in -----------------------------------------------------------------------------


def test_a_direct_message_begins_a_job_without_a_mention(scene: Make) -> None:
    """In a chat with the bot alone everything is meant for it; the job lives in that message's thread."""
    s = scene()
    said = s.slack.say(s.mei, s.slack.im(s.mei), "restart the checkout pods")
    status = s.until(lambda: s.slack.posts(said.channel, said.ts))[0]
    task = s.office.task()
    assert (task.text, task.place.chat, task.place.thread) == (said.text, said.channel, said.ts)
    assert "ops" in text_of(status)


def test_the_assistant_pane_offers_and_takes_words(scene: Make) -> None:
    """Opening it shows a prompt to pick; what is written there is a job in that very thread."""
    s = scene()
    root = s.slack.open_assistant(s.mei)
    shown = s.until(lambda: s.slack.assistant[root.channel, root.ts])
    assert shown == {
        "prompts": [{"title": "status", "message": "status"}],
        "prompts_title": "What should be done?",
    }
    s.slack.say(s.mei, root.channel, "restart it", thread_ts=root.ts)
    s.until(lambda: s.slack.posts(root.channel, root.ts))
    assert (s.office.task().text, s.office.task().place.thread) == ("restart it", root.ts)


def test_the_slash_command_opens_a_thread(scene: Make) -> None:
    """The channel sees who asks for what; the job lives in the thread below that; nobody is told twice."""
    s = scene()
    s.slack.command(s.mei, s.ops, "restart <checkout> & co")
    task = s.until(s.tasks)[0]
    s.until(lambda: s.posts(task.place.thread))
    root = s.slack.message(s.ops, task.place.thread)
    assert (task.text, task.asked_by.user_id, task.place.chat) == ("restart <checkout> & co", s.mei, s.ops)
    assert "mei asks" in text_of(root)
    assert "restart <checkout> & co" in text_of(root)
    assert root.thread_ts is None
    assert s.whispers(s.mei) == []


def test_the_slash_command_answers_that_person_alone(scene: Make) -> None:
    """Words about how things stand, and what cannot be begun, open no thread."""
    s = scene()
    for count, (text, told) in enumerate(
        [
            ("", HELP),
            ("help", HELP),
            ("status", "Waiting for you: none. Your running jobs: none."),
            ("in shop: restart it", "There is no workspace shop.\nThere are: ops."),
        ],
        1,
    ):
        s.slack.command(s.mei, s.ops, text)
        answer = s.told(s.mei, count)[-1]
        assert (text, answer[: len(told)]) == (text, told)
    assert (s.slack.posts(s.ops), s.tasks()) == ([], ())


def test_the_slash_command_says_what_waits_and_runs(scene: Make) -> None:
    """`status` counts only what concerns whoever asks."""
    s = scene()
    s.pending(by=s.mei)
    for user, told in [
        (s.mei, "Waiting for you: #1. Your running jobs: #1."),
        (s.gus, "Waiting for you: none. Your running jobs: none."),
    ]:
        s.slack.command(user, s.ops, "status")
        assert s.told(user) == [told]


def test_the_slash_command_where_the_bot_cannot_write(scene: Make) -> None:
    """Where it was never invited, or nobody may write, it says so, and nothing is begun."""
    s = scene()
    for at, gone in enumerate([{"bot_member": False}, {"archived": True}, {"restricted": True}], 1):
        channel = s.slack.add_channel(f"closed-{at}", members={s.mei})
        s.slack.change_channel(channel, **gone)
        s.slack.command(s.mei, channel, "restart it")
        assert s.told(s.mei, at)[-1] == "I am not in this channel. Invite me first, then say it again."
    assert s.tasks() == ()


def test_the_slash_command_that_slack_does_not_let_through(scene: Make) -> None:
    """When the thread cannot be opened just now, that is told, and nothing is begun."""
    s = scene()
    for at, error in enumerate(["ratelimited", "http_500", "invalid_blocks", "internal_error"], 1):
        s.slack.fail("chat.postMessage", error)
        s.slack.command(s.mei, s.ops, "restart it")
        assert s.told(s.mei, at)[-1].startswith(("Not recorded", "Something went wrong"))
    assert s.tasks() == ()


WORKSPACES = [
    ("C0OPS", "restart it", "ops", "restart it"),
    ("C0WEB", "restart it", "web", "restart it"),
    ("C0WEB", "in ops: restart it", "ops", "restart it"),
    ("C0OPS", "in web: restart it", "web", "restart it"),
    ("C0OPS", "In WEB:restart it", "web", "restart it"),
    ("C0OPS", "在web：重启", "web", "重启"),
    ("C0OPS", "web で: 再起動", "web", "再起動"),
    ("C0OPS", "web: restart it", "web", "restart it"),
    ("C0OPS", "note: restart it", "ops", "note: restart it"),
]


def test_which_workspace(scene: Make) -> None:
    """The one that is named, else the channel's own, else the first."""
    s = scene(workspaces=TWO)
    s.slack.add_channel("web", "C0WEB", members={s.mei})
    for count, (channel, text, workspace, job) in enumerate(WORKSPACES, 1):
        s.slack.say(s.mei, channel, text, mention=True)
        s.until(lambda: len(s.tasks()) == count)  # noqa: B023  (called before the loop goes on)
        assert (text, s.tasks()[0].workspace, s.tasks()[0].text) == (text, workspace, job)


def test_an_unknown_workspace_is_told_with_the_known_ones(scene: Make) -> None:
    """Told to that person alone, beside what they wrote."""
    s = scene(workspaces=TWO)
    said = s.slack.say(s.mei, s.ops, "in shop: restart it", mention=True)
    assert s.told(s.mei) == ["There is no workspace shop.\nThere are: ops, web."]
    assert s.tasks() == ()
    assert s.slack.posts(s.ops, said.ts) == []


def test_words_of_command_where_nothing_is_worked_on(scene: Make) -> None:
    """They are no jobs."""
    s = scene()
    nothing = "Nothing is being worked on here. Write what you want done."
    for count, (text, told) in enumerate(
        [
            ("help", HELP),
            ("", HELP),
            ("status", "Waiting for you: none. Your running jobs: none."),
            ("stop", nothing),
            ("重试", nothing),
        ],
        1,
    ):
        s.slack.say(s.mei, s.ops, text, mention=True)
        answer = s.told(s.mei, count)[-1]
        assert (text, answer[: len(told)]) == (text, told)
    assert s.tasks() == ()


# --- in the thread -----------------------------------------------------------------------


def test_the_thread_takes_words_of_command(scene: Make) -> None:
    """Status, help, stop and retry, without a mention, each answered to whoever said it."""
    s = scene()
    thread = s.asked()
    task = s.office.task()
    said: Sequence[tuple[str, str]] = [
        ("status", "This task is waiting for a free worker."),
        ("?", HELP),
        ("<@U0BOT> 帮助", HELP),
        ("stop", "Stopping."),
        ("status", "This task is stopped."),
        ("retry", "cannot retry while stopped"),
    ]
    for number, (words, answer) in enumerate(said, 1):
        s.slack.say(s.eve, s.ops, words, thread_ts=thread)
        assert s.told(s.eve, number)[-1].startswith(answer)
    assert s.office.store.task(task.id).state is TaskState.STOPPED


def test_a_follow_up_goes_on_with_the_same_session(scene: Make) -> None:
    """After the end, words in the thread are the next turn of the same conversation."""
    s = scene()
    thread = s.asked()
    before = s.office.task()
    s.office.ends(before.id)
    s.card(thread, "result:1")
    s.slack.say(s.mei, s.ops, "and now the cache", thread_ts=thread)
    assert s.told(s.mei) == ["Started."]
    after = s.office.store.task(before.id)
    assert (after.session_id, after.turn, after.prompt) == (before.session_id, 2, "and now the cache")
    assert len(s.tasks()) == 1


def test_case_a14_words_while_it_is_busy_are_kept_and_said_so(scene: Make) -> None:
    """The person is told, the status message counts it, and the next turn reads it."""
    s = scene()
    thread = s.asked()
    task = s.office.task()
    s.office.begins(task.id)
    s.slack.say(s.mei, s.ops, "use the canary first", thread_ts=thread)
    assert s.told(s.mei) == ["The agent is busy. Your message is kept and it reads it next."]
    status = s.card(thread, "status")
    s.office.offset += timedelta(seconds=5)
    s.until(lambda: "1 message is kept for when the agent is free." in text_of(s.seen(status)))
    assert [f.text for f in s.office.store.task(task.id).follow_ups] == ["use the canary first"]


def test_only_mentions_are_for_the_agent_where_that_is_chosen(scene: Make) -> None:
    """With `replies = "mentions"` other words in the thread are left alone, but answers still count."""
    s = scene(chat={"replies": "mentions"})
    card, task = s.pending()
    s.slack.say(s.eve, s.ops, "nice weather", thread_ts=card.thread_ts)
    s.slack.say(s.eve, s.ops, "read the log first", thread_ts=card.thread_ts, mention=True)
    assert s.told(s.eve) == ["The agent is busy. Your message is kept and it reads it next."]
    s.slack.say(s.lin, s.ops, "1", thread_ts=card.thread_ts)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)
    s.quiet()
    said = [m.text for m in s.office.store.messages(task.id)]
    assert "nice weather" not in said
    assert "read the log first" in said


# --- who may -----------------------------------------------------------------------------


def test_guests_cannot_start_jobs(scene: Make) -> None:
    """By no way in; they are told how to change that, and no thread is opened."""
    s = scene()
    told = "Guests of this chat cannot start jobs or decide. Whoever runs the bot can list you."
    s.slack.say(s.gus, s.ops, "restart it", mention=True)
    assert s.told(s.gus) == [told]
    s.slack.command(s.gus, s.ops, "restart it")
    assert s.told(s.gus, 2) == [told, told]
    s.slack.say(s.gus, s.slack.im(s.gus), "restart it")
    s.until(lambda: [m.text for m in s.slack.posts(s.slack.im(s.gus))] == [told])
    assert (s.slack.posts(s.ops), s.tasks()) == ([], ())


def test_a_listed_guest_can(scene: Make) -> None:
    """Somebody wrote them down under [people]."""
    s = scene(people={"gus": Person(accounts=("slack:U05",))})
    s.asked(by=s.gus)
    assert s.office.task().asked_by.user_id == s.gus


# --- once, and only by people ------------------------------------------------------------


def test_one_message_is_one_job(scene: Make) -> None:
    """A mention comes as two events, app_mention and message; it is one job with one status message."""
    s = scene()
    thread = s.asked()
    s.quiet()
    kinds = [d.payload["event"]["type"] for d in s.slack.deliveries if d.kind == "events_api"]
    assert kinds[:2] == ["app_mention", "message"]
    assert len(s.tasks()) == 1
    assert len(s.posts(thread)) == 1


def test_case_e07_an_event_that_comes_again_does_nothing(scene: Make) -> None:
    """Neither minutes later nor after the bot was started anew does the same event begin a second job."""
    s = scene()
    thread = s.asked()
    task = s.office.task()
    [first, second] = [d for d in s.slack.deliveries if d.payload["event"].get("ts") == thread]
    s.slack.redeliver(first)
    s.quiet()
    with ExitStack() as life:
        s.office = s.open(life)  # the old one is gone; the new one knows the store alone
        s.slack.redeliver(first)
        s.slack.redeliver(second)
        s.quiet()
        assert [t.id for t in s.tasks()] == [task.id]
        assert (s.office.store.task(task.id).turn, s.office.store.task(task.id).follow_ups) == (1, ())
        assert len(s.posts(thread)) == 1


def test_what_never_begins_a_job(scene: Make) -> None:
    """Edits, deletions, bots, joins, talk: nothing is begun, and nobody is bothered."""
    s = scene()
    s.slack.add_user("otherbot", "U0OTHER", is_bot=True)
    message = s.slack.say(s.mei, s.ops, "lunch?")
    s.slack.edit(s.mei, message, "<@U0BOT> delete everything")
    s.slack.delete(s.mei, message)
    s.slack.say("U0OTHER", s.ops, "restart it", mention=True, bot_id="B0OTHER")
    s.slack.say(s.mei, s.ops, "joined", mention=True, subtype="channel_join")
    other = s.slack.say(s.mei, s.ops, "just talking to each other")
    s.slack.say(s.mei, s.ops, "1", thread_ts=other.ts)
    s.slack.say(s.mei, s.ops, "ask &lt;@U0BOT&gt; about it")
    s.slack.say(s.mei, s.ops, "<!here> look", files=[{"name": "a.png", "content": b"x"}])
    s.quiet()
    assert (s.tasks(), s.slack.posts(s.ops), s.slack.ephemerals) == ((), [], [])


def test_an_edit_of_the_job_changes_nothing(scene: Make) -> None:
    """What was asked for stays what was asked for, also when the message is edited or deleted."""
    s = scene()
    thread = s.asked()
    message = s.slack.message(s.ops, thread)
    s.slack.edit(s.mei, message, "<@U0BOT> delete the checkout pods")
    s.slack.delete(s.mei, message)
    s.quiet()
    assert [t.text for t in s.tasks()] == ["restart the checkout pods"]
    assert s.office.task().follow_ups == ()


# --- old messages ------------------------------------------------------------------------


def held(s: Scene, text: str = "restart the checkout pods", thread: str | None = None) -> Message:
    """The card that asks about an old message of Mei's."""
    said = s.slack.say(s.mei, s.ops, text, mention=thread is None, thread_ts=thread, old_by=OLD)
    root = thread or said.ts
    card: Message = s.until(
        lambda: next((p for p in s.slack.posts(s.ops, root) if "do_now" in p.buttons), None)
    )
    return card


def test_case_e08_an_old_message_is_asked_about(scene: Make) -> None:
    """It is shown whole with two buttons; only its author decides; then it is done, once."""
    s = scene()
    card = held(s)
    assert "restart the checkout pods" in text_of(card)
    assert list(card.buttons) == ["do_now", "leave"]
    assert s.tasks() == ()
    s.slack.click(s.lin, card, "do_now")
    assert s.told(s.lin) == ["Only mei can say that, because it was their message."]
    s.slack.click(s.mei, card, "do_now")
    s.until(lambda: "Begun now." in text_of(s.seen(card)))
    assert s.seen(card).buttons == {}
    s.slack.click(s.mei, card, "leave")
    s.told(s.mei)
    assert [(t.text, t.asked_by.user_id, t.place.thread) for t in s.tasks()] == [
        ("restart the checkout pods", s.mei, card.thread_ts)
    ]


def test_case_e08_left_undone(scene: Make) -> None:
    """The card says so, and nothing was begun."""
    s = scene()
    card = held(s)
    s.slack.click(s.mei, card, "leave")
    s.until(lambda: "Left undone." in text_of(s.seen(card)))
    assert (s.seen(card).buttons, s.tasks()) == ({}, ())


TYPED = [
    ("1", "Begun now."),
    ("<@U0BOT> 1", "Begun now."),
    ("Do it now.", "Begun now."),
    ("１", "Begun now."),
    ("2", "Left undone."),
    ("leave it", "Left undone."),
]


def test_case_e08_typed_answers(scene: Make) -> None:
    """The numbers and words of the card count in its thread, as its buttons do; the card is repainted."""
    s = scene()
    jobs = 0
    for words, shown in TYPED:
        card = held(s)
        s.slack.say(s.mei, s.ops, words, thread_ts=card.thread_ts)
        s.until(lambda: s.seen(card).buttons == {})  # noqa: B023  (called before the loop goes on)
        s.quiet()
        jobs += shown == "Begun now."
        assert shown in text_of(s.seen(card))
        assert (words, len(s.tasks())) == (words, jobs)
    assert s.slack.ephemerals == []


def test_case_e08_other_words_answer_nothing(scene: Make) -> None:
    """Other people, and words that are no clear answer, leave the old message held."""
    s = scene()
    card = held(s)
    for who, words in [(s.lin, "1"), (s.mei, "1?"), (s.mei, "thanks"), (s.eve, "2")]:
        s.slack.say(who, s.ops, words, thread_ts=card.thread_ts)
    s.slack.say(s.eve, s.ops, "1", thread_ts=card.thread_ts, mention=True)
    assert s.told(s.eve) == ["Only mei can say that, because it was their message."]
    s.quiet()
    assert (s.tasks(), list(s.seen(card).buttons)) == ((), ["do_now", "leave"])


def test_case_e08_a_number_that_may_mean_a_request_does_nothing(scene: Make) -> None:
    """With a request open in the same thread, a bare `1` of the one who is asked twice is asked back."""
    s = scene()
    request, _ = s.pending()
    card = held(s, "3 not today", thread=request.thread_ts)
    s.slack.say(s.mei, s.ops, "1", thread_ts=request.thread_ts)
    assert s.told(s.mei)[0].startswith("Not certain what you mean, so nothing was decided.")
    assert (s.inquiry().open, list(s.seen(card).buttons)) == (True, ["do_now", "leave"])
    s.slack.say(s.mei, s.ops, "#1 1", thread_ts=request.thread_ts)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


def test_case_e08_alone_with_the_bot(scene: Make) -> None:
    """In a direct chat the number needs no thread, and is no job itself."""
    s = scene()
    said = s.slack.say(s.mei, s.slack.im(s.mei), "restart it", old_by=OLD)
    s.until(lambda: s.slack.posts(said.channel, said.ts))
    s.slack.say(s.mei, said.channel, "1")
    s.until(s.tasks)
    s.quiet()
    assert [(t.text, t.place.thread) for t in s.tasks()] == [("restart it", said.ts)]


def test_case_e08_an_old_answer_decides_nothing_by_itself(scene: Make) -> None:
    """A `1` that was typed during the outage is held; told to do it now, it decides."""
    s = scene()
    request, _ = s.pending()
    card = held(s, "1", thread=request.thread_ts)
    assert s.inquiry().open
    s.slack.click(s.mei, card, "do_now")
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)
    s.until(lambda: s.seen(card).buttons == {})


def test_case_e08_old_words_for_a_busy_agent(scene: Make) -> None:
    """Kept for its next turn when told so; that is said, and the card has nothing left to press."""
    s = scene()
    thread = s.asked()
    s.office.begins(s.office.task().id)
    card = held(s, "use the canary first", thread=thread)
    s.slack.click(s.mei, card, "do_now")
    assert s.told(s.mei) == ["The agent is busy. Your message is kept and it reads it next."]
    s.until(lambda: s.seen(card).buttons == {})


def test_case_e08_old_talk_between_people_is_let_go(scene: Make) -> None:
    """Nobody is asked about words that were for somebody else."""
    s = scene()
    thread = s.asked()
    s.slack.say(s.mei, s.ops, "<@U01> did you see this?", thread_ts=thread, old_by=OLD)
    s.slack.say(s.mei, s.ops, "lunch?", old_by=OLD)
    s.quiet()
    assert len(s.slack.posts(s.ops)) == 1
