"""The words of a parsed command line: their values, and whether a second tokenizer sees the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from tree_sitter import Node

_EXPANDS = re.compile(r"(?:\\.)|([{}])", re.DOTALL)


def walk(root: Node) -> Iterator[Node]:
    """Every node, in source order, without recursion: depth is the attacker's to choose."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def source_of(node: Node) -> str:
    """The node's source."""
    return (node.text or b"").decode()


def value(node: Node) -> tuple[str, bool]:
    """A word's text without quotes, and whether that is certainly what the program gets."""
    text = source_of(node)
    match node.type:
        case "word" | "number":
            return _unescape(text), not any(m.group(1) for m in _EXPANDS.finditer(text))
        case "raw_string":
            return text[1:-1], True
        case "string":
            certain = all(child.type in ('"', "string_content") for child in node.children)
            return re.sub(r'\\([$`"\\])', r"\1", text[1:-1].replace("\\\n", "")), certain
        case "ansi_c_string":
            return _ansi_c(text[2:-1]), False
        case "translated_string":
            return text[2:-1], False
        case "concatenation":
            values = [value(child) for child in node.children]
            return "".join(text for text, _ in values), all(certain for _, certain in values)
        case _:
            return text, False


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.replace("\\\n", ""), flags=re.DOTALL)


_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)


def _ansi_c(text: str) -> str:
    r"""`$'\x73udo'` is `sudo`."""

    def character(found: re.Match[str]) -> str:
        *hexadecimal, octal, plain = found.groups()
        code = next((int(digits, 16) for digits in hexadecimal if digits), int(octal, 8) if octal else -1)
        return plain or (chr(code) if code < 0x110000 else found.group())

    return _ANSI.sub(character, text)


_LEAVES = (
    *("word", "string", "raw_string", "number", "concatenation"),
    *("file_descriptor", "variable_assignment"),
)
_OPERATORS = "();<>|&"


def agreed(text: str, nodes: Iterable[Node]) -> bool:
    """Whether `shlex`, which shares no code with the parser, sees the same words and operators.

    A parser that takes code for a comment or a quotation would hide a command; two that share
    no code rarely make the same mistake.
    """
    ours: list[str] = []
    end = 0
    for node in nodes:
        if node.start_byte < end:
            continue
        if node.type == "comment":
            end = node.end_byte
        elif node.type in _LEAVES:
            ours.append(_assignment(node) if node.type == "variable_assignment" else value(node)[0])
            end = node.end_byte
        elif not node.is_named and not node.type.strip(_OPERATORS):
            ours.append(node.type)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    try:
        return _tokens(ours) == _tokens(lexer)
    except ValueError:
        return False


def _tokens(found: Iterable[str]) -> list[str]:
    """Operators one by one: `shlex` runs `);` together. To the parser `!` is no word."""
    split: list[str] = []
    for word in found:
        split.extend([word] if not word or word.strip(_OPERATORS) else word)
    return [word for word in split if word != "!"]


def _assignment(node: Node) -> str:
    name = node.child_by_field_name("name")
    return f"{source_of(name) if name else ''}=" + "".join(
        value(part)[0] for part in node.children_by_field_name("value")
    )
