"""Requests of Feishu to our own address: who sent them, when, and what is in them.

A request is signed with a plain SHA-256 over timestamp, nonce, Encrypt Key and the body, and its
body is encrypted with AES-256-CBC (key: SHA-256 of the Encrypt Key; the first 16 bytes are the IV).
Source: server-docs/event-subscription-guide, "send callbacks to the developer's server".
The question by which Feishu tries an address (url_verification) may come without a signature; that
it could be encrypted is its proof.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from agent_runner.errors import FixInput, NotAllowed

FRESH_SECONDS = 300
"""How far a request's time may be from ours, in both directions. Feishu leaves the number to us."""

_BLOCK = 16

Json = dict[str, Any]


def open_request(
    headers: Mapping[str, str],
    body: bytes,
    *,
    encrypt_key: str,
    verification_token: str,
    now: float,
    seen: Callable[[str], bool],
) -> Json:
    """The event, callback or challenge in one request.

    `now` is in seconds since the epoch. `seen(key)` says whether a request with that key (at most
    80 characters) was taken before, and remembers it for at least 10 minutes; who cannot handle
    what is returned should forget it again. Without a `verification_token` that check is left out.
    Raises `NotAllowed` for what does not prove to be Feishu's or was here before, `FixInput` for a
    proven request that cannot be understood.
    """
    if not encrypt_key:  # without it nothing proves anything
        raise NotAllowed("There is no Encrypt Key here.", hint="Set FEISHU_ENCRYPT_KEY.")
    given = {name.lower(): value for name, value in headers.items()}
    if not given.get("x-lark-signature"):
        return _unsigned(body, encrypt_key, verification_token)
    _check_signature(given, body, encrypt_key)
    _check_time(given, now)
    if seen(f"feishu-request:{given['x-lark-signature']}"):
        raise NotAllowed("This request was here before.")
    payload = _decrypted(body, encrypt_key)
    _check_token(payload, verification_token)
    return payload


def challenge(payload: Mapping[str, Any]) -> Json | None:
    """The answer to the question by which Feishu tries an address (due within 1 s); None for all else."""
    if payload.get("type") != "url_verification":
        return None
    return {"challenge": payload.get("challenge", "")}


def _unsigned(body: bytes, encrypt_key: str, verification_token: str) -> Json:
    """A challenge. What else fails here fails alike, so that nobody can feel their way to a plaintext."""
    try:
        payload = _decrypted(body, encrypt_key)
        _check_token(payload, verification_token)
        if challenge(payload) is not None:
            return payload
    except (FixInput, NotAllowed):
        pass
    raise NotAllowed("The request is not signed.", hint="Set an Encrypt Key in the developer console.")


def _check_signature(given: Mapping[str, str], body: bytes, encrypt_key: str) -> None:
    signed = given.get("x-lark-request-timestamp", "") + given.get("x-lark-request-nonce", "") + encrypt_key
    expected = hashlib.sha256(signed.encode() + body).hexdigest()
    if not hmac.compare_digest(expected.encode(), given["x-lark-signature"].encode()):
        raise NotAllowed("The signature is not Feishu's.", hint="Check FEISHU_ENCRYPT_KEY.")


def _check_time(given: Mapping[str, str], now: float) -> None:
    told = given.get("x-lark-request-timestamp", "")
    # Digits alone: int() would also take signs, spaces and underscores.
    if not (told.isascii() and told.isdigit()) or abs(now - int(told[:20])) > FRESH_SECONDS:
        raise NotAllowed("The request is not of now.", hint="Check this machine's clock.")


def _decrypted(body: bytes, encrypt_key: str) -> Json:
    try:
        sealed = base64.b64decode(json.loads(body)["encrypt"], validate=True)
        vector, cipher_text = sealed[:_BLOCK], sealed[_BLOCK:]
        cipher = Cipher(algorithms.AES(hashlib.sha256(encrypt_key.encode()).digest()), modes.CBC(vector))
        decryptor, unpadder = cipher.decryptor(), PKCS7(_BLOCK * 8).unpadder()
        padded = decryptor.update(cipher_text) + decryptor.finalize()
        payload = json.loads(unpadder.update(padded) + unpadder.finalize())
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError) as error:
        raise FixInput("The request is no encrypted JSON.", cause=type(error).__name__) from None
    if not isinstance(payload, dict):
        raise FixInput("The request is no JSON object.")
    return payload


def _check_token(payload: Mapping[str, Any], verification_token: str) -> None:
    header = payload.get("header")
    told = header.get("token") if isinstance(header, dict) else payload.get("token")
    if not verification_token:
        return
    # JSON can hold halves of characters, which UTF-8 cannot.
    if not hmac.compare_digest(verification_token.encode(), str(told).encode(errors="surrogatepass")):
        raise NotAllowed("The verification token is not the app's.", hint="Check FEISHU_VERIFICATION_TOKEN.")
