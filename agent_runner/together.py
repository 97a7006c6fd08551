"""Several events of one moment as one change: all of them are stored, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agent_runner.aggregate import Changes, Snapshot

Event = Callable[[Snapshot], Changes]


def in_turn(snap: Snapshot, events: Iterable[Event]) -> Changes:
    """What the events change, each seeing what those before it did; raises what one of them raises.

    At most the last of them may move the task, and none may touch an inquiry of another.
    """
    whole = Changes()
    for event in events:
        changes = event(snap)
        whole = Changes(
            task=changes.task or whole.task,
            inquiries=(*whole.inquiries, *changes.inquiries),
            messages=(*whole.messages, *changes.messages),
            notes=(*whole.notes, *changes.notes),
            grants=(*whole.grants, *changes.grants),
            enqueue=whole.enqueue or changes.enqueue,
            release_lease=whole.release_lease or changes.release_lease,
        )
        snap = _seeing(snap, changes)
    return whole


def _seeing(snap: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot with what was changed in it; revisions grow only when it is written."""
    new = {inquiry.id: inquiry for inquiry in changes.inquiries}
    return replace(snap, inquiries=tuple(new.get(i.id, i) for i in snap.inquiries))
