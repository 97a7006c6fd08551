"""A newcomer's first minutes: `countersign up` without a key, the printed link, a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.bot.web.test_browser import DESKTOP, FLAGS, PHONE
from tests.fakes.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.xdist_group("page")]

SOON = 60_000
"""Milliseconds; a turn takes about two seconds on an idle machine."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A fresh installation with the rehearsal."""
    with Stack(tmp_path_factory.mktemp("page")) as running:
        assert "rehearsal" in (running.folder / "up.log").read_text()
        yield running


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """One browser for this module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(stack: Stack, chromium: Browser) -> Iterator[Page]:
    """The page as the printed link opens it, for somebody who was not here before."""
    context = chromium.new_context(viewport=DESKTOP, locale="en")  # type: ignore[arg-type]  # width and height
    opened = context.new_page()
    opened.set_default_timeout(SOON)
    opened.goto(f"{stack.ready['url']}/login?token={stack.ready['token']}")
    yield opened
    context.close()


def start(page: Page, job: str) -> Locator:
    """Types a job on the first page, and waits for its request's card."""
    page.get_by_label("Ask for a job").fill(job)
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/t/*")
    card = page.locator(".block[data-key^='request:'] .card").last
    card.wait_for()
    return card


def result(page: Page) -> Locator:
    """The result, once it is there."""
    found = page.locator(".block[data-key^='result:'] .card").last
    found.wait_for()
    return found


def test_type_a_job_approve_and_read_the_result(page: Page, stack: Stack) -> None:
    """The main job, at phone width: typed, watched, approved by a click, done, with its accounts."""
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # width and height
    card = start(page, "say hello")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    expect(card).to_contain_text("hello.txt")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(result(page)).to_contain_text("Hello from the rehearsal")
    expect(result(page)).to_contain_text("model calls")
    assert (stack.workspace / "hello.txt").read_text() == "Hello from the rehearsal\n"


def test_approve_with_changes_runs_the_edited_command(page: Page, stack: Stack) -> None:
    """The edited command ran, not the one that was asked for."""
    card = start(page, "say hello again")
    card.locator("summary", has_text="Approve with changes").click()
    card.locator("[name='input.command']").fill("printf edited > hello.txt")
    card.get_by_role("button", name="Approve with these changes").click()
    result(page)
    assert (stack.workspace / "hello.txt").read_text() == "edited"


def test_a_question_is_answered_with_the_keyboard(page: Page) -> None:
    """Two questions, answered without a mouse, reach the model."""
    card = start(page, "ask me a question")
    first = card.locator("[name='answer.0']").first
    first.focus()
    page.keyboard.press("Space")
    card.locator("[name='answer.1']").first.focus()
    page.keyboard.press("Space")
    card.get_by_role("button", name="Send answers").focus()
    page.keyboard.press("Enter")
    expect(result(page)).to_contain_text(":")
