"""A call that people had let run is held back when it is to run: on record, and seen by people. Pure."""

from __future__ import annotations

from datetime import datetime

from agent_runner import notes
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event
from agent_runner.model import Execution, Hold


def held_back(snap: Snapshot, inquiry_id: str, tool_use_id: str, why: str, now: datetime) -> Changes:
    """Notes why it did not run; nothing if it did run, or if that is noted already."""
    inquiry = snap.inquiry(inquiry_id)
    if inquiry.run.state is not Execution.NONE or inquiry.run.refused == why:
        return Changes()
    over = inquiry.hold is not Hold.DEFERRED  # made again once more, it is asked about anew
    run = inquiry.run.having(refused=why)
    refused = inquiry.having(run=run, tool_use_id=tool_use_id, settled=inquiry.settled or over)
    note = notes.of_inquiry(Event.CALL_DENIED, refused, now, None, "", why=why)
    return Changes(task=snap.task.having(updated_at=now), inquiries=(refused,), notes=(note,))
