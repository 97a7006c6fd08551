"""Encoded form of one transcript entry: a codec byte, then JSON, compressed where that helps."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, cast

from agent_runner.errors import EngineFailed

RAW, ZLIB = b"j", b"z"
"""First byte: plain JSON, or zlib level 1 over JSON (a third of the memory)."""
SHORTENED = 4_096
"""Strings up to this many characters survive in the stub of an entry that is too large."""
SHORTENED_TEXT = r"\(\d+ characters were too many to keep\)"
"""What stands in such a stub for a longer one."""


def decode(blob: bytes) -> dict[str, Any]:
    """The entry; raises `EngineFailed` if this version cannot read it."""
    return cast(dict[str, Any], json.loads(unpack(blob)))


def to_json(value: object) -> bytes:
    """Compact JSON in ASCII: tool output may hold half a surrogate pair, which UTF-8 cannot encode."""
    return json.dumps(value, separators=(",", ":")).encode()


def pack(text: bytes) -> bytes:
    """JSON text in the smaller of the two encodings."""
    packed = zlib.compress(text, 1)
    return ZLIB + packed if len(packed) < len(text) else RAW + text


def unpack(blob: bytes) -> bytes:
    """JSON text of an encoded entry; raises `EngineFailed` if this version cannot read it."""
    codec, body = blob[:1], blob[1:]
    try:
        if codec == ZLIB:
            return zlib.decompress(body)
        if codec == RAW:
            return body
        reason = f"codec {codec!r} is unknown"
    except zlib.error as error:
        reason = str(error)
    raise EngineFailed(
        f"An entry of the stored transcript cannot be read: {reason}.",
        hint="Was it written by a newer version? Then update this runner; otherwise start a new task.",
    )


def contains(entry: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether one of the entry's message blocks has all these fields."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and wanted.items() <= block.items() for block in blocks)


def stub(entry: Mapping[str, Any], size: int, limit: int) -> bytes:
    """JSON of an entry of `size` bytes without its bulk, at most about `limit` bytes long.

    Long strings give way first, so that calls and their results still pair up on a resume.
    """
    text = to_json(shortened(dict(entry)))
    if len(text) <= limit:
        return text
    kept = {name: value for name, value in entry.items() if not isinstance(value, dict | list)}
    return to_json({**shortened(kept), "omitted": f"{size} bytes were too many to keep"})


def shortened(value: Any) -> Any:
    """The value with every long string replaced by words that say so."""
    if isinstance(value, str) and len(value) > SHORTENED:
        return f"({len(value)} characters were too many to keep)"
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, dict):
        fields = {name: shortened(item) for name, item in value.items()}
        if value.get("type") in ("image", "document") and fields != value:
            # Words in place of base64 data would make the model's API refuse the whole session.
            return {"type": "text", "text": f"(the {value['type']} was too large to keep)"}
        return fields
    return value
