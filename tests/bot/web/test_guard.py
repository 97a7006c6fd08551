"""Who gets in, from where, and what every answer carries."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from agent_runner.errors import TryLater
from agent_runner.registers import Registers
from agent_runner.store import connect
from bot.web.guard import HEADERS
from tests.bot.web.webdesk import MEI, TOKENS, WebDesk

NOT_SIGNED_IN = {
    "error": {
        "code": "not_signed_in",
        "message": "This needs a valid token.",
        "hint": "Send `Authorization: Bearer <token>`, or open the link that `countersign up` prints.",
    }
}
FOREIGN = {
    "error": {
        "code": "foreign_site",
        "message": "Another site's page sent this, so it was not done.",
        "hint": "Use Countersign's own page.",
    }
}
CALLS = [
    ("POST", "/api/tasks"),
    ("GET", "/api/tasks"),
    ("GET", "/api/tasks/t_1"),
    ("POST", "/api/tasks/t_1/messages"),
    ("POST", "/api/tasks/t_1/stop"),
    ("POST", "/api/tasks/t_1/retry"),
    ("GET", "/api/inquiries"),
    ("GET", "/api/inquiries/i_1"),
    ("POST", "/api/inquiries/i_1/decision"),
    ("POST", "/api/inquiries/i_1/ask_again"),
    ("GET", "/api/audit"),
    ("GET", "/api/grants"),
    ("POST", "/api/grants/g1/revoke"),
    ("GET", "/api/events"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", "Basic bWVpLXRva2Vu", "mei-token"])
def test_every_call_needs_a_valid_token(shared: WebDesk, method: str, path: str, header: str | None) -> None:
    """401 before anything else is looked at."""
    headers = {"Authorization": header} if header else {}
    with shared.client("") as client:
        got = client.request(method, path, headers=headers)
    assert (got.status_code, got.json()) == (401, NOT_SIGNED_IN)
    assert got.headers["www-authenticate"] == "Bearer"


def test_a_wrong_token_is_not_helped_by_a_good_cookie(shared: WebDesk) -> None:
    """A program that sends a token is judged by that token."""
    with signed_in(shared) as browser:
        got = browser.get("/api/tasks", headers={"Authorization": "Bearer wrong"})
    assert got.status_code == 401


def test_a_revoked_token_is_out_at_once(desk: WebDesk) -> None:
    """Nothing remembers a token but the store."""
    with desk.client() as client:
        assert client.get("/api/tasks").status_code == 200
        desk.registers.revoke_tokens(MEI.account)
        assert client.get("/api/tasks").status_code == 401


@pytest.mark.parametrize("path", ["/", "/inbox", "/grants", "/audit", "/t/t_1", "/live/inbox"])
def test_pages_lead_to_the_sign_in_page_and_back(shared: WebDesk, path: str) -> None:
    """Who opens a link without being signed in lands where they wanted to go."""
    with shared.client("") as client:
        got = client.get(path)
    following = "/login" if path == "/" else f"/login?next={path.replace('/', '%2F')}"
    assert (got.status_code, got.headers["location"]) == (303, following)


def test_the_printed_link_signs_in(shared: WebDesk) -> None:
    """The token moves into a cookie that no script reads and no other site sends."""
    with shared.client("") as client:
        got = client.get("/login", params={"token": TOKENS["mei"]})
        port = httpx.URL(shared.url).port
    assert (got.status_code, got.headers["location"]) == (303, "/")
    assert got.headers["set-cookie"] == (
        f"countersign_{port}={TOKENS['mei']}; HttpOnly; Max-Age=2592000; Path=/; SameSite=strict"
    )


def test_the_sign_in_form_signs_in_and_out(shared: WebDesk) -> None:
    """Typed tokens may have blanks around them; signing out forgets the cookie."""
    ours = {"Origin": shared.url}
    with shared.client("") as client:
        got = client.post("/login", data={"token": " mei-token\n", "next": "/inbox"}, headers=ours)
        assert (got.status_code, got.headers["location"]) == (303, "/inbox")
        assert client.get("/inbox").status_code == 200
        out = client.post("/logout", headers=ours)
        assert (out.status_code, out.headers["location"]) == (303, "/login")
        assert client.get("/inbox").status_code == 303


@pytest.mark.parametrize(
    "following",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "", "evil"],
)
def test_signing_in_never_leads_away(shared: WebDesk, following: str) -> None:
    """`next` is a path of ours or the first page."""
    with shared.client("") as client:
        got = client.get("/login", params={"token": TOKENS["mei"], "next": following})
    assert got.headers["location"] == "/"


@pytest.mark.parametrize(
    ("lang", "message"),
    [
        (
            "en",
            "This token is not valid, or no longer. Take the link printed last, or ask whoever runs this.",
        ),
        ("zh", "令牌无效或已失效。请使用最近一次打印的链接，或联系管理员。"),
        (
            "ja",
            "このトークンは無効か、期限切れです。最後に表示されたリンクを使うか、管理者に尋ねてください。",
        ),
    ],
)
def test_a_wrong_token_says_what_to_do(shared: WebDesk, lang: str, message: str) -> None:
    """401 with the form again, and no cookie; the token is not repeated on the page."""
    with shared.client("") as client:
        got = client.get("/login", params={"token": "zyx<b>cba", "lang": lang})
    assert got.status_code == 401
    assert message in got.text
    assert not [form for form in ("zyx<b>cba", "zyx&lt;b", "zyx%3Cb") if form in got.text]
    assert "countersign_" not in got.headers.get("set-cookie", "")


@contextmanager
def signed_in(desk: WebDesk) -> Iterator[httpx.Client]:
    """A browser's session."""
    with desk.client("") as client:
        client.get("/login", params={"token": TOKENS["mei"]})
        yield client


BROWSERS: list[tuple[dict[str, str], int]] = [
    ({"Origin": "{ours}", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}, 201),
    ({"Origin": "{ours}", "Content-Type": "application/json; charset=utf-8"}, 201),
    ({"Content-Type": "application/json"}, 403),
    ({"Origin": "https://evil.example", "Content-Type": "application/json"}, 403),
    ({"Origin": "null", "Content-Type": "application/json"}, 403),
    ({"Origin": "{ours}", "Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"}, 403),
    ({"Origin": "{ours}", "Sec-Fetch-Site": "same-site", "Content-Type": "application/json"}, 403),
    ({"Origin": "{ours}", "Content-Type": "text/plain"}, 422),
    ({"Origin": "{ours}", "Content-Type": "application/x-www-form-urlencoded"}, 422),
]


@pytest.mark.parametrize(("headers", "status"), BROWSERS)
def test_a_browser_acts_only_from_our_own_page(desk: WebDesk, headers: dict[str, str], status: int) -> None:
    """What another site makes a signed-in browser send does nothing."""
    sent = {name: value.format(ours=desk.url) for name, value in headers.items()}
    with signed_in(desk) as browser:
        for path in ("/api/tasks", "/threads"):
            got = browser.post(path, content=b'{"text": "go"}', headers=sent)
            assert got.status_code == status
        if status == 403:
            assert browser.post("/api/tasks", content=b"{}", headers=sent).json() == FOREIGN
        made = browser.get("/api/tasks").json()["items"]
    assert len(made) == (2 if status == 201 else 0)


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_other_sites_cannot_sign_anybody_in_or_out(shared: WebDesk, path: str) -> None:
    """Forms of other sites are refused on these pages, too."""
    with signed_in(shared) as browser:
        got = browser.post(path, data={"token": "x"}, headers={"Origin": "https://evil.example"})
        assert got.status_code == 403
        assert browser.get("/inbox").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1", 200),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:{port}.evil.example", 403),
        ("localhost:80@evil.example", 403),
        ("::1", 403),
    ],
)
def test_only_our_own_names_are_answered(shared: WebDesk, host: str, status: int) -> None:
    """A name that somebody else pointed at us (DNS rebinding) reads and does nothing."""
    name = host.format(port=httpx.URL(shared.url).port)
    with shared.client() as client:
        got = client.get("/api/tasks", headers={"Host": name})
    assert got.status_code == status
    if status == 403:
        assert got.json()["error"] == {
            "code": "wrong_host",
            "message": "This address is not one that Countersign is reached by.",
            "hint": "Use the printed link, or set [web] public_url.",
        }


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("/login", "no-store"),
        ("/api/tasks", "no-store"),
        ("/nothing", "no-store"),
        ("/healthz", "no-store"),
        ("/static/page.css", "no-cache"),
        ("/static/nothing.css", "no-cache"),
    ],
)
def test_every_answer_carries_the_security_headers(shared: WebDesk, path: str, cache: str) -> None:
    """Nothing private is cached; no other origin's code, style or frame has a place here."""
    with shared.client() as client:
        got = client.get(path)
    assert {name: got.headers.get(name) for name in HEADERS} == HEADERS
    assert got.headers.get("cache-control") == cache
    assert HEADERS["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


# --- when the store is away ------------------------------------------------------------------


@pytest.fixture
def hung() -> Iterator[str]:
    """The address of a store that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


def test_case_e04_a_store_that_hangs_is_answered_in_time(desk: WebDesk, hung: str) -> None:
    """Within 1.5 s: health says no, a call says that nothing was recorded and when to try again."""
    broken = connect(hung, patient=False)
    desk.store.client = broken
    desk.registers.client = broken
    for path, status in (("/healthz", 503), ("/api/tasks", 503), ("/inbox", 503)):
        with desk.client() as client:
            began = time.monotonic()
            got = client.get(path)
            took = time.monotonic() - began
        assert got.status_code == status
        assert took < 1.5
        if path == "/healthz":
            assert got.json() == {"ok": False, "redis": False, "runners": 0, "version": "1.2.3"}
        else:
            assert got.headers["retry-after"] == "1"
        if path == "/api/tasks":
            assert got.json() == {
                "error": {
                    "code": "try_again",
                    "message": "The store did not answer, so this could not be recorded.",
                    "hint": "Try again in a moment: nothing is done twice. "
                    "`countersign doctor` shows the cause.",
                }
            }


def test_what_we_did_not_expect_shows_no_traceback(desk: WebDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 in plain words, for programs and for people."""

    def broken(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(desk.store, "list_tasks", broken)
    with desk.client() as client:
        got = client.get("/api/tasks")
        page = client.get("/")
    assert (got.status_code, got.json()) == (
        500,
        {
            "error": {
                "code": "error",
                "message": "Something went wrong on our side; it is in the log.",
                "hint": "Try again; nothing was approved by it.",
            }
        },
    )
    assert page.status_code == 500
    assert "The fault is on our side and is in the log." in page.text
    assert "secret detail" not in got.text + page.text


def test_a_store_that_is_gone_says_try_later() -> None:
    """A refused connection is the same answer as a silent one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TryLater):
        Registers(connect(f"redis://127.0.0.1:{port}", patient=False)).last_change()
