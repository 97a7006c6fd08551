"""What each of Slack's error codes means for a message, in one table.

Codes as chat.postMessage, chat.update and files.completeUploadExternal document them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_runner.errors import CountersignError, FixConfiguration, TryLater
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown, ThreadGone

OUTCOMES: Mapping[str, type[Exception]] = {
    # Too much, or not to Slack's taste: a simpler form of the same.
    **dict.fromkeys(
        (
            "msg_too_long",
            "msg_blocks_too_long",
            "invalid_blocks",
            "invalid_blocks_format",
            "invalid_attachments",
            "too_many_attachments",
            "cannot_parse_attachment",
            "invalid_metadata_format",
            "metadata_too_large",
            "no_text",
            "markdown_text_conflict",
        ),
        CardRefused,
    ),
    # This message is out of reach, its thread is not.
    **dict.fromkeys(
        ("message_not_found", "cant_update_message", "edit_window_closed", "block_mismatch", "is_inactive"),
        MessageGone,
    ),
    # Nothing can be posted there any more.
    **dict.fromkeys(
        (
            "channel_not_found",
            "is_archived",
            "not_in_channel",
            "restricted_action",
            "restricted_action_read_only_channel",
            "restricted_action_thread_only_channel",
            "restricted_action_non_threadable_channel",
            "restricted_action_thread_locked",
            "user_not_found",
            "messages_tab_disabled",
            "team_access_not_granted",
        ),
        PlaceGone,
    ),
    "cannot_reply_to_message": ThreadGone,
    "thread_not_found": ThreadGone,
    # Whoever runs the bot has to do something.
    **dict.fromkeys(
        (
            "invalid_auth",
            "not_authed",
            "token_revoked",
            "token_expired",
            "account_inactive",
            "missing_scope",
            "no_permission",
            "access_denied",
            "org_login_required",
            "ekm_access_denied",
            "not_allowed_token_type",
            "two_factor_setup_required",
            "team_added_to_org",
        ),
        FixConfiguration,
    ),
    # It passes by itself.
    **dict.fromkeys(
        (
            "internal_error",
            "fatal_error",
            "service_unavailable",
            "request_timeout",
            "team_not_found",
            "update_failed",
            "message_limit_exceeded",
        ),
        TryLater,
    ),
    **dict.fromkeys(("ratelimited", "rate_limited"), SlowDown),
}

WAIT = 1.0
"""Seconds to wait when Slack limits the rate and does not say for how long (1 message/s/channel)."""


def outcome(code: str, answer: Mapping[str, Any], headers: Mapping[str, Any]) -> Exception:
    """The exception for one refused call. An unknown code is tried again later, and logged as it is."""
    kind = OUTCOMES.get(code, CountersignError)
    if kind is SlowDown:
        return SlowDown(_seconds(headers))
    said = f"Slack said {code}{_particulars(answer)}."
    if kind is FixConfiguration:
        needed = answer.get("needed")
        scope = f" Missing scope: {needed}." if needed else ""
        return FixConfiguration(said, hint=f"Check the token and install the app again.{scope}")
    return kind(said)


def _seconds(headers: Mapping[str, Any]) -> float:
    found = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    try:
        return max(WAIT, float(found[0] if isinstance(found, list) else found))
    except (ValueError, IndexError):
        return WAIT


def _particulars(answer: Mapping[str, Any]) -> str:
    """What Slack says about the place in the blocks; no text of the message is in it."""
    messages = (answer.get("response_metadata") or {}).get("messages") or answer.get("errors") or ()
    return f" ({'; '.join(map(str, messages[:3]))})" if messages else ""
