"""The pages as the server makes them, and what their buttons are answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from agent_runner.audit import Event
from agent_runner.model import Failure, Verdict
from bot.commands import Chose, Said
from bot.delivery import Shown
from bot.web import words
from bot.web.client import WebClient
from cards import compose, wording
from tests.bot.web.webdesk import LIN, MEI, QUESTIONS, TOKENS, WebDesk


@contextmanager
def browser(desk: WebDesk, who: str = "mei", lang: str = "en") -> Iterator[httpx.Client]:
    """A signed-in browser without scripts."""
    headers = {"Origin": desk.url, "Accept-Language": lang}
    with desk.client("") as client:
        client.get("/login", params={"token": TOKENS[who]})
        client.headers.update(headers)
        yield client


class Page(HTMLParser):
    """What a test looks for in a page: blocks, buttons, and what a strict policy forbids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.keys: list[str] = []
        self.verbs: list[str] = []
        self.forbidden: list[str] = []
        self.title = ""
        self._tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._tag = tag
        if "data-key" in values:
            self.keys.append(values["data-key"] or "")
        if tag in ("button", "form") and "data-verb" in values:
            self.verbs.append(values["data-verb"] or "")
        self.forbidden += [f"{tag} {name}" for name in values if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in values):
            self.forbidden.append(tag)

    def handle_data(self, data: str) -> None:
        if self._tag == "title":
            self.title += data
            self._tag = ""


def text_of(html: str) -> str:
    """The words of a piece of HTML."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def test_a_thread_tells_its_story_in_order(desk: WebDesk) -> None:
    """Words, requests and results in the order they came; the status last, while there is one."""
    inquiry = desk.asked()
    with browser(desk) as mei:
        waiting = Page(mei.get(f"/t/{inquiry.task_id}").text)
        desk.later(minutes=1)
        mei.post(f"/cards/{inquiry.id}/approve", json={"revision": 1})
        desk.ran(inquiry)
        desk.later(minutes=1)
        desk.end(inquiry.task_id, "Restarted.")
        done = Page(mei.get(f"/t/{inquiry.task_id}").text)
    assert waiting.keys == [inquiry.task_id, "head", "message:0", "request:1", "status"]
    assert waiting.verbs == ["approve", "change", "reject", "always", "stop"]
    assert waiting.title == "(1) restart the checkout pods · Countersign"
    assert done.keys == [inquiry.task_id, "head", "message:0", "request:1", "result:2"]
    assert done.verbs == []
    assert done.title == "restart the checkout pods · Countersign"


def test_results_of_earlier_turns_stay(desk: WebDesk) -> None:
    """What the courier posted for an earlier turn stands where it stood, with nothing to press."""
    client = WebClient(desk.registers, "en", desk.now)
    with browser(desk) as mei:
        mei.post("/threads", json={"text": "ship it"})
        desk.start("t_1")
        desk.later(seconds=5)
        desk.end("t_1", failure=Failure(code="model_unreachable", message="refused", hint="wait"))
        task = desk.store.task("t_1")
        card = compose.result_card(task, lang="en", zone=desk.service().zone, now=desk.now())
        shown = Shown(key="result:1", task_id=task.id, revision=task.revision, card=card)
        assert asyncio.run(client.post(task.place, shown)) == "result:1"
        desk.later(seconds=5)
        asyncio.run(client.update(task.place, "result:1", shown))
        desk.later(seconds=5)
        mei.post("/t/t_1/say", json={"text": "now with care"})
        page = Page(mei.get("/t/t_1").text)
    assert page.keys == ["t_1", "head", "message:0", "result:1", "message:1", "status"]
    assert page.verbs == ["stop"]


def test_who_may_not_decide_sees_who_may_and_no_buttons(desk: WebDesk) -> None:
    """Composed for each reader; the count is of what this reader can do."""
    inquiry = desk.asked(approvers=("group:oncall",))
    with browser(desk, "mei") as mei, browser(desk, "lin") as lin:
        hers, his = mei.get("/inbox").text, lin.get("/inbox").text
    assert Page(hers).verbs == []
    assert "You can&#39;t decide this one. These can: <bdi" in hers
    assert Page(hers).keys == ["empty", "inbox.others", inquiry.id]
    assert Page(hers).title == "Inbox · Countersign"
    assert Page(his).verbs == ["approve", "change", "reject", "always"]
    assert Page(his).keys == ["inbox.mine", inquiry.id]
    assert Page(his).title == "(1) Inbox · Countersign"


def test_what_was_decided_stays_in_its_place_while_the_page_is_open(desk: WebDesk) -> None:
    """An inbox that asks to `keep` a request gets it decided, not missing; ids of nothing are no matter."""
    first, second = desk.asked(), desk.asked()
    with browser(desk) as mei:
        mei.post(f"/cards/{first.id}/approve", json={"revision": 1})
        keep = f"{first.id},{second.id},i_none,"
        shown = mei.get("/live/inbox", params={"keep": keep}).json()
        again = mei.get("/live/inbox").json()
    assert Page(shown["regions"]["inbox"]).keys == ["inbox.mine", first.id, second.id]
    assert (shown["waiting"], shown["waiting_label"]) == (1, "1 waiting for you")
    assert Page(again["regions"]["inbox"]).keys == ["inbox.mine", second.id]


def test_blocks_that_did_not_change_keep_their_hash(desk: WebDesk) -> None:
    """The page's script touches only what differs."""

    def hashes(client: httpx.Client) -> dict[str, str]:
        html = "".join(client.get("/live/t/t_1").json()["regions"].values())
        return dict(re.findall(r'data-key="([^"]*)" data-hash="([^"]*)"', html))

    inquiry = desk.asked()
    with browser(desk) as mei:
        before = hashes(mei)
        assert hashes(mei) == before
        mei.post(f"/cards/{inquiry.id}/reject", json={"revision": 1, "fields": {"reason": ["no"]}})
        after = hashes(mei)
    changed = {key for key in before if before[key] != after.get(key)}
    assert changed == {"t_1", "head", "request:1", "status"}


PRESSED: list[tuple[str, dict[str, list[str]], str, dict[str, Any]]] = [
    ("approve", {}, "approved", {"verdict": Verdict.APPROVE}),
    ("always", {}, "approved", {"verdict": Verdict.APPROVE, "scope": "task"}),
    ("always_rule", {}, "approved", {"scope": "rule", "rule": "Bash(make restart:*)"}),
    ("always_until", {}, "approved", {"scope": "until", "rule": "Bash(make restart:*)"}),
    ("reject", {"reason": ["use the canary"]}, "rejected", {"reason": "use the canary"}),
    (
        "change",
        {"input.command": ["make -n restart"], "conditions": [""]},
        "changed",
        {"input": {"command": "make -n restart"}},
    ),
    (
        "change",
        {"input.command": ["make restart"], "conditions": ["dry run\r\nfirst"]},
        "changed",
        {"input": None, "conditions": "dry run\nfirst"},
    ),
]


@pytest.mark.parametrize(("verb", "fields", "state", "decision"), PRESSED)
def test_a_button_decides(
    desk: WebDesk, verb: str, fields: dict[str, list[str]], state: str, decision: dict[str, Any]
) -> None:
    """Each button and form of a request's card does what it says."""
    inquiry = desk.asked(offer="Bash(make restart:*)", offer_for="1h")
    with browser(desk) as mei:
        got = mei.post(f"/cards/{inquiry.id}/{verb}", json={"revision": 1, "fields": fields})
    assert got.status_code == 200
    stored = desk.store.inquiry(inquiry.id)
    assert stored.decision is not None
    assert (stored.state, stored.decision.by) == (state, MEI)
    assert {name: getattr(stored.decision, name) for name in decision} == decision


def test_a_questions_form_answers(desk: WebDesk) -> None:
    """Picked options by index, own words beside them."""
    inquiry = desk.asked("AskUserQuestion", QUESTIONS)
    fields = {"answer.0": ["other"], "other.0": ["the old one"], "answer.1": ["0", "2"], "other.1": [""]}
    with browser(desk) as mei:
        got = mei.post(f"/cards/{inquiry.id}/answer", json={"revision": 1, "fields": fields})
    assert got.json() == {"text": "Recorded for request #1: answered."}
    stored = desk.store.inquiry(inquiry.id)
    assert stored.decision is not None
    assert stored.decision.answers == {
        "Which database?": "the old one",
        "Which environments?": "dev, prod",
    }


REFUSED: list[tuple[str, dict[str, list[str]], int, str, str]] = [
    ("reject", {"reason": [" "]}, 422, "ask_back", "ask_back.why_reject"),
    (
        "change",
        {"input.command": ["make restart"], "conditions": [""]},
        422,
        "ask_back",
        "ask_back.what_change",
    ),
    ("answer", {}, 422, "ask_back", "ask_back.not_that_verb"),
    ("stop", {}, 422, "ask_back", "ask_back.not_that_verb"),
    ("fly", {}, 422, "ask_back", "ask_back.not_that_verb"),
    ("ask_again", {}, 409, "wrong_state", "error.wrong_state"),
]


@pytest.mark.parametrize("lang", list(words.LANGUAGES))
@pytest.mark.parametrize(("verb", "fields", "status", "code", "sentence"), REFUSED)
def test_a_button_that_does_not_fit_is_answered_in_the_readers_language(
    desk: WebDesk, lang: str, verb: str, fields: dict[str, list[str]], status: int, code: str, sentence: str
) -> None:
    """Nothing is decided, and the card says why."""
    inquiry = desk.asked()
    headers = {"Accept": "application/json"}
    with browser(desk, lang=lang) as mei:
        body = {"revision": 1, "fields": fields}
        got = mei.post(f"/cards/{inquiry.id}/{verb}", json=body, headers=headers)
    told = got.json()["error"]
    exact = "Request #1 is pending; only an expired one can be asked again."
    expected = exact if (lang, code) == ("en", "wrong_state") else wording.text(lang, sentence)
    assert (got.status_code, told["code"], told["message"]) == (status, code, expected)
    assert told["hint"] == ("" if code == "ask_back" or lang == "en" else exact)
    assert desk.store.inquiry(inquiry.id).open


@pytest.mark.parametrize("lang", list(words.LANGUAGES))
def test_who_comes_too_late_or_may_not_is_told(desk: WebDesk, lang: str) -> None:
    """Who was faster, that time is over, who may: in the reader's language, on the card."""
    decided, expired, others = desk.asked(), desk.asked(), desk.asked(approvers=("lin",))
    desk.handler.choose(Chose(actor=LIN, inquiry_id=decided.id, verdict=Verdict.APPROVE))
    headers = {"Accept": "application/json"}
    with browser(desk, lang=lang) as mei:
        answers = [
            mei.post(f"/cards/{one.id}/approve", json={}, headers=headers) for one in (decided, others)
        ]
        desk.later(hours=9)
        answers.append(mei.post(f"/cards/{expired.id}/approve", json={}, headers=headers))
    assert [(got.status_code, got.json()["error"]["message"]) for got in answers] == [
        (409, wording.error(lang, "already_decided", by="lin")),
        (403, wording.error(lang, "not_allowed", approvers="lin")),
        (410, wording.error(lang, "expired")),
    ]


def test_buttons_of_a_task(desk: WebDesk) -> None:
    """Stop and try again, each with a short answer."""
    with browser(desk) as mei:
        mei.post("/threads", json={"text": "ship it"})
        assert mei.post("/t/t_1/stop", json={}).json() == {"text": "Stopping."}
        mei.post("/threads", json={"text": "ship it"})
        desk.start("t_2")
        desk.end("t_2", failure=Failure(code="model_unreachable", message="refused", hint="wait"))
        assert Page(mei.get("/t/t_2").text).verbs == ["retry"]
        assert mei.post("/t/t_2/retry", json={}).json() == {"text": "Trying again."}
        assert mei.post("/t/t_2/fly", json={}).status_code == 404


HOSTILE = "<script>alert(1)</script>\u202e &amp; {{ 1234567*7 }} <@here>"


def test_untrusted_text_is_shown_and_never_runs(desk: WebDesk) -> None:
    """Markup, templates and hidden characters in any text of a person or the agent are text."""
    with browser(desk) as mei:
        mei.post("/threads", json={"text": HOSTILE})
        desk.start("t_1")
        inquiry = desk.defer("t_1", "Bash", {"command": HOSTILE}, agent_words=HOSTILE, rule=HOSTILE)
        desk.handler.say(Said(actor=MEI, task_id="t_1", text="wait " + HOSTILE))
        pages = [mei.get(path).text for path in ("/", "/t/t_1", "/inbox", "/audit", "/audit?task=t_1")]
        fields = {"reason": [HOSTILE]}
        mei.post(f"/cards/{inquiry.id}/reject", json={"revision": 1, "fields": fields})
        desk.start("t_1")
        desk.end("t_1", HOSTILE)
        pages += [mei.get(path).text for path in ("/", "/t/t_1", "/audit")]
        searched = mei.get("/audit", params={"actor": HOSTILE}).text
    for page in (*pages, searched):
        assert Page(page).forbidden == []
        assert "<script>alert" not in page
        assert str(1234567 * 7) not in page
    assert not [page for page in pages if "\u202e" in page]


@pytest.mark.parametrize("lang", list(words.LANGUAGES))
def test_every_page_speaks_the_readers_language(desk: WebDesk, lang: str) -> None:
    """`?lang=` chooses and is remembered; nothing on a page is scripted or styled inline."""
    inquiry = desk.asked()
    with browser(desk, lang="de") as mei:
        for path in ("/", "/inbox", "/audit", f"/t/{inquiry.task_id}", "/login", "/t/t_none"):
            page = mei.get(path, params={"lang": lang})
            assert f'<html lang="{lang}">' in page.text
            assert Page(page.text).forbidden == []
        assert f'<html lang="{lang}">' in mei.get("/inbox").text
        assert words.text(lang, "inbox.mine") in mei.get("/inbox").text


def test_the_configured_language_is_for_who_asks_for_none(desk: WebDesk) -> None:
    """Without a choice, a cookie or a language of ours, the configuration decides."""
    with browser(desk, lang="de, *;q=0.1") as mei:
        assert '<html lang="en">' in mei.get("/").text


def test_the_audit_page_tells_what_happened(desk: WebDesk) -> None:
    """Newest first for all threads, in order for one; readable, and with the state of the chain."""
    inquiry = desk.asked(approvers=("lin",))
    with browser(desk) as mei, browser(desk, "lin") as lin:
        mei.post(f"/cards/{inquiry.id}/approve", json={})
        fields = {"reason": ["use the canary"]}
        lin.post(f"/cards/{inquiry.id}/reject", json={"fields": fields})
        everything = mei.get("/audit").text
        one = mei.get("/audit", params={"task": "t_1"}).text
        his = mei.get("/audit", params={"actor": "lin"}).text
        page = mei.get("/audit", params={"task": "t_1", "limit": "2", "after": "1"}).text
        missing = mei.get("/audit", params={"task": "t_none"})
    sentences = [
        "mei asked for a job",
        "A worker started turn 1",
        "Request #1 was raised: Bash",
        "mei tried to decide request #1 and may not",
        "lin decided request #1: rejected",
    ]
    assert lines_of(one) == sentences
    assert lines_of(everything) == sentences[::-1]
    assert everything.count('href="/t/t_1">restart the checkout pods</a>') == len(sentences)
    assert lines_of(his) == ["lin decided request #1: rejected"]
    assert lines_of(page) == sentences[1:3]
    assert "Record intact: 5 entries" in one
    assert "The records of the threads on this page are intact." in everything
    assert "use the canary" in one
    assert missing.status_code == 404


def lines_of(html: str) -> list[str]:
    """The sentences of an audit page."""
    return [text_of(found) for found in re.findall(r'<p class="fact-line">(.*?)</p>', html, re.DOTALL)]


def test_an_altered_record_is_shown_as_such(desk: WebDesk) -> None:
    """Where the chain breaks is said on both pages."""
    inquiry = desk.asked()
    key = desk.store.keys.part(inquiry.task_id, "audit")
    raw = desk.store.client.lindex(key, 1)
    assert isinstance(raw, bytes)
    desk.store.client.lset(key, 1, raw.replace(b'"worker":"w"', b'"worker":"x"').decode())
    with browser(desk) as mei:
        for path in ("/audit", f"/audit?task={inquiry.task_id}"):
            page = mei.get(path).text
            assert "Record altered at entry 2: it does not follow from the one before" in page
            assert "intact" not in text_of(page)


def test_the_list_of_threads_goes_on(desk: WebDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older threads are one link away."""
    from bot.web import regions

    monkeypatch.setattr(regions, "THREADS_SHOWN", 2)
    with browser(desk) as mei:
        for _ in range(3):
            mei.post("/threads", json={"text": "go"})
        first, second = mei.get("/").text, mei.get("/?after=2").text
    assert (Page(first).keys, '<a href="/?after=2">Older threads</a>' in first) == (["t_3", "t_2"], True)
    assert (Page(second).keys, "Older threads" in second) == (["t_1"], False)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (0, "now"),
        (59, "now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (200_000, "2 d ago"),
    ],
)
def test_the_age_of_a_thread_has_one_unit(desk: WebDesk, seconds: int, age: str) -> None:
    """As long ago as one glance needs."""
    with browser(desk) as mei:
        mei.post("/threads", json={"text": "go"})
        desk.later(seconds=seconds)
        assert f"mei · {age}" in text_of(mei.get("/").text)


def test_words_of_all_languages_have_the_same_places() -> None:
    """A sentence that exists in one language exists in all, with the same places."""

    def places(text: str) -> list[str]:
        return sorted(re.findall(r"\{(\w+)\}", text))

    tables = words.WORDS
    assert list(tables) == list(words.LANGUAGES) == list(wording.LANGUAGES)
    for key, english in tables["en"].items():
        for lang, table in tables.items():
            assert table[key].strip(), (lang, key)
            assert places(table[key]) == places(english), (lang, key)


def test_every_event_of_the_record_has_a_sentence() -> None:
    """A new event cannot be forgotten."""
    assert [event for event in Event if f"on.{event}" not in words.WORDS["en"]] == []


def test_grants_are_listed_and_revoked_by_those_who_may(desk: WebDesk) -> None:
    """What is covered, where, until when, by whom; a plain form takes it back, for those who may."""
    for scope in ("task", "rule", "until"):
        inquiry = desk.asked(offer="Bash(make <b>:*)", offer_for="1h", approvers=("group:oncall",))
        with browser(desk, "lin") as lin:
            verb = {"task": "always", "rule": "always_rule", "until": "always_until"}[scope]
            assert lin.post(f"/cards/{inquiry.id}/{verb}", json={"revision": 1}).status_code == 200
    with browser(desk, "lin") as lin, browser(desk, "mei") as mei:
        his, hers = lin.get("/grants").text, mei.get("/grants").text
        rows = [text_of(row) for row in re.findall(r"<li class=\"fact\".*?</li>", his, re.DOTALL)]
        assert rows == [
            "g1 Exactly the call of request #1 in this thread · by lin at 14:00 · #1 Revoke",
            "g2 Bash(make &lt;b&gt;:*) in this thread · until 3 March, 02:00 · by lin at 14:00 · #2 Revoke",
            "g3 Bash(make &lt;b&gt;:*) in every thread of ops · until 15:00 · by lin at 14:00 · #3 Revoke",
        ]
        assert "/revoke" not in hers
        assert Page(his).forbidden == []
        form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        refused = mei.post("/grants/g3/revoke", headers=form)
        done = lin.post("/grants/g3/revoke", headers=form)
        gone = lin.post("/grants/g3/revoke", headers=form)
    assert (refused.status_code, done.status_code, done.headers["location"], gone.status_code) == (
        *(403, 303, "/grants", 404),
    )
    assert [grant.id for grant in desk.handler.grants()] == ["g1", "g2"]


def test_no_other_site_revokes(desk: WebDesk) -> None:
    """A form that another site sends with this browser's cookie does nothing."""
    inquiry = desk.asked(offer="Bash(make restart:*)", offer_for="1h")
    with browser(desk) as mei:
        mei.post(f"/cards/{inquiry.id}/always_until", json={"revision": 1})
        foreign = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.test"}
        got = mei.post("/grants/g1/revoke", headers=foreign)
    assert got.status_code == 403
    assert [grant.id for grant in desk.handler.grants()] == ["g1"]
