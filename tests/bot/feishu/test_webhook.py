from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from agent_runner.errors import FixInput, NotAllowed
from bot.feishu.webhook import challenge, open_request
from tests.fakes.feishu_events import encrypt, signed_headers

KEY = "k-encrypt"
TOKEN = "t-verification"
NOW = 1_800_000_000.0
EVENT = {
    "schema": "2.0",
    "header": {"event_id": "e1", "event_type": "im.message.receive_v1", "token": TOKEN},
    "event": {"message": {"message_id": "om_1", "content": '{"text":"早上好 \\" <at>"}'}},
}
QUESTION = {"type": "url_verification", "challenge": "c-1", "token": TOKEN}
UNSIGNED = "The request is not signed."


def opened(
    headers: Mapping[str, str],
    body: bytes,
    *,
    seen: Callable[[str], bool] = lambda _: False,
    encrypt_key: str = KEY,
    verification_token: str = TOKEN,
) -> dict[str, Any]:
    """What a request holds, for the app with these keys at `NOW`."""
    return open_request(
        headers, body, encrypt_key=encrypt_key, verification_token=verification_token, now=NOW, seen=seen
    )


def sealed(payload: Mapping[str, Any], *, at: float = NOW) -> tuple[dict[str, str], bytes]:
    """Headers and body of a genuine request sent at that time."""
    body = encrypt(payload, KEY)
    return signed_headers(body, KEY, now=at), body


@pytest.mark.parametrize("case", [str.lower, str.upper, str], ids=["lower", "upper", "as sent"])
@pytest.mark.parametrize("payload", [EVENT, QUESTION], ids=["event", "challenge"])
def test_a_signed_request_is_opened(payload: dict[str, Any], case: Callable[[str], str]) -> None:
    """Signature, time and token are right: what was sent comes out, whatever the case of header names."""
    headers, body = sealed(payload)
    assert opened({case(name): value for name, value in headers.items()}, body) == payload


@pytest.mark.parametrize("age", [-300, -299, 0, 299, 300])
def test_a_request_of_the_last_five_minutes_is_fresh(age: int) -> None:
    """Clocks may differ in both directions."""
    assert opened(*sealed(EVENT, at=NOW - age)) == EVENT


@pytest.mark.parametrize("age", [-86_400, -302, 302, 3_600, 86_400])
def test_a_request_of_another_time_is_refused(age: int) -> None:
    """A recorded request is worth nothing later."""
    with pytest.raises(NotAllowed, match="not of now"):
        opened(*sealed(EVENT, at=NOW - age))


def test_a_replay_is_refused() -> None:
    """The same request counts once; another one with the same content is a new one."""
    taken: set[str] = set()

    def seen(key: str) -> bool:
        known = key in taken
        taken.add(key)
        return known

    headers, body = sealed(EVENT)
    again = signed_headers(body, KEY, now=NOW)
    assert opened(headers, body, seen=seen) == EVENT
    with pytest.raises(NotAllowed, match="was here before"):
        opened(headers, body, seen=seen)
    assert opened(again, body, seen=seen) == EVENT
    assert [len(key) <= 80 for key in taken] == [True, True]


def test_only_proven_requests_are_remembered() -> None:
    """Nobody else can fill the memory of what was seen, or have a genuine request refused."""
    asked: list[str] = []
    headers, body = sealed(EVENT)

    def seen(key: str) -> bool:
        asked.append(key)
        return False

    for forged in ({**headers, "X-Lark-Signature": "0" * 64}, sealed(EVENT, at=NOW - 900)[0]):
        with pytest.raises(NotAllowed):
            opened(forged, body, seen=seen)
    assert asked == []


def _changed(**changes: str) -> Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]]:
    names = {
        "signature": "X-Lark-Signature",
        "timestamp": "X-Lark-Request-Timestamp",
        "nonce": "X-Lark-Request-Nonce",
    }
    return lambda headers, body: ({**headers, **{names[k]: v for k, v in changes.items()}}, body)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        pytest.param(_changed(signature="0" * 64), "signature is not", id="other signature"),
        pytest.param(_changed(signature="ü"), "signature is not", id="signature not ASCII"),
        pytest.param(_changed(nonce="other"), "signature is not", id="other nonce"),
        pytest.param(_changed(timestamp=str(int(NOW) + 1)), "signature is not", id="other time"),
        pytest.param(lambda h, b: (h, b + b" "), "signature is not", id="other body"),
        pytest.param(
            lambda h, b: ({**h, "X-Lark-Signature": h["X-Lark-Signature"].upper()}, b),
            "signature is not",
            id="other spelling",
        ),
        pytest.param(
            lambda _, b: (signed_headers(b, "other", now=NOW), b), "signature is not", id="other key"
        ),
        pytest.param(_changed(signature=""), UNSIGNED, id="no signature"),
        pytest.param(lambda _, b: ({}, b), UNSIGNED, id="no headers"),
        pytest.param(
            lambda h, _: (h, encrypt({**EVENT, "header": {"token": "other"}}, KEY)),
            "signature is not",
            id="signature of another request",
        ),
    ],
)
def test_a_forged_request_is_refused(
    forge: Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]], said: str
) -> None:
    """Whatever is changed, nothing of it is opened."""
    with pytest.raises(NotAllowed, match=said):
        opened(*forge(*sealed(EVENT)))


@pytest.mark.parametrize("timestamp", ["", "-1", "1_8", " 1800000000", "１８", "9" * 5_000, "now"])
def test_a_time_that_is_none_is_refused(timestamp: str) -> None:
    """A signed request whose time cannot be read is not of now."""
    body = encrypt(EVENT, KEY)
    signature = hashlib.sha256(f"{timestamp}n{KEY}".encode() + body).hexdigest()
    headers = {
        "x-lark-request-timestamp": timestamp,
        "x-lark-request-nonce": "n",
        "x-lark-signature": signature,
    }
    with pytest.raises(NotAllowed, match="not of now"):
        opened(headers, body)


@pytest.mark.parametrize(
    "payload",
    [
        {**EVENT, "header": {"token": "other"}},
        {**EVENT, "header": {"token": "\ud800"}},
        {**EVENT, "header": {}},
        {"schema": "2.0", "header": None, "token": ""},
        {**QUESTION, "token": "other"},
        {"type": "event_callback", "event": {}},
    ],
)
def test_the_verification_token_must_be_the_apps(payload: dict[str, Any]) -> None:
    """Signed as it may be, another app's request is refused; without a token here, none is looked at."""
    headers = signed_headers(body := _ascii_sealed(payload), KEY, now=NOW)
    with pytest.raises(NotAllowed, match="verification token"):
        opened(headers, body)
    assert opened(headers, body, verification_token="") == payload


def _ascii_sealed(payload: Mapping[str, Any]) -> bytes:
    """`encrypt` for what has no UTF-8: escapes within escapes."""
    try:
        return encrypt(payload, KEY)
    except UnicodeEncodeError:
        return _sealed_text(json.dumps(payload))


def _sealed_text(plain: str | bytes) -> bytes:
    """A body with anything at all in it."""
    raw = plain.encode() if isinstance(plain, str) else plain
    vector, fill = b"v" * 16, 16 - len(raw) % 16
    cipher = Cipher(algorithms.AES(hashlib.sha256(KEY.encode()).digest()), modes.CBC(vector)).encryptor()
    sealed = vector + cipher.update(raw + bytes([fill]) * fill) + cipher.finalize()
    return json.dumps({"encrypt": base64.b64encode(sealed).decode()}).encode()


BROKEN = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff",
    "a list": b"[]",
    "a number": b"1",
    "not encrypted": json.dumps(EVENT).encode(),
    "encrypt is no text": b'{"encrypt": 1}',
    "no base64": b'{"encrypt": "*"}',
    "nothing": b'{"encrypt": ""}',
    "half a block": json.dumps({"encrypt": base64.b64encode(b"v" * 24).decode()}).encode(),
    "no block": json.dumps({"encrypt": base64.b64encode(b"v" * 16).decode()}).encode(),
    "bad padding": json.dumps({"encrypt": base64.b64encode(b"v" * 48).decode()}).encode(),
    "another key": encrypt(EVENT, "other"),
    "text in it": _sealed_text("hello"),
    "a list in it": _sealed_text("[1]"),
    "no UTF-8 in it": _sealed_text(b"\xff\xfe"),
    "too deep": _sealed_text("[" * 100_000),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_signed_request_that_is_no_event_is_to_be_corrected(body: bytes) -> None:
    """Feishu's own request that cannot be understood is told as that, and never as another error."""
    with pytest.raises(FixInput):
        opened(signed_headers(body, KEY, now=NOW), body)


UNPROVEN = {
    **BROKEN,
    "an event": encrypt(EVENT, KEY),
    "wrong token": encrypt({**QUESTION, "token": "x"}, KEY),
}


@pytest.mark.parametrize("body", UNPROVEN.values(), ids=UNPROVEN.keys())
def test_without_a_signature_everything_is_refused_alike(body: bytes) -> None:
    """Different answers would tell a stranger, block by block, what an overheard request says."""
    with pytest.raises(NotAllowed) as refused:
        opened({}, body)
    assert (refused.value.message, refused.value.details) == (UNSIGNED, {})


def test_an_unsigned_challenge_is_answered_if_it_could_be_encrypted() -> None:
    """Feishu tries the address before it signs."""
    assert challenge(opened({}, encrypt(QUESTION, KEY))) == {"challenge": "c-1"}


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (QUESTION, {"challenge": "c-1"}),
        ({"type": "url_verification"}, {"challenge": ""}),
        (EVENT, None),
        ({"challenge": "c-1"}, None),
        ({}, None),
    ],
)
def test_challenge(payload: dict[str, Any], answer: dict[str, Any] | None) -> None:
    """Only the question by which an address is tried is answered with its own words."""
    assert challenge(payload) == answer


def test_without_an_encrypt_key_nothing_is_taken() -> None:
    """What nothing proves is not Feishu's, signed with nothing or not signed at all."""
    body = encrypt(EVENT, "")
    for headers in ({}, signed_headers(body, "", now=NOW)):
        with pytest.raises(NotAllowed, match="no Encrypt Key"):
            opened(headers, body, encrypt_key="")
