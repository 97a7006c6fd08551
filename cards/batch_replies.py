"""Typed answers to the steps of a batch: `a1 b3 wait for the window c1`, `all 1`, `全部驳回 <理由>`.

A piece is a letter and a digit with nothing in between; words belong to the piece before them. A
message that begins with a piece is an answer as a whole or is asked back: nothing of it is ever
decided on a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from cards.spoken import COUNTED, shadow


class Piece(NamedTuple):
    """What is said about one step: its letter, the number of the choice, the words behind it."""

    mark: str
    choice: int
    words: str


class All(NamedTuple):
    """What is said about all steps: 1 approves, 3 rejects with these words."""

    choice: int
    words: str = ""


class Doubt(Exception):
    """Not certain; `code` is one of `ask_back` in `cards.wording`, `details` are what it is about."""

    def __init__(self, code: str, **details: str) -> None:
        super().__init__(code)
        self.code = code
        self.details = details


APPROVE, CHANGE, REJECT = 1, 2, 3
_LAST = 6
"""The choices that there can be."""
_COUNTER = f"(?!{COUNTED.pattern})"
_PIECE = re.compile(rf"(?:^|(?<=[\s,、;。]))([a-z])([0-9])(?![0-9a-z_]){_COUNTER}")
_LOOSE = re.compile(r"(?<![0-9a-z_])([a-z][0-9])(?![0-9a-z_])")
"""What a reader may take for a piece, wherever it stands."""
_SCATTERED = re.compile(r"(?:[a-z]\s*[:.)-]?\s*[0-9][\s,、;.。]*)+")
"""A message of letters and digits that is none of ours: `a 1`, `a1b1`, `a: 1`."""
_BETWEEN = " \t\r\n,、;:.)。，；：）!！"
"""What may stand around the words of a piece."""
_DANGLING = re.compile(
    r"(?:\b(?:for|until|till|after|before|like|see|as|with|and|or|than|of|in|to|on|from|by|if|unless|not|no"
    r"|without|instead|per|at|vs|via|when|once|is|are|then|the|an?|this|that|step|same|also|but|only)"
    r"|[等看像和同与跟及或按在到先除以把将对用比与是步骤])\s*$"
)
"""Words that go on: what follows them belongs to them, even if it looks like a piece."""

_ALL = re.compile(rf"(?:all|全部|すべて|全て)\s*:?\s*([0-9])(?![0-9]){_COUNTER}(.*)", re.DOTALL)
_APPROVE_ALL = frozenset(
    {"approve all", "approve them all", "approve all of them", "approve everything", "all approved"}
    | {"全部批准", "批准全部", "全部同意", "都批准", "全部通过", "全部批准吧"}
    | {"すべて承認", "全て承認", "全部承認", "すべて承認します", "全て承認します"}
)
_REJECT_ALL = re.compile(
    r"(?:(?:reject|deny)(?: them)? all(?: of them)?(?=$|\s*[:,;.\n–—-])"
    r"|全部驳回|驳回全部|全部拒绝|すべて却下|全て却下|全部却下)(.*)",
    re.DOTALL,
)
_SURE = re.compile(r"[\s.!,。！，、]+")


def read(said: str, marks: Collection[str]) -> All | tuple[Piece, ...] | None:
    """What a message says about the open steps with these letters; None if it is no answer to them.

    Raises `Doubt`.
    """
    text = said.strip()
    plain = shadow(text)
    return _all(text, plain) or _pieces(text, plain, marks)


def _all(text: str, plain: str) -> All | None:
    if _SURE.sub(" ", plain).strip() in _APPROVE_ALL:
        return All(APPROVE)
    numbered, rejected = _ALL.fullmatch(plain), _REJECT_ALL.fullmatch(plain)
    if rejected:
        return _rejecting(text[rejected.start(1) :])
    if numbered is None:
        return None
    words = text[numbered.start(2) :]
    if words[:1].isascii() and words[:1].isalnum():
        return None  # `all 3rd parties`
    if int(numbered[1]) == REJECT:
        return _rejecting(words)
    if int(numbered[1]) != APPROVE or words.strip(_BETWEEN):
        raise Doubt("all_alone")
    return All(APPROVE)


def _rejecting(words: str) -> All:
    reason = words.lstrip(f"{_BETWEEN}–—-").rstrip()
    if not reason:
        raise Doubt("all_why")
    return All(REJECT, reason)


def _pieces(text: str, plain: str, marks: Collection[str]) -> tuple[Piece, ...] | None:
    found = list(_PIECE.finditer(plain))
    if not found or found[0].start() != 0:
        if _SCATTERED.fullmatch(plain):
            raise Doubt("which_step")
        return None
    starts = {match.start(1) for match in found}
    for loose in _LOOSE.finditer(plain):
        if loose.start() not in starts:
            before = [match[1] for match in found if match.start() < loose.start()]
            raise Doubt("step_in_words", piece=loose[1], step=before[-1])
    pieces = tuple(_cut(text, plain, found))
    for piece in pieces:
        _check(piece, marks)
    twice = [piece.mark for piece in pieces if sum(other.mark == piece.mark for other in pieces) > 1]
    if twice:
        raise Doubt("step_twice", step=twice[0])
    return pieces


def _cut(text: str, plain: str, found: list[re.Match[str]]) -> Iterator[Piece]:
    """The pieces with the words between each and the next."""
    ends = [match.start() for match in found[1:]] + [len(text)]
    for at, (match, end) in enumerate(zip(found, ends, strict=True)):
        last = at == len(found) - 1
        if not last and _DANGLING.search(plain, match.end(), end):
            raise Doubt("step_in_words", piece=plain[end : end + 2], step=match[1])
        words = text[match.end() : end].lstrip(_BETWEEN)
        if int(match[2]) not in (CHANGE, REJECT):
            words = words.rstrip(_BETWEEN)
        yield Piece(match[1], int(match[2]), words.rstrip() if last else words.rstrip(" \t\r\n,、;，；"))


def _check(piece: Piece, marks: Collection[str]) -> None:
    step = piece.mark
    if step not in marks:
        raise Doubt("no_such_step", step=step)
    if not 1 <= piece.choice <= _LAST:
        raise Doubt("no_such_step_choice", choice=str(piece.choice))
    if piece.choice in (CHANGE, REJECT):
        if not piece.words.strip(_BETWEEN):
            raise Doubt("step_change" if piece.choice == CHANGE else "step_reject", step=step)
    elif piece.words:
        raise Doubt("step_words", piece=f"{step}{piece.choice}", step=step)
