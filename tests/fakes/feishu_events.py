"""The events Feishu sends, as the documentation shows them, and how an HTTP callback is signed and encrypted.

Sources: im-v1/message/events/receive (message), feishu-cards/card-callback-communication (card),
event-subscription-guide: "send events to the developer's server" (url_verification, encryption, signature).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from Crypto.Cipher import AES
from Crypto.Util.Padding import pad

from tests.fakes.feishu_model import Json, Message, User

REDELIVERY = (15.0, 300.0, 3_600.0, 21_600.0)
"""Seconds before each further try of an event: 15 s, 5 min, 1 h, 6 h (event overview, "re-sending")."""


def user_ids(user: User) -> dict[str, str]:
    """The three ids of a person."""
    return {"union_id": user.union_id, "user_id": user.user_id, "open_id": user.open_id}


def message_event(
    message: Message, *, app_id: str, tenant_key: str, token: str, event_id: str, now: float
) -> Json:
    """im.message.receive_v1 for a message of a person; times are strings of milliseconds."""
    sender = message.sender
    assert sender is not None  # "at present only user": a bot's own messages are no events
    body = {
        "message_id": message.message_id,
        "root_id": message.root_id,
        "parent_id": message.parent_id,
        "thread_id": message.thread_id,
        "create_time": str(int(message.sent_at * 1000)),
        "update_time": str(int(message.sent_at * 1000)),
        "chat_id": message.chat_id,
        "chat_type": "p2p" if message.chat.kind == "p2p" else "group",
        "message_type": message.msg_type,
        "content": json.dumps(message.content, ensure_ascii=False),
        "mentions": message.mentions,
    }
    return {
        "schema": "2.0",
        "header": {
            "event_id": event_id,
            "event_type": "im.message.receive_v1",
            "create_time": str(int(now * 1_000)),
            "token": token,
            "app_id": app_id,
            "tenant_key": tenant_key,
        },
        "event": {
            "sender": {
                "sender_id": user_ids(sender),
                "sender_type": "user",
                "tenant_key": sender.tenant_key,
            },
            # root_id and parent_id "only for replies", thread_id "only in a topic"
            "message": {key: value for key, value in body.items() if value not in ("", [])},
        },
    }


def card_event(
    message: Message,
    user: User,
    action: Json,
    *,
    app_id: str,
    tenant_key: str,
    token: str,
    update_token: str,
    now: float,
) -> Json:
    """card.action.trigger for a click; the header's create_time is in microseconds, unlike an event's."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": secrets.token_hex(16),
            "token": token,
            "create_time": str(int(now * 1_000_000)),
            "event_type": "card.action.trigger",
            "tenant_key": tenant_key,
            "app_id": app_id,
        },
        "event": {
            "operator": {"tenant_key": user.tenant_key, **user_ids(user)},
            "token": update_token,
            "action": action,
            "host": "im_message",
            "context": {"open_message_id": message.message_id, "open_chat_id": message.chat_id},
        },
    }


def encrypt(payload: Mapping[str, Any], key: str) -> bytes:
    """The body of an encrypted callback: AES-256-CBC, key SHA-256 of the Encrypt Key, IV in front, PKCS7."""
    vector = secrets.token_bytes(16)
    cipher = AES.new(hashlib.sha256(key.encode()).digest(), AES.MODE_CBC, vector)
    plain = json.dumps(payload, ensure_ascii=False).encode()
    sealed = base64.b64encode(vector + cipher.encrypt(pad(plain, AES.block_size)))
    return json.dumps({"encrypt": sealed.decode()}).encode()


def signed_headers(body: bytes, key: str, *, now: float) -> dict[str, str]:
    """The headers of a signed callback: plain SHA-256 over timestamp, nonce, Encrypt Key and the raw body."""
    timestamp, nonce = str(int(now)), secrets.token_hex(8)
    signature = hashlib.sha256(f"{timestamp}{nonce}{key}".encode() + body).hexdigest()
    return {
        "Content-Type": "application/json; charset=utf-8",
        "X-Lark-Request-Timestamp": timestamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": signature,
    }
