"""Payload -> command. Everything from outside is checked here, and nowhere else read.

A mistake names the field, what was expected and what is known, so that the sender can correct
it: `Malformed` (400), `TooLarge` (413), `FixInput` (422).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from agent_runner.errors import FixInput
from agent_runner.model import Actor, Condition, ConditionKind, Scope, Verdict, before
from bot.commands import Ask, Chose, ChoseAll, Said

BODY_BYTES = 2_000_000
"""Largest body that is read; the longest text a task may have is far below it."""

DEPTH = 64
"""Deepest nesting of a body: real tool inputs have a handful, and what is deeper overruns stacks."""

LIMIT, LIMIT_MAX = 50, 200
"""Items of a page when nothing is said, and at most."""

MOST_CONDITIONS = 20
"""Conditions that one decision can come with."""

T = TypeVar("T")
S = TypeVar("S", bound=StrEnum)


class Malformed(FixInput):
    """The body is no JSON at all."""

    code = "malformed_json"


class TooLarge(FixInput):
    """The body is larger than anything that could be meant."""

    code = "too_large"


class Page(NamedTuple, Generic[T]):
    """Which part of a list is wanted: at most `limit` items after the cursor `after`."""

    limit: int
    after: T


class Click(NamedTuple):
    """A button or form of a card: the revision it showed, and its fields as typed.

    `seen` is what it showed of which step, for a button about a batch.
    """

    revision: int | None
    fields: dict[str, list[str]]
    seen: str = ""


# --- bodies ------------------------------------------------------------------------------------


def json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; strict about what JSON is."""
    try:
        body = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Malformed(f"The body is not JSON: {reason}.", hint="Send one JSON object in UTF-8.") from None
    if not isinstance(body, dict):
        raise FixInput(f"The body is {_kind(body)}, not an object.", hint='Send an object: {"...": ...}.')
    _check(body)
    return body


def ask(actor: Actor, body: dict[str, Any]) -> Ask:
    """`POST /api/tasks`."""
    fields = _Fields(body, "text", "workspace", "plan")
    return Ask(
        actor=actor,
        text=fields.text("text", required=True),
        workspace=fields.text("workspace"),
        plan=fields.flag("plan"),
    )


def said(actor: Actor, task_id: str, body: dict[str, Any]) -> Said:
    """`POST /api/tasks/{id}/messages`."""
    fields = _Fields(body, "text")
    return Said(actor=actor, task_id=task_id, text=fields.text("text", required=True))


def chose(actor: Actor, inquiry_id: str, body: dict[str, Any]) -> Chose:
    """`POST /api/inquiries/{id}/decision`."""
    known = ("verdict", "reason", "conditions", "limits", "input", "answers", "scope", "digest")
    fields = _Fields(body, *known, "break_glass", "confirm")
    return Chose(
        actor=actor,
        inquiry_id=inquiry_id,
        verdict=fields.one_of("verdict", Verdict, None),
        reason=fields.text("reason"),
        conditions=fields.text("conditions"),
        limits=_limits(fields.listing("limits") or []),
        input=fields.mapping("input"),
        answers=_answers(fields.mapping("answers")),
        scope=fields.one_of("scope", Scope, Scope.ONCE),
        digest=fields.text("digest"),
        break_glass=fields.flag("break_glass"),
        confirm=fields.text("confirm"),
    )


def chose_all(actor: Actor, inquiry_id: str, body: dict[str, Any]) -> ChoseAll:
    """`POST /api/batches/{batch}/decision`."""
    fields = _Fields(body, "verdict", "reason", "digests")
    return ChoseAll(
        actor=actor,
        inquiry_id=inquiry_id,
        verdict=fields.one_of("verdict", Verdict, None),
        reason=fields.text("reason"),
        digests=_texts(fields, "digests"),
    )


def _texts(fields: _Fields, name: str) -> tuple[str, ...] | None:
    """A list of texts, or None if it was left out."""
    given = fields.listing(name)
    if given is None:
        return None
    if not all(isinstance(item, str) for item in given):
        raise FixInput(f"Field {name} must be a list of texts.", hint="Correct its type.")
    return tuple(given)


def click(body: dict[str, Any]) -> Click:
    """A card's button: `{"revision": n, "fields": {name: [values]}, "seen": "..."}`."""
    fields = _Fields(body, "revision", "fields", "seen")
    given = fields.mapping("fields") or {}
    for name, values in given.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise FixInput(f"Field fields.{name} must be a list of texts.", hint="Load the page again.")
    return Click(fields.number("revision"), given, fields.text("seen"))


def nothing(body: dict[str, Any]) -> None:
    """A call that takes no fields."""
    _Fields(body)


def _answers(given: dict[str, Any] | None) -> dict[str, str] | None:
    """Answers by question; several choices are a list, joined as the engine expects them."""
    if given is None:
        return None
    out = {}
    for question, answer in given.items():
        if isinstance(answer, list) and answer and all(isinstance(item, str) for item in answer):
            out[question] = ", ".join(answer)
        elif isinstance(answer, str):
            out[question] = answer
        else:
            raise FixInput(
                f"The answer to {question!r} must be a text or a list of texts, not {_kind(answer)}.",
                hint='Send {"answers": {"<question>": "<choice or own words>"}}.',
            )
    return out


def _limits(given: list[Any]) -> tuple[Condition, ...]:
    """Conditions as data: `[{"kind": "before", "value": "2026-12-01T18:00:00+08:00"}, ...]`."""
    if len(given) > MOST_CONDITIONS:
        raise FixInput(f"At most {MOST_CONDITIONS} limits can be given.", hint="Leave some out.")
    return tuple(_limit(at, item) for at, item in enumerate(given))


def _limit(at: int, item: Any) -> Condition:
    name = f"limits[{at}]"
    if not isinstance(item, dict):
        raise FixInput(f"{name} must be an object, not {_kind(item)}.", hint=_LIMIT_HINT)
    fields = _Fields(item, "kind", "value")
    kind, value = fields.one_of("kind", ConditionKind, None), item.get("value")
    if kind is ConditionKind.TIMES and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise FixInput(f"{name}.value must be text, not {_kind(value)}.", hint=_LIMIT_HINT)
    try:
        condition = Condition(kind=kind, value=value)
        return before(condition.moment) if kind is ConditionKind.BEFORE else condition
    except (ValueError, OverflowError):
        hint = _LIMIT_VALUES[kind]
        raise FixInput(f"{name}.value cannot be {value[:100]!r}.", hint=hint) from None


_LIMIT_HINT = 'Send {"limits": [{"kind": "times", "value": "3"}]}.'
_LIMIT_VALUES: Mapping[ConditionKind, str] = {
    ConditionKind.BEFORE: "Send a time with its zone, like 2026-12-01T18:00:00+08:00.",
    ConditionKind.IN: "Send a path, like ./staging.",
    ConditionKind.WITH: "Send a text, or a pattern between slashes, of at most 200 characters.",
    ConditionKind.TIMES: "Send a whole number.",
}


class _Fields:
    """Reads a body field by field. A field that is null counts as left out."""

    def __init__(self, body: dict[str, Any], *known: str) -> None:
        unknown = sorted(set(body) - set(known))
        if unknown:
            names = ", ".join(unknown)
            hint = f"Known are: {', '.join(known)}." if known else "This call takes no fields."
            raise FixInput(f"Unknown field: {names}.", hint=hint)
        self.body = body

    def text(self, name: str, *, required: bool = False) -> str:
        if required and self.body.get(name) is None:
            raise FixInput(f"Field {name} is missing.", hint=f'Send {{"{name}": "..."}}.')
        return self._typed(name, str, "text") or ""

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, "true or false") or False

    def mapping(self, name: str) -> dict[str, Any] | None:
        return self._typed(name, dict, "an object")

    def listing(self, name: str) -> list[Any] | None:
        return self._typed(name, list, "a list")

    def number(self, name: str) -> int | None:
        value = self._typed(name, int, "a whole number")
        if isinstance(value, bool):
            raise self._wrong(name, "a whole number", value)
        return value

    def one_of(self, name: str, kind: type[S], default: S | None) -> S:
        value = self.body.get(name)
        if value is None and default is not None:
            return default
        allowed = ", ".join(kind)
        if value is None:
            raise FixInput(f"Field {name} is missing.", hint=f"Send one of: {allowed}.")
        if not isinstance(value, str):
            raise self._wrong(name, "text", value)
        if value not in list(kind):
            raise FixInput(f"Field {name} cannot be {value!r}.", hint=f"Send one of: {allowed}.")
        return kind(value)

    def _typed(self, name: str, kind: type[T], words: str) -> T | None:
        value = self.body.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise self._wrong(name, words, value)

    def _wrong(self, name: str, words: str, value: object) -> FixInput:
        return FixInput(f"Field {name} must be {words}, not {_kind(value)}.", hint="Correct its type.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values for one name leave open which one is meant: parsers differ."""
    out = dict(pairs)
    if len(out) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice in one object")
    return out


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is out of range")
    return value


def _check(body: dict[str, Any]) -> None:
    """Refuses what could not be stored: half characters, and nesting without end."""
    waiting: list[tuple[Any, int]] = [(body, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEPTH:
            raise FixInput(f"The body is nested deeper than {DEPTH} levels.", hint="Make it flatter.")
        if isinstance(value, dict):
            waiting += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]
        elif isinstance(value, str) and not _whole(value):
            raise FixInput("A text holds half of a character (a lone surrogate).", hint="Send valid Unicode.")


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: object) -> str:
    names = {str: "text", bool: "true or false", dict: "an object", list: "a list", type(None): "null"}
    return names.get(type(value), "a number")


# --- queries -----------------------------------------------------------------------------------


def only(query: Mapping[str, str], *known: str) -> None:
    """Refuses a misspelt filter: ignoring it would list what was not asked for."""
    unknown = sorted(set(query) - {*known, "lang"})
    if unknown:
        raise FixInput(f"Unknown parameter: {', '.join(unknown)}.", hint=f"Known are: {', '.join(known)}.")


def page(query: Mapping[str, str], cursor: Callable[[str], T], start: T) -> Page[T]:
    """`limit` (1 to 200, default 50) and `after` (a cursor that an answer's `next` gave)."""
    limit = query.get("limit", str(LIMIT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= LIMIT_MAX):
        raise FixInput(f"limit cannot be {limit!r}.", hint=f"Send a number from 1 to {LIMIT_MAX}.")
    after = query.get("after", "")
    return Page(int(limit), cursor(after) if after else start)


def number_cursor(text: str) -> int:
    """The cursor of a list in the order of numbers."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise _no_cursor(text)
    return int(text)


def stream_cursor(text: str) -> str:
    """The cursor of a list in the order of time: two numbers with a dash."""
    first, dash, last = text.partition("-")
    number_cursor(first)
    if not (dash and last.isascii() and last.isdigit() and len(last) < 20):
        raise _no_cursor(text)
    return text


def _no_cursor(text: str) -> FixInput:
    return FixInput(f"after cannot be {text!r}.", hint="Send what `next` said in the answer before.")


def state(query: Mapping[str, str], kind: type[S]) -> S | None:
    """The state to list, or None for all."""
    value = query.get("state", "")
    if not value:
        return None
    if value not in list(kind):
        raise FixInput(f"state cannot be {value!r}.", hint=f"Send one of: {', '.join(kind)}.")
    return kind(value)


def moment(query: Mapping[str, str], name: str, zone: tzinfo = UTC) -> datetime | None:
    """A time in ISO 8601; one without a zone is in `zone`."""
    value = query.get(name, "")
    if not value:
        return None
    try:
        at = datetime.fromisoformat(value.replace(" ", "+"))
        at = at if at.tzinfo else at.replace(tzinfo=zone)
        if at.timestamp() < 0:  # before 1970 the store's ids do not reach
            raise ValueError(value)
    except (ValueError, OverflowError):
        hint = "Send a time like 2026-01-31T18:00:00Z."
        raise FixInput(f"{name} cannot be {value!r}.", hint=hint) from None
    return at
