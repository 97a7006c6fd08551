"""The page in a real browser: typing a job, deciding, watching it change, on a phone, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from agent_runner.model import InquiryState, Verdict
from bot.commands import Chose
from tests.bot.web.webdesk import LIN, QUESTIONS, TOKENS, WebDesk

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """One browser for this module; each person in it has their own context."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=list(FLAGS))
        yield browser
        browser.close()


class People:
    """Opens pages as somebody, and fails a test whose page complained."""

    def __init__(self, chromium: Browser, desk: WebDesk) -> None:
        self.chromium, self.desk = chromium, desk
        self.complaints: list[str] = []
        self.contexts: list[Any] = []

    def page(self, path: str, who: str = "mei", **options: Any) -> Page:
        """A page somebody opened by the printed link, connected to the live updates."""
        context = self.chromium.new_context(**{"viewport": DESKTOP, "locale": "en", **options})
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._console)
        page.goto(f"{self.desk.url}/login?token={TOKENS[who]}&next={path}")
        page.wait_for_selector("body[data-connected]")
        return page

    def _console(self, message: Any) -> None:
        # What a test makes fail (a refused decision, a broken request) the browser logs, too.
        wanted = ("status of 4", "net::ERR_FAILED")
        if message.type == "error" and not any(text in message.text for text in wanted):
            self.complaints.append(message.text)


@pytest.fixture
def people(chromium: Browser, desk: WebDesk) -> Iterator[People]:
    """The people at their browsers."""
    found = People(chromium, desk)
    yield found
    for context in found.contexts:
        context.close()
    assert found.complaints == []


def card(page: Page, number: int = 1) -> Locator:
    """The card of a request in a thread."""
    return page.locator(f".block[data-key='request:{number}'] .card")


def test_a_job_is_typed_and_its_thread_lives(people: People, desk: WebDesk) -> None:
    """From the first page to the result, with nothing loaded again."""
    page = people.page("/")
    page.get_by_label("Ask for a job").fill("restart the pods")
    page.get_by_label("Workspace").select_option("docs")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/t/t_1")
    page.wait_for_selector("body[data-connected]")
    page.evaluate("window.sameDocument = true")
    expect(page.locator("h1")).to_have_text("restart the pods")
    expect(page.locator(".block[data-key=status]")).to_contain_text("Waiting for a free worker in docs")
    desk.start("t_1", activity="tool", detail="Bash", tool_calls=2)
    expect(page.locator(".block[data-key=status]")).to_contain_text("2 steps")
    inquiry = desk.defer("t_1", "Bash", {"command": "make restart"})
    expect(card(page)).to_contain_text("make restart")
    expect(page).to_have_title("(1) restart the pods · Countersign")
    card(page).get_by_role("button", name="Approve", exact=True).click()
    expect(card(page)).to_contain_text("Approved by mei at 14:00")
    expect(card(page).locator("button")).to_have_count(0)
    expect(page).to_have_title("restart the pods · Countersign")
    desk.ran(desk.store.inquiry(inquiry.id), "all pods ready")
    desk.end("t_1", "Pods restarted.")
    expect(page.locator(".block[data-key='result:2']")).to_contain_text("Pods restarted.")
    expect(page.locator(".rows .state")).to_have_text("done")
    assert page.evaluate("window.sameDocument") is True


def test_approve_with_an_edited_input(people: People, desk: WebDesk) -> None:
    """What is typed into the form runs; the card shows the difference."""
    inquiry = desk.asked("Bash", {"command": "make restart"})
    page = people.page(f"/t/{inquiry.task_id}")
    card(page).get_by_text("Approve with changes…").click()
    field = card(page).locator("[name='input.command']")
    expect(field).to_be_focused()
    expect(card(page).get_by_role("button", name="Approve", exact=True)).to_be_hidden()
    field.fill("make -n restart")
    card(page).get_by_role("button", name="Approve with these changes").click()
    expect(card(page)).to_contain_text("Changed and approved by mei")
    expect(card(page).locator("ins")).to_contain_text("-n")
    decision = desk.store.inquiry(inquiry.id).decision
    assert decision is not None
    assert decision.input == {"command": "make -n restart"}


def test_an_edit_is_not_lost_to_the_button_beside_it(people: People, desk: WebDesk) -> None:
    """Who edited the call, folded the form away and presses Approve is asked which of the two."""
    inquiry = desk.asked()
    page = people.page(f"/t/{inquiry.task_id}")
    summary = card(page).get_by_text("Approve with changes…")
    summary.click()
    card(page).locator("[name='input.command']").fill("make -n restart")
    summary.click()
    card(page).get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="You changed something in the form.")).to_be_visible()
    expect(card(page).locator("[name='input.command']")).to_be_visible()
    assert desk.store.inquiry(inquiry.id).open


def test_reject_with_a_reason(people: People, desk: WebDesk) -> None:
    """The reason is needed, and kept word for word."""
    inquiry = desk.asked()
    page = people.page("/inbox")
    page.get_by_text("Reject…").click()
    page.locator("[name=reason]").fill("use the canary\nfirst")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.locator(".card")).to_contain_text("Rejected by mei at 14:00. It did not run.")
    expect(page.locator("#waiting")).to_be_hidden()
    decision = desk.store.inquiry(inquiry.id).decision
    assert decision is not None
    assert decision.reason == "use the canary\nfirst"


def test_a_question_with_two_parts(people: People, desk: WebDesk) -> None:
    """An incomplete answer is asked back with nothing lost; own words choose "other" by themselves."""
    inquiry = desk.asked("AskUserQuestion", QUESTIONS)
    page = people.page(f"/t/{inquiry.task_id}")
    page.get_by_label("dev", exact=True).check()
    page.get_by_label("prod", exact=True).check()
    page.get_by_role("button", name="Send answers").click()
    expect(page.get_by_role("alert").filter(has_text="Still without an answer")).to_be_visible()
    expect(page.get_by_label("prod", exact=True)).to_be_checked()
    page.locator("[name='other.0']").fill("the old one")
    page.get_by_role("button", name="Send answers").click()
    expect(card(page)).to_contain_text("Answered by mei")
    decision = desk.store.inquiry(inquiry.id).decision
    assert decision is not None
    assert decision.answers == {"Which database?": "the old one", "Which environments?": "dev, prod"}


def test_a_reply_by_number_and_a_follow_up(people: People, desk: WebDesk) -> None:
    """The reply box does what a reply in any thread does, and says what came of it."""
    inquiry = desk.asked()
    page = people.page(f"/t/{inquiry.task_id}")
    reply = page.get_by_label("Reply")
    reply.fill("what does this do?")
    reply.press("Control+Enter")
    expect(page.locator("[data-note]")).to_have_text(
        "The agent is busy. Your message is kept and it reads it next."
    )
    expect(reply).to_have_value("")
    expect(page.locator(".bubble").last).to_have_text("what does this do?")
    reply.fill("3 not on a Friday")
    page.get_by_role("button", name="Send").click()
    expect(card(page)).to_contain_text("not on a Friday")
    assert desk.store.inquiry(inquiry.id).state is InquiryState.REJECTED


def test_case_b06_the_loser_of_a_race_keeps_their_words(people: People, desk: WebDesk) -> None:
    """Decided by another browser while I type: my words stay, and I am told by whom and how."""
    inquiry = desk.asked()
    mei, lin = people.page(f"/t/{inquiry.task_id}"), people.page("/inbox", "lin")
    card(mei).get_by_text("Reject…").click()
    card(mei).locator("[name=reason]").fill("wait for the canary")
    lin.get_by_role("button", name="Approve", exact=True).click()
    expect(card(mei)).to_contain_text("Approved by lin")
    kept = mei.locator(".kept")
    expect(kept).to_contain_text("This was settled while you were typing. Your words were not sent:")
    expect(kept.locator("textarea")).to_have_value("wait for the canary")
    assert desk.store.inquiry(inquiry.id).state is InquiryState.APPROVED


def test_who_clicks_second_is_told_who_was_first(people: People, desk: WebDesk) -> None:
    """A click on a card that the live update had not reached yet."""
    inquiry = desk.asked()
    page = people.page("/inbox")
    page.route("**/api/events", lambda route: route.abort())
    page.route("**/live/inbox*", lambda route: route.abort())
    desk.handler.choose(Chose(actor=LIN, inquiry_id=inquiry.id, verdict=Verdict.APPROVE))
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".note[role=alert]")).to_have_text("Already decided by lin. Nothing was changed.")


def test_typing_survives_updates_around_it(people: People, desk: WebDesk) -> None:
    """Another request comes and a vote changes this card: text, place of the cursor and form stay."""
    inquiry = desk.asked(quorum=2)
    page = people.page("/inbox")
    page.get_by_text("Reject…").click()
    reason = page.locator("[name=reason]")
    reason.fill("not today")
    reason.evaluate("field => field.setSelectionRange(3, 3)")
    desk.handler.choose(Chose(actor=LIN, inquiry_id=inquiry.id, verdict=Verdict.APPROVE))
    expect(page.locator(".card").first).to_contain_text("1 of 2 approvals so far")
    desk.asked()
    expect(page.locator(".card")).to_have_count(2)
    expect(reason.first).to_have_value("not today")
    expect(reason.first).to_be_focused()
    page.keyboard.type("ever ")
    expect(reason.first).to_have_value("notever  today")


def test_a_server_that_is_away_loses_nothing(people: People, desk: WebDesk) -> None:
    """What could not be sent stays in its place, and the page says so."""
    page = people.page("/")
    page.route("**/threads", lambda route: route.abort())
    page.get_by_label("Ask for a job").fill("restart the pods")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-note]")).to_have_text(
        "The server cannot be reached, so this was not recorded. Try again."
    )
    expect(page.get_by_label("Ask for a job")).to_have_value("restart the pods")


def test_everything_by_keyboard(people: People, desk: WebDesk) -> None:
    """A job, an approval and a reason without a pointer; focus is never lost, and always visible."""
    page = people.page("/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "job":
            break
    page.keyboard.type("restart the pods")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/t/t_1")
    page.wait_for_selector("body[data-connected]")
    desk.start("t_1")
    desk.defer("t_1", "Bash", {"command": "make restart"})
    expect(card(page)).to_be_visible()
    page.get_by_text("Skip to the content").focus()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        if reached[-1] == "Reject…":
            break
    assert [name for name in reached if name.startswith(("make", "Approve", "Reject"))] == [
        "make restart",
        "Approve",
        "Approve with changes…",
        "Reject…",
    ]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.keyboard.type("use the canary")
    page.keyboard.press("Control+Enter")
    expect(card(page)).to_contain_text("Rejected by mei")
    assert page.evaluate("document.activeElement.closest('.block')?.dataset.key") == "request:1"


def test_on_a_phone(people: People, desk: WebDesk) -> None:
    """At 390 px nothing is cut off, the buttons are large enough to touch, and a thread has a way back."""
    offer = {"offer": f"Edit(./{'y' * 100})", "offer_for": "8h"}
    inquiry = desk.asked("Bash", {"command": "echo " + "x" * 300}, **offer)
    page = people.page(f"/t/{inquiry.task_id}", viewport=PHONE, is_mobile=True, has_touch=True)
    for path in (f"/t/{inquiry.task_id}", "/", "/inbox", "/grants", "/audit", "/login"):
        page.goto(desk.url + path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], (path, width)
    page.goto(f"{desk.url}/t/{inquiry.task_id}")
    approve = card(page).get_by_role("button", name="Approve", exact=True)
    box = approve.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    approve.tap()
    expect(card(page)).to_contain_text("Approved by mei")
    page.get_by_role("link", name="All threads").tap()
    expect(page.get_by_label("Ask for a job")).to_be_visible()


def test_signing_in_and_out(people: People, desk: WebDesk) -> None:
    """By hand, with a wrong token first; signed out in another tab, the page says so and keeps words."""
    page = people.page("/")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    page.get_by_label("Personal token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This token is not valid")
    page.get_by_label("Personal token").fill(TOKENS["mei"])
    page.get_by_role("button", name="Sign in").click()
    job = page.get_by_label("Ask for a job")
    job.fill("restart the pods")
    desk.registers.revoke_tokens("web::mei")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-note]")).to_contain_text("You are signed out.")
    expect(job).to_have_value("restart the pods")


@pytest.mark.parametrize(("lang", "approve"), [("en", "Approve"), ("zh", "批准"), ("ja", "承認")])
def test_the_reader_chooses_the_language(people: People, desk: WebDesk, lang: str, approve: str) -> None:
    """In the menu, for the page and its cards alike; the choice stays."""
    desk.asked()
    page = people.page("/inbox", locale="de")
    page.locator(".menu summary").click()
    page.locator(f".menu a[hreflang={lang}]").click()
    expect(page.get_by_role("button", name=approve, exact=True)).to_be_visible()
    page.goto(f"{desk.url}/inbox")
    expect(page.get_by_role("button", name=approve, exact=True)).to_be_visible()


def test_the_steps_of_one_turn_are_decided_on_one_card(people: People, desk: WebDesk) -> None:
    """One by one by keyboard, what is typed for another step stays, and the rest goes all at once."""
    first, second, third = desk.asked_together("make plan", "make apply", "make note")
    page = people.page(f"/t/{first.task_id}", "lin")
    shown = card(page)
    step = {mark: shown.locator(f"[data-step={mark}]") for mark in "abc"}
    step["b"].get_by_text("Reject…").click()
    step["b"].get_by_label("Why not? The agent gets these words.").fill("not before six")
    step["a"].get_by_role("button", name="Approve", exact=True).focus()
    page.keyboard.press("Enter")
    expect(step["a"]).to_contain_text("Approved by lin at 14:00 · runs when all steps are decided")
    expect(step["b"].get_by_role("textbox")).to_have_value("not before six")
    expect(shown.get_by_role("button", name="Approve all (2)")).to_be_visible()
    step["b"].get_by_role("button", name="Reject", exact=True).click()
    expect(step["b"]).to_contain_text("not before six")
    expect(shown.get_by_role("button", name="Approve all")).to_have_count(0)
    expect(shown).to_contain_text("c1 approve")
    page.get_by_label("Reply").fill("c1")
    page.get_by_role("button", name="Send").click()
    expect(step["c"]).to_contain_text("Approved by lin")
    expect(shown.locator("button")).to_have_count(0)
    found = [desk.store.inquiry(one.id).state for one in (first, second, third)]
    assert found == [InquiryState.APPROVED, InquiryState.REJECTED, InquiryState.APPROVED]


def test_all_steps_at_once_on_a_phone(people: People, desk: WebDesk) -> None:
    """Nothing is wider than the screen; edits that were not sent keep all from being approved unedited."""
    steps = desk.asked_together("make plan", "make apply " + "x" * 200, "make note")
    page = people.page(f"/t/{steps[0].task_id}", viewport=PHONE)
    shown = card(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    last = shown.locator("[data-step=c]")
    last.get_by_text("Approve with changes…").click()
    last.get_by_role("textbox", name="command").fill("make note -n")
    shown.get_by_role("button", name="Approve all (3)").click()
    expect(page.locator(".note[role=alert]").first).to_be_visible()
    assert all(desk.store.inquiry(one.id).open for one in steps)
    last.get_by_role("textbox", name="command").fill("make note")
    shown.get_by_role("button", name="Approve all (3)").click()
    expect(shown.locator(".card-outcome")).to_have_count(3)
    assert {str(desk.store.inquiry(one.id).state) for one in steps} == {"approved"}
