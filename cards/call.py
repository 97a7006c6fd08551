"""What a tool call would do, as elements of a card: the whole input, nothing left out."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_runner.model import REQUEST_APPROVAL, Inquiry, Kind
from cards import choices, diffs, limits, visible, wording
from cards.model import Code, Diff, Element, Fields, Item, Line, Ours, Prose, Theirs, Warn

_SHORT = 80
"""Characters up to which an argument is shown as a field rather than as a block."""
_FILE_TOOLS = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}
_STEP = ("title", "action", "context", "next_steps")


def what(inquiry: Inquiry, lang: str) -> Line:
    """The kind of call in a few words, for the title."""
    name = inquiry.tool_name
    known = {"Bash": "what.bash", "Write": "what.write", "Edit": "what.edit", REQUEST_APPROVAL: "what.step"}
    if name in known:
        return wording.line(lang, known[name])
    prefix, _, rest = name.partition("__")
    server, _, tool = rest.partition("__")
    if prefix == "mcp" and server and tool:
        places = {"tool": Theirs(raw=tool, code=True), "server": Theirs(raw=server, code=True)}
        return wording.line(lang, "what.mcp", **places)
    return wording.line(lang, "what.tool", tool=Theirs(raw=name, code=True))


def warnings(inquiry: Inquiry, lang: str) -> tuple[Warn, ...]:
    """What a reader must notice, from the input itself and from those who looked at it before."""
    codes = dict.fromkeys(inquiry.warnings)
    for text in _strings(inquiry.tool_input):
        codes.update(dict.fromkeys(visible.warnings(text)))
    if _outside(inquiry):
        codes["outside_workspace"] = None
    if inquiry.kind is Kind.PLAN and not isinstance(inquiry.tool_input.get("plan"), str):
        codes["no_plan"] = None
    return tuple(_warning(code, lang) for code in codes)


def _warning(code: str, lang: str) -> Warn:
    key = f"warning.{code}"
    if wording.has(key) and code != "other":
        return Warn(code=code, text=wording.line(lang, key))
    shown = Theirs(raw=code, code=True)
    return Warn(code="other", text=wording.line(lang, "warning.other", code=shown))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def elements(inquiry: Inquiry, lang: str) -> tuple[Element, ...]:
    """The whole input as it was asked for. Every key of it is somewhere in the result."""
    given = dict(inquiry.tool_input)
    name = inquiry.tool_name
    if inquiry.kind is Kind.PLAN:
        return _plan(given, lang)
    if inquiry.kind is Kind.LIMIT:
        return limits.elements(inquiry, lang)
    if name == "Bash" and isinstance(given.get("command"), str):
        command = Theirs(raw=given.pop("command"))
        head = Code(label=wording.line(lang, "label.command"), text=command, language="bash")
        return (head, *arguments(given, lang))
    if name in _FILE_TOOLS and isinstance(given.get(_FILE_TOOLS[name]), str):
        where = _where(inquiry, given.pop(_FILE_TOOLS[name]), lang)
        return (where, *_file_change(inquiry, given, lang), *arguments(given, lang))
    if name == REQUEST_APPROVAL:
        return _step(given, lang)
    if name.startswith("mcp__"):
        return tuple(arguments(given, lang))
    return (_json(given, lang),)


def _json(given: Mapping[str, Any], lang: str) -> Code:
    text = Theirs(raw=choices.pretty(given))
    return Code(label=wording.line(lang, "label.input"), text=text, language="json")


def _plan(given: dict[str, Any], lang: str) -> tuple[Element, ...]:
    plan = given.pop("plan", "")
    if not isinstance(plan, str):
        return (_json({"plan": plan, **given}, lang),)
    head = [Prose(label=wording.line(lang, "label.plan"), text=Theirs(raw=plan))] if plan else []
    return (*head, *arguments(given, lang))


def _step(given: dict[str, Any], lang: str) -> tuple[Element, ...]:
    parts: list[Element] = []
    for name in _STEP:
        if isinstance(given.get(name), str):
            label = "label.step" if name == "title" else f"label.{name}"
            parts += _argument(wording.line(lang, label), given.pop(name))
    return (*_merged(parts), *arguments(given, lang))


def _where(inquiry: Inquiry, path: str, lang: str) -> Fields:
    full = _resolved(inquiry, path)
    items = [Item(label=wording.line(lang, "label.file"), value=(Theirs(raw=full, code=True),))]
    if full != path:
        written = (Theirs(raw=path, code=True),)
        items.append(Item(label=wording.line(lang, "label.as_written"), value=written))
    return Fields(items=tuple(items))


def _resolved(inquiry: Inquiry, path: str) -> str:
    return posixpath.normpath(posixpath.join(inquiry.cwd, path))


def _outside(inquiry: Inquiry) -> bool:
    path = inquiry.tool_input.get(_FILE_TOOLS.get(inquiry.tool_name, ""))
    if not isinstance(path, str):
        return False
    home = posixpath.normpath(inquiry.cwd)
    full = _resolved(inquiry, path)
    return full != home and not full.startswith(home.rstrip("/") + "/")


def _file_change(inquiry: Inquiry, given: dict[str, Any], lang: str) -> Iterator[Element]:
    """The change as a diff; takes what it shows out of `given`."""
    if inquiry.tool_name == "Write" and isinstance(given.get("content"), str):
        content = given.pop("content")
        parts = None if inquiry.before is None else diffs.by_lines(inquiry.before, content)
        if parts:
            yield Diff(label=wording.line(lang, "label.diff"), parts=parts)
        label = "label.content" if inquiry.before is None else "label.new_content"
        yield Code(label=wording.line(lang, label), text=Theirs(raw=content), folded=bool(parts))
    old, new = given.get("old_string"), given.get("new_string")
    if inquiry.tool_name == "Edit" and isinstance(old, str) and isinstance(new, str):
        parts = diffs.by_lines(old, new, context=None)
        if parts is not None:
            del given["old_string"], given["new_string"]
            yield Diff(label=wording.line(lang, "label.edit"), parts=parts)


def arguments(given: Mapping[str, Any], lang: str) -> tuple[Element, ...]:
    """Every argument: short ones as fields, long and nested ones as blocks."""
    parts: list[Element] = []
    for name, value in given.items():
        label = wording.line(lang, "label.argument", name=Theirs(raw=name, code=True))
        parts += _argument(label, value)
    return _merged(parts)


def _argument(label: Line, value: Any) -> list[Element]:
    text = value if isinstance(value, str) else choices.pretty(value)
    if "\n" in text or len(text) > _SHORT:
        return [Code(label=label, text=Theirs(raw=text))]
    if isinstance(value, str) and _reads_as_something_else(value):
        text = json.dumps(value, ensure_ascii=False)
    return [Fields(items=(Item(label=label, value=(Theirs(raw=text, code=True),)),))]


def _reads_as_something_else(text: str) -> bool:
    """Whether a text without quotation marks would pass for a number, for nothing, or the like."""
    if text != text.strip() or not text or text[0] == '"':
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _merged(parts: Iterable[Element]) -> tuple[Element, ...]:
    """Neighbouring fields in one list."""
    out: list[Element] = []
    for part in parts:
        last = out[-1] if out else None
        if isinstance(part, Fields) and isinstance(last, Fields):
            out[-1] = Fields(items=last.items + part.items)
        else:
            out.append(part)
    return tuple(out)


def rule(inquiry: Inquiry, lang: str) -> Line:
    """Why a person is asked."""
    if inquiry.rule in ("", "nothing matched"):
        return (Ours(text=wording.text(lang, "rule.none")),)
    return (Theirs(raw=inquiry.rule, code=True),)
