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
from dataclasses import dataclass
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from agent_runner.bash_words import agreed, source_of, value, walk
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


def read_here(text: str) -> Script:
    """What `text` would run, read in this process: see `bash_reader` for who calls it."""
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
        for node in walk(root) if root else ():
            if command := _command(node):
                self.add(command, depth)
                self.uncertain |= not _known_name(node)
                if not _one_line(node):
                    self.misread(text, depth)

    def misread(self, text: str, depth: int) -> None:
        """The parser went over a line's end: each line is read for itself as well."""
        self.uncertain = True
        for line in text.split("\n"):
            self.script(line, depth)

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


def _command(node: Node) -> Command | None:
    """The simple command at this node, if there is one."""
    if node.type in ("declaration_command", "unset_command", "test_command"):
        words = tuple(value(child)[0] for child in node.children)
        return Command(words=words, source=source_of(node))
    if node.type != "command":
        return None
    parts = _parts(node)
    words = tuple(value(part)[0] for part in parts) + _after_redirect(node)
    assignments = " ".join(source_of(c) for c in node.children if c.type == "variable_assignment")
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
        extra.extend(value(target)[0] for target in targets[1:])
    return tuple(extra)


def _known_name(node: Node) -> bool:
    """Whether the program's name is known before running."""
    parts = _parts(node) if node.type == "command" else []
    return not parts or value(parts[0])[1]


def _one_line(command: Node) -> bool:
    """Whether no line ends between a command's parts; else the parser took the next line for them."""
    if command.type != "command":
        return True
    text, start = command.text or b"", command.start_byte
    for left, right in pairwise(command.children):
        gap = text[left.end_byte - start : right.start_byte - start]
        if "comment" in (left.type, right.type) or b"\n" in gap.replace(b"\\\n", b""):
            return False
    return True


def _plain(text: str) -> tuple[Command, ...] | None:
    """The simple commands of a text that is understood to the last character, else None.

    Line by line where every line stands for itself: the parser sometimes reads a line's end as a
    blank (in `a | b | c`, newline, `d && e`). Otherwise, as for a quoted line's end, as a whole.
    """
    if _STRANGE.search(text):
        return None
    lines = [_plain_part(line) for line in text.split("\n")]
    if all(part is not None for part in lines):
        return tuple(command for part in lines for command in part or ()) or None
    return _plain_part(text) or None


def _plain_part(text: str) -> tuple[Command, ...] | None:
    """The commands of a text, none for a comment; None if anything is not understood."""
    root = _parse(text)
    if root is None or root.has_error:
        return None
    nodes = list(walk(root))
    if any(not _understood(node) for node in nodes) or not agreed(text, nodes):
        return None
    commands = tuple(command for node in nodes if (command := _command(node)))
    named = all(c.words and c.words[0] and c.words[0] not in RESERVED for c in commands)
    return commands if named else None


def _understood(node: Node) -> bool:
    if node.is_missing:
        return False
    if not _one_line(node):
        return False
    if node.type == "file_redirect":
        return _harmless_redirect(node)
    if node.type == "variable_assignment":
        return node.parent is not None and node.parent.type == "command" and _literal(node)
    if node.parent is not None and node.parent.type in ("variable_assignment", "concatenation", "word"):
        return node.type in _UNDERSTOOD or node.type in ("variable_name", "=")
    if node.type in ("word", "string", "raw_string", "concatenation", "number"):
        certain = value(node)[1] and not (node.type == "string" and "`" in source_of(node))
        return certain and not source_of(node).startswith(_GLOB_FIRST)
    return node.type in _UNDERSTOOD


def _literal(assignment: Node) -> bool:
    values = assignment.children_by_field_name("value")
    return assignment.child(0) is not None and all(value(part)[1] for part in values)


def _harmless_redirect(node: Node) -> bool:
    """`2>&1` and anything from or to `/dev/null`; every other file is somebody's decision."""
    targets = node.children_by_field_name("destination")
    if len(targets) != 1:
        return False
    if targets[0].type == "number":
        return any(child.type in (">&", "<&") for child in node.children)
    return source_of(targets[0]) == "/dev/null"
