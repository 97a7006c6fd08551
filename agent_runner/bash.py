"""What a Bash command line would run, read without running it.

Two readers with opposite errors. For *allow*, `Script.plain` holds the simple commands only if
every construct in the text is on a short list of understood ones **and** a second tokenizer
(`shlex`) sees the same words; anything else is None, and a person is asked. For *deny* and
*ask*, `Script.commands` holds every simple command found at any depth: in substitutions,
subshells, here-documents, behind wrappers (`sudo`, `timeout`, `xargs`, `find -exec`) and inside
`bash -c` and `eval`; where something stays unknown, `Script.uncertain` is set and
`Script.raw_words` is the crude last net.

Limit, on purpose: it reads shell, not programs. `python -c "os.system('sudo ls')"` is a
`python` command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from agent_runner.wrappers import RESERVED, hides, inner_commands, inner_scripts, name_of

MAX_CHARS = 50_000
"""Longer texts are not read but asked about: ten times what an agent writes in one call."""

MAX_WORDS = 100_000
"""Words followed through wrappers and nested scripts before the rest counts as unknown."""

MAX_DEPTH = 8
"""Scripts inside scripts (`bash -c "bash -c ..."`) that are followed."""

_BASH = Language(tree_sitter_bash.language())

_UNDERSTOOD = frozenset(
    (
        *("program", "list", "pipeline", "negated_command", "redirected_statement", "subshell", "comment"),
        *("command", "command_name", "word", "number", "string", "string_content", "raw_string"),
        *("concatenation", "file_redirect", "file_descriptor", '"'),
        *("!", "(", ")", "\n", ";", "&&", "||", "|", "|&", "&", ">", ">>", "<", ">&", "<&", "&>", "&>>"),
    )
)
"""Node types whose meaning is wholly known before running. Everything else is asked."""

_STRANGE = re.compile(r"[^\S \t\n]|[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\\n|\n[ \t]*\\")
"""Where readers of shell disagree: white space that is none to bash, controls, joined lines, and
lines that start with a backslash (our parser takes them for more of the line before)."""

_EXPANDS = re.compile(r"(?:\\.)|([{}])", re.DOTALL)
_GLOB_FIRST = ("*", "?", "[", "+(", "@(", "!(")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command. `words` are without their quotes; expansions stay as written."""

    words: tuple[str, ...]
    source: str
    """As written, without redirections; for commands behind a wrapper the words, joined."""
    assignments: str = ""
    """The `FOO=1` in front of it, as written."""

    @property
    def name(self) -> str:
        """The program, without its directory: `/usr/bin/sudo` is `sudo`."""
        return name_of(self.words)


@dataclass(frozen=True, slots=True)
class Script:
    """What one text runs. See the module's docstring for who reads which field."""

    text: str
    plain: tuple[Command, ...] | None
    commands: tuple[Command, ...]
    uncertain: bool

    @property
    def raw_words(self) -> tuple[str, ...]:
        """The text's words as `split_raw` gives them."""
        return split_raw(self.text)


def split_raw(text: str) -> tuple[str, ...]:
    """Words without quotes and directories, split at everything that can separate."""
    bare = re.sub(r"\\\n|[\"'\\]", "", text)
    return tuple(word.rsplit("/", 1)[-1] for word in re.split(r"[\s;&|<>(){},`$=!]+", bare) if word)


@lru_cache(maxsize=512)
def read(text: str) -> Script:
    """What `text` would run. Never raises."""
    joined = text.replace("\\\n", "")
    unescaped = re.sub(r"\n[ \t]*\\", "\n", joined)
    search = _Search()
    for variant in dict.fromkeys((text, joined, unescaped)):
        search.script(variant, 0)
    search.follow()
    return Script(
        text=text,
        plain=_plain(text),
        commands=tuple(search.found),
        uncertain=search.uncertain,
    )


class _Search:
    """Collects commands at every depth, each once, until the budget of words is spent."""

    def __init__(self) -> None:
        self.found: dict[Command, None] = {}
        self.waiting: list[tuple[Command, int]] = []
        self.scripts: set[str] = set()
        self.uncertain = False
        self.budget = MAX_WORDS

    def script(self, text: str, depth: int) -> None:
        """Collects what stands in `text`; `depth` counts scripts inside scripts."""
        if text in self.scripts:
            return
        self.scripts.add(text)
        self.budget -= len(text.split())
        root = _parse(text) if depth <= MAX_DEPTH and self.budget > 0 else None
        if root is None or root.has_error:
            self.uncertain = True
        for node in _walk(root) if root else ():
            if command := _command(node):
                self.add(command, depth)
                self.uncertain |= not _known_name(node)

    def add(self, command: Command, depth: int) -> None:
        """Remembers a command, to be followed later."""
        if command not in self.found:
            self.found[command] = None
            self.waiting.append((command, depth))

    def follow(self) -> None:
        """Collects what the commands found so far run in turn."""
        while self.waiting:
            command, depth = self.waiting.pop()
            self.uncertain |= hides(command.name, command.words)
            for words in inner_commands(command.name, command.words):
                self.budget -= len(words)
                if self.budget < 0:
                    self.uncertain = True
                    return
                self.add(Command(words=words, source=" ".join(words)), depth)
            for text in inner_scripts(command.name, command.words):
                self.script(text, depth + 1)


def _parse(text: str) -> Node | None:
    """The syntax tree, or None for a text that is too long or no Unicode."""
    if len(text) > MAX_CHARS:
        return None
    try:
        return Parser(_BASH).parse(text.encode()).root_node
    except (UnicodeEncodeError, ValueError):
        return None


def _walk(root: Node) -> Iterator[Node]:
    """Every node, in source order, without recursion: depth is the attacker's to choose."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _command(node: Node) -> Command | None:
    """The simple command at this node, if there is one."""
    if node.type in ("declaration_command", "unset_command", "test_command"):
        words = tuple(_value(child)[0] for child in node.children)
        return Command(words=words, source=_text(node))
    if node.type != "command":
        return None
    parts = _parts(node)
    words = tuple(_value(part)[0] for part in parts) + _after_redirect(node)
    assignments = " ".join(_text(c) for c in node.children if c.type == "variable_assignment")
    return Command(words=words, source=_source(node, parts), assignments=assignments)


def _parts(node: Node) -> list[Node]:
    """The nodes of a command that are its words."""
    others = ("variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect")
    return [
        child.children[0] if child.type == "command_name" and child.children else child
        for child in node.children
        if child.type not in others
    ]


def _source(node: Node, parts: list[Node]) -> str:
    """From the first word to the last, exactly as written."""
    if not parts:
        return ""
    start, end = parts[0].start_byte - node.start_byte, parts[-1].end_byte - node.start_byte
    return (node.text or b"")[start:end].decode(errors="replace")


def _after_redirect(node: Node) -> tuple[str, ...]:
    """Words behind a redirection: in `git </dev/null push` the parser gives them to the redirection."""
    near = node.parent.children if node.parent and node.parent.type == "redirected_statement" else []
    extra: list[str] = []
    for redirect in near:
        targets = redirect.children_by_field_name("destination")
        extra.extend(_value(target)[0] for target in targets[1:])
    return tuple(extra)


def _known_name(node: Node) -> bool:
    """Whether the program's name is known before running, and where its command ends."""
    parts = _parts(node) if node.type == "command" else []
    return not parts or (_value(parts[0])[1] and _one_line(node))


def _one_line(command: Node) -> bool:
    """Whether no line ends between a command's parts: then the parser took the next line for them."""
    text, start = command.text or b"", command.start_byte
    for left, right in pairwise(command.children):
        gap = text[left.end_byte - start : right.start_byte - start]
        if "comment" in (left.type, right.type) or b"\n" in gap.replace(b"\\\n", b""):
            return False
    return True


def _value(node: Node) -> tuple[str, bool]:
    """A word's text without quotes, and whether that is certainly what the program gets."""
    text = _text(node)
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
            values = [_value(child) for child in node.children]
            return "".join(value for value, _ in values), all(certain for _, certain in values)
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


def _plain(text: str) -> tuple[Command, ...] | None:
    """The simple commands of a text that is understood to the last character, else None."""
    root = None if _STRANGE.search(text) else _parse(text)
    if root is None or root.has_error:
        return None
    nodes = list(_walk(root))
    if any(not _understood(node) for node in nodes) or not _agreed(text, nodes):
        return None
    commands = tuple(command for node in nodes if (command := _command(node)))
    named = all(c.words and c.words[0] and c.words[0] not in RESERVED for c in commands)
    return commands if commands and named else None


def _understood(node: Node) -> bool:
    if node.is_missing:
        return False
    if node.type == "command" and not _one_line(node):
        return False
    if node.type == "file_redirect":
        return _harmless_redirect(node)
    if node.type == "variable_assignment":
        return node.parent is not None and node.parent.type == "command" and _literal(node)
    if node.parent is not None and node.parent.type in ("variable_assignment", "concatenation", "word"):
        return node.type in _UNDERSTOOD or node.type in ("variable_name", "=")
    if node.type in ("word", "string", "raw_string", "concatenation", "number"):
        certain = _value(node)[1] and not (node.type == "string" and "`" in _text(node))
        return certain and not _text(node).startswith(_GLOB_FIRST)
    return node.type in _UNDERSTOOD


def _literal(assignment: Node) -> bool:
    values = assignment.children_by_field_name("value")
    return assignment.child(0) is not None and all(_value(value)[1] for value in values)


def _harmless_redirect(node: Node) -> bool:
    """`2>&1` and anything from or to `/dev/null`; every other file is somebody's decision."""
    targets = node.children_by_field_name("destination")
    if len(targets) != 1:
        return False
    if targets[0].type == "number":
        return any(child.type in (">&", "<&") for child in node.children)
    return _text(targets[0]) == "/dev/null"


_LEAVES = (
    *("word", "string", "raw_string", "number", "concatenation"),
    *("file_descriptor", "variable_assignment"),
)
_OPERATORS = "();<>|&"


def _agreed(text: str, nodes: Iterable[Node]) -> bool:
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
            ours.append(_assignment(node) if node.type == "variable_assignment" else _value(node)[0])
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
    return f"{_text(name) if name else ''}=" + "".join(
        _value(value)[0] for value in node.children_by_field_name("value")
    )
