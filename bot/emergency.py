"""Break-glass by words: `break glass <why>`, told what it does, and `break glass <code>` to confirm it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from agent_runner import lifecycle
from agent_runner.errors import NotAllowed
from agent_runner.model import Inquiry, Kind, Verdict
from bot.commands import Chose, Said
from bot.reply import Reply
from cards import spoken, visible

if TYPE_CHECKING:
    from agent_runner.store import Snapshot
    from bot.handle import Handler

_FORM = re.compile(r"(?:break[ -]?glass|紧急放行|緊急承認)(?![a-z])[\s:：,，、]*(?P<rest>.*)", re.DOTALL)
_CODE = re.compile(r"[0-9]{4}")


class Alone(NamedTuple):
    """Somebody wants to approve alone: about which request, and why; or the code that confirms it."""

    number: int | None
    words: str
    code: str


def heard(text: str) -> Alone | None:
    """What such words say; None for all others."""
    number, said = spoken.split_number(spoken.without_mentions(text))
    plain = spoken.shadow(said)
    found = _FORM.match(plain)
    if found is None:
        return None
    rest = said[found.start("rest") :].strip()
    code = spoken.shadow(rest)
    return Alone(number, "" if _CODE.fullmatch(code) else rest, code if _CODE.fullmatch(code) else "")


def meant(
    alone: Alone, opened: tuple[Inquiry, ...], quoted: int | tuple[int, ...] | None
) -> tuple[Inquiry, ...]:
    """The open requests that may be meant: that number, else those on the card replied to, else all."""
    several = (quoted,) if isinstance(quoted, int) else quoted
    numbers = (alone.number,) if alone.number is not None else several
    return tuple(one for one in opened if numbers is None or one.number in numbers)


def hear(handler: Handler, said: Said, alone: Alone, snap: Snapshot) -> Reply:
    """Tells what would happen and gives a code; or does it, when the code comes back in time."""
    opened = lifecycle.open_inquiries(snap.inquiries)
    actor = handler.known(said.actor)
    if alone.code:
        return _confirmed(handler, said, alone, snap)
    found = meant(alone, opened, said.quoted)
    if not found:
        return Reply(key="glass.nothing_open")
    if len(found) > 1:
        numbers = [f"#{one.number}" for one in found]
        details = {"requests": ", ".join(numbers), "number": numbers[0][1:]}
        return Reply(key="glass.which", details=details)
    (inquiry,) = found
    tried = Chose(actor=actor, inquiry_id=inquiry.id, verdict=Verdict.APPROVE, break_glass=True)
    try:
        handler.check_may_decide(inquiry, actor, break_glass=True)
    except NotAllowed as refused:
        handler.record_attempt(snap.task.id, tried, refused)
        raise
    lifecycle.still_open(inquiry, handler.clock())
    if inquiry.kind is Kind.QUESTION:
        return Reply(key="glass.question")
    if not alone.words:
        return Reply(key="glass.why")
    code = handler.register.ask_to_confirm(actor.key, inquiry.id, inquiry.revision, alone.words)
    names = visible.inline(", ".join(handler.approver_names(inquiry)))
    return Reply(key="glass.confirm", details={"number": str(inquiry.number), "code": code, "who": names})


def _confirmed(handler: Handler, said: Said, alone: Alone, snap: Snapshot) -> Reply:
    actor = handler.known(said.actor)
    kept = handler.register.confirmed(actor.key, alone.code)
    inquiry = next((one for one in snap.inquiries if kept and one.id == kept.inquiry_id), None)
    if kept is None or inquiry is None or alone.number not in (None, inquiry.number):
        return Reply(key="glass.wrong_code")
    chose = Chose(
        actor=actor,
        inquiry_id=inquiry.id,
        verdict=Verdict.APPROVE,
        reason=kept.reason,
        break_glass=True,
        confirm=f"#{inquiry.number}",
        revision=kept.revision,
    )
    number = str(handler.choose(chose).number)
    return Reply(key="reply.decided", details={"number": number}, nested={"what": "verdict.approve"})
