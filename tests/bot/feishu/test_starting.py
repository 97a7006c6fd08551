"""How jobs begin on Feishu, go on in their thread, and what never begins one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.config import Workspace
from agent_runner.model import InquiryState, Place, TaskState
from agent_runner.people import Person
from tests.bot.feishu.conftest import Scene, controls, stale, text_of
from tests.fakes.feishu_model import Chat, Message

Make = Callable[..., Scene]

HELP = "写下想做的事即可。"
NOTHING_HERE = "这里没有进行中的任务。请写下要做的事。"
KEPT = "智能体正忙，你的消息已留存，接下来会读。"
MINE = "等你处理：无。你进行中的任务：无。"
GUESTS = "外部成员或访客不能发起任务，也不能审批。管理员可以将你加入名单。"
OLD = 3600.0
"""Seconds that count as an outage."""


def in_private(s: Scene) -> Chat:
    """Mei's chat with the bot alone."""
    return s.feishu.add_chat("p2p", [s.mei])


# --- ways in -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["group", "topic"])
def test_a_mention_begins_a_job_below_itself(scene: Make, kind: str) -> None:
    """In a group and in a topic group the job lives in the thread of the message that asked for it."""
    s = scene(kind=kind)
    asked = s.asked("重启结算服务")
    task = s.office.task()
    assert (task.text, task.workspace, task.asked_by.name) == ("重启结算服务", "ops", "美美")
    assert task.place == Place(platform="feishu", chat=s.group.chat_id, thread=asked.message_id)
    assert [m.thread_id for m in s.posts(asked)] == [asked.thread_id]


def test_a_direct_message_begins_a_job_without_a_mention(scene: Make) -> None:
    """In a chat with the bot alone everything is meant for it."""
    s = scene()
    said = s.say(s.mei, "重启结算服务", chat=in_private(s))
    s.until(lambda: s.posts(said))
    task = s.office.task()
    assert (task.text, task.place.chat, task.place.thread) == (said.text, said.chat_id, said.message_id)


def test_a_mention_in_other_peoples_thread(scene: Make) -> None:
    """The job lives in that thread, and only what was said to the bot is the job."""
    s = scene()
    first = s.say(s.kai, "结算服务又慢了")
    s.say(s.lin, "我看看", to=first)
    s.say(s.mei, "重启它", to=first, mention=True)
    task = s.until(s.tasks)[0]
    s.until(lambda: s.posts(first))
    assert (task.text, task.place.thread) == ("重启它", first.message_id)


@pytest.mark.parametrize("msg_type", ["text", "post"])
def test_a_job_in_any_form_of_words(scene: Make, msg_type: str) -> None:
    """Rich text is words as well."""
    s = scene()
    s.say(s.mei, "重启结算服务", chat=in_private(s), msg_type=msg_type)
    assert s.office.task().text == "重启结算服务"


def test_which_workspace(scene: Make) -> None:
    """The one that is named, else the first; an unknown one is told with the known ones."""
    with_web = {"ops": Workspace(path="/srv/ops"), "web": Workspace(path="/srv/web")}
    s = scene(workspaces=with_web)
    table: Sequence[tuple[str, str, str]] = [
        ("重启", "ops", "重启"),
        ("in web: restart it", "web", "restart it"),
        ("In WEB:restart it", "web", "restart it"),
        ("在 web：重启", "web", "重启"),
        ("在web里：重启磁盘", "web", "重启磁盘"),
        ("web で：再起動", "web", "再起動"),
        ("web: restart it", "web", "restart it"),
        ("注意：重启", "ops", "注意：重启"),
    ]
    for text, workspace, job in table:
        s.say(s.mei, text, mention=True)
        task = s.office.task()
        assert (text, task.workspace, task.text) == (text, workspace, job)
        assert (text, len(s.tasks())) == (text, table.index((text, workspace, job)) + 1)
    unknown = s.say(s.mei, "在 shop：重启", mention=True)
    assert s.told(unknown) == [
        "无法理解。请改正后再发一次。\nThere is no workspace shop. There are: ops, web."
    ]
    assert len(s.tasks()) == len(table)


def test_a_chat_belongs_to_a_workspace(scene: Make) -> None:
    """`places` says which; another one can still be named."""
    s = scene()
    place = {"platform": "feishu", "chat": s.group.chat_id}
    workspaces = {
        "ops": Workspace(path="/srv/ops"),
        "web": Workspace(path="/srv/web", places=(place,)),  # type: ignore[arg-type]  # as the file has it
    }
    s.office.handler.config = s.config.having(workspaces=workspaces)
    for text, workspace in [("重启", "web"), ("在 ops：重启", "ops")]:
        s.say(s.mei, text, mention=True)
        assert (text, s.office.task().workspace) == (text, workspace)


@pytest.mark.parametrize("where", ["group", "p2p"])
def test_words_of_command_where_nothing_is_worked_on(scene: Make, where: str) -> None:
    """They are no jobs, and are answered below themselves."""
    s = scene()
    chat = in_private(s) if where == "p2p" else s.group
    for text, told in [
        ("帮助", HELP),
        ("?", HELP),
        ("状态", MINE),
        ("stop", NOTHING_HERE),
        ("重试", NOTHING_HERE),
    ]:
        said = s.say(s.mei, text, chat=chat, mention=where == "group")
        assert (text, [words.startswith(told) for words in s.told(said)]) == (text, [True])
    assert s.tasks() == ()


def test_a_mention_without_words(scene: Make) -> None:
    """Whoever only calls it is told what it can do."""
    s = scene()
    said = s.say(s.mei, "", mention=True)
    assert s.told(said)[0].startswith(HELP)
    assert said.sender is s.mei
    assert f'<at user_id="{s.mei.open_id}"></at>' in s.texts(said)[0]


# --- in the thread -----------------------------------------------------------------------


def test_the_thread_takes_words_of_command(scene: Make) -> None:
    """Status, help, stop and retry, each answered to whoever said it."""
    s = scene()
    asked = s.asked()
    task = s.office.task()
    said: Sequence[tuple[str, str]] = [
        ("状态", "这个任务正在等待空闲的工作进程。"),
        ("？", HELP),
        ("help", HELP),
        ("停止", "正在停止。"),
        ("status", "这个任务已停止。"),
        ("重试", "现在不能这样做。"),
    ]
    for number, (words, answer) in enumerate(said, 1):
        s.say(s.eve, words, to=asked)
        assert (words, len(s.told(asked)), s.told(asked)[-1][: len(answer)]) == (words, number, answer)
    assert s.office.store.task(task.id).state is TaskState.STOPPED


def test_the_buttons_stop_and_retry(scene: Make) -> None:
    """On the status message and on the result of what failed; both are answered at once."""
    s = scene()
    asked = s.asked()
    task = s.office.task()
    [status] = s.posts(asked)
    stopped = s.feishu.click(s.mei, status, "stop")
    assert stopped.toast is not None
    assert (stopped.toast.kind, stopped.toast.content) == ("success", "正在停止。")
    s.until(lambda: controls(status) == [])
    again = s.feishu.click(s.mei, stale(status), "stop")
    assert again.toast is not None
    assert (again.toast.kind, again.toast.content[:8]) == ("error", "现在不能这样做。")
    assert s.office.store.task(task.id).state is TaskState.STOPPED


@pytest.mark.parametrize("kind", ["group", "topic"])
def test_a_follow_up_goes_on_with_the_same_session(scene: Make, kind: str) -> None:
    """After the end, words in the thread are the next turn of the same conversation."""
    s = scene(kind=kind)
    asked = s.asked()
    before = s.office.task()
    s.office.ends(before.id)
    result = s.until(lambda: next((m for m in s.posts(asked) if "All done." in text_of(m)), None))
    s.say(s.mei, "再清一下缓存", to=result)
    assert s.told(asked) == ["已开始。"]
    after = s.office.store.task(before.id)
    assert (after.session_id, after.turn, after.prompt) == (before.session_id, 2, "再清一下缓存")
    assert len(s.tasks()) == 1


def test_case_a14_words_while_it_is_busy_are_kept_and_said_so(scene: Make) -> None:
    """The person is told, the status message counts it, and the next turn reads it."""
    s = scene()
    asked = s.asked()
    task = s.office.task()
    s.office.begins(task.id)
    s.say(s.mei, "先用灰度", to=asked)
    assert s.told(asked) == [KEPT]
    s.office.offset += timedelta(seconds=5)
    s.until(lambda: "有 1 条消息已留存" in text_of(s.posts(asked)[0]))
    assert [f.text for f in s.office.store.task(task.id).follow_ups] == ["先用灰度"]


def test_only_mentions_are_for_the_agent_where_that_is_chosen(scene: Make) -> None:
    """With `replies = "mentions"` other words in the thread are left alone, but answers still count."""
    s = scene(chat={"replies": "mentions"})
    card, asked, task = s.pending()
    s.say(s.eve, "今天天气不错", to=card)
    s.say(s.eve, "先看日志", to=card, mention=True)
    assert s.told(asked) == [KEPT]
    s.say(s.lin, "1", to=card)
    assert s.inquiry().state is InquiryState.APPROVED
    assert [f.text for f in s.office.store.task(task.id).follow_ups] == ["先看日志"]


def test_a_loose_answer_in_private_decides_what_is_open(scene: Make) -> None:
    """Alone with the bot nobody has to open the thread; anything else said there is a new job."""
    s = scene()
    chat = in_private(s)
    said = s.say(s.mei, "重启结算服务", chat=chat)
    first = s.office.task()
    s.asks(first.id)
    s.card(said, "请求 #1")
    loose = s.say(s.mei, "可以，但是先备份", chat=chat)
    assert s.inquiry().state is InquiryState.CHANGED
    assert s.told(loose) == ["请求 #1 已记录：修改后批准。"]
    s.say(s.mei, "顺便看看磁盘", chat=chat)
    assert [task.text for task in s.tasks()] == ["顺便看看磁盘", "重启结算服务"]


# --- who may -----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["group", "p2p"])
def test_people_of_other_tenants_cannot_start_jobs(scene: Make, where: str) -> None:
    """They are told how to change that, and nothing begins."""
    s = scene()
    chat = s.feishu.add_chat("group", [s.gus]) if where == "p2p" else s.group
    said = s.say(s.gus, "重启结算服务", chat=chat, mention=True)
    assert (s.told(said), s.tasks()) == ([GUESTS], ())


def test_a_listed_person_of_another_tenant_can(scene: Make) -> None:
    """Somebody wrote them down under [people]."""
    s = scene()
    s.office.handler.config = s.office.config.having(
        people={"gus": Person(accounts=(f"feishu:tenant_other:{s.gus.open_id}",))}
    )
    s.asked(by=s.gus)
    assert (s.office.task().asked_by.tenant, s.office.task().asked_by.guest) == ("tenant_other", True)


# --- once, and only by people ------------------------------------------------------------


def test_case_e07_a_message_that_comes_again_does_nothing(scene: Make) -> None:
    """Neither at once, nor with another event id, nor after the bot was started anew is it a second job."""
    s = scene()
    asked = s.asked()
    task = s.office.task()
    s.feishu.redeliver(asked)
    s.heard(asked, 2)
    s.feishu.say(s.mei, s.group, message_id=asked.message_id)
    s.heard(asked, 3)
    answer = s.say(s.mei, "先用灰度", to=asked)
    with ExitStack() as life:
        s.feishu.drop_connections()
        s.office = s.open(life)  # knows the store alone
        for attempt, message in ((4, asked), (2, answer)):
            s.feishu.say(s.mei, s.group, message_id=message.message_id)
            s.heard(message, attempt)
        assert len({attempt.event_id for attempt in asked.attempts}) == 3
        assert [t.id for t in s.tasks()] == [task.id]
        after = s.office.store.task(task.id)
        assert (after.turn, [f.text for f in after.follow_ups]) == (1, ["先用灰度"])
        assert len(s.told(asked)) == 1


def test_what_never_begins_a_job(scene: Make) -> None:
    """Nothing is begun, and nobody is bothered."""
    s = scene()
    lunch = s.say(s.mei, "午饭？")
    for said in [
        s.say(s.mei, "大家午饭吃什么"),
        s.say(s.mei, "1", to=lunch),
        s.say(s.mei, "你看呢", mention=[s.kai]),
        s.say(s.mei, "@_user_1 重启"),
        s.say(s.mei, "重启", msg_type="post"),
        s.say(s.mei, "", msg_type="sticker"),
        s.say(s.mei, "", msg_type="image", to=lunch),
    ]:
        assert (said.original, s.tasks(), s.feishu.messages(s.group)) == (said.original, (), [])


# --- old messages ------------------------------------------------------------------------


def held(s: Scene, text: str = "重启结算服务", **where: Any) -> Message:
    """The card that asks about an old message of Mei's."""
    said = s.say(s.mei, text, old_by=OLD, **{"mention": "to" not in where and "chat" not in where, **where})
    found = s.posts(where.get("to", said))
    return next(m for m in found if controls(m) == ["do_now", "leave"])


def test_case_e08_an_old_message_is_asked_about(scene: Make) -> None:
    """It is shown whole with two buttons; only its author decides; then it is done, once."""
    s = scene()
    card = held(s)
    assert "重启结算服务" in text_of(card)
    assert s.tasks() == ()
    refused = s.feishu.click(s.lin, card, "do_now")
    assert refused.toast is not None
    assert (refused.toast.kind, refused.toast.content) == (
        "error",
        "这条消息是 美美 写的，只有本人可以决定。",
    )
    before = stale(card)
    done = s.feishu.click(s.mei, card, "do_now")
    assert done.toast is not None
    assert (done.toast.kind, done.toast.content, controls(card)) == ("success", "现已开始。", [])
    assert "现已开始。" in text_of(card)
    again = s.feishu.click(s.mei, before, "leave")
    assert again.toast is not None
    assert again.toast.kind == "error"
    assert [(t.text, t.asked_by.name, t.place.thread) for t in s.tasks()] == [
        ("重启结算服务", "美美", card.root_id)
    ]


def test_case_e08_left_undone(scene: Make) -> None:
    """The card says so, and nothing was begun."""
    s = scene()
    card = held(s)
    assert s.feishu.click(s.mei, card, "leave").ok
    assert (controls(card), "未执行。" in text_of(card), s.tasks()) == ([], True, ())


@pytest.mark.parametrize("where", ["group", "p2p"])
def test_case_e08_typed_answers(scene: Make, where: str) -> None:
    """The numbers that the card names count in its thread, and in private also outside of it."""
    s = scene()
    chat = in_private(s) if where == "p2p" else s.group
    jobs = 0
    for words, begins, shown in [
        ("1", 1, "现已开始。"),
        ("１", 1, "现已开始。"),
        ("现在执行", 1, "现已开始。"),
        ("do it now", 1, "现已开始。"),
        ("2", 0, "未执行。"),
        ("不执行", 0, "未执行。"),
    ]:
        card = held(s, chat=chat, mention=where == "group")
        s.say(s.mei, words, chat=chat, to=None if where == "p2p" else card)
        jobs += begins
        assert (words, len(s.tasks()), controls(card)) == (words, jobs, [])
        assert (words, shown in text_of(card)) == (words, True)
        if begins:
            s.office.ends(s.office.task().id)


def test_case_e08_other_words_answer_nothing(scene: Make) -> None:
    """Other people, and words that are no clear answer, leave the old message held."""
    s = scene()
    card = held(s)
    for who, words in [(s.lin, "1"), (s.mei, "1?"), (s.mei, "谢谢"), (s.eve, "2")]:
        s.say(who, words, to=card)
        assert (words, s.tasks(), controls(card)) == (words, (), ["do_now", "leave"])


def test_case_e08_an_old_answer_decides_nothing_by_itself(scene: Make) -> None:
    """A `1` that was typed during the outage is held; told to do it now, it decides."""
    s = scene()
    request, asked, _ = s.pending()
    card = held(s, "1", to=asked)
    assert s.inquiry().open
    assert s.feishu.click(s.mei, card, "do_now").ok
    assert s.inquiry().state is InquiryState.APPROVED
    assert controls(card) == []
    s.until(lambda: controls(request) == [])


def test_case_e08_old_words_for_a_busy_agent(scene: Make) -> None:
    """Kept for its next turn when told so; that is said, and the card has nothing left to press."""
    s = scene()
    asked = s.asked()
    s.office.begins(s.office.task().id)
    card = held(s, "先用灰度", to=asked)
    done = s.feishu.click(s.mei, card, "do_now")
    assert done.toast is not None
    assert (done.toast.content, controls(card)) == (KEPT, [])


def test_case_e08_old_talk_between_people_is_let_go(scene: Make) -> None:
    """Nobody is asked about words that were for somebody else."""
    s = scene()
    asked = s.asked()
    s.say(s.mei, "你看到了吗？", to=asked, mention=[s.kai], old_by=OLD)
    s.say(s.mei, "午饭？", old_by=OLD)
    assert len(s.feishu.messages(s.group)) == 1
