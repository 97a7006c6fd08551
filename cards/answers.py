"""Answers to questions, typed or submitted. An answer is complete and certain, or it is asked back.

Typed: `1`, `1,3`, `①③`, `选1和3`, `第二个` or a label for one question; `1a 2b,c 3: own words 4d` for
several. Own words for a single question need the prefix `1:`, so that talk is never swallowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from cards.choices import Asked
from cards.spoken import shadow

JOIN = ", "
"""Between the labels of one multi-select answer (engine fact E17)."""
_BUDGET = 4_000
"""Steps of the search for readings of one message; honest ones take a few dozen."""


_MOST_STARTS = 60
"""Places where an answer may begin; a message with more is no answer to four questions."""


class Ask(StrEnum):
    """What to ask back (codes of `cards.wording`)."""

    UNCLEAR_ANSWER = "unclear_answer"
    NO_SUCH_CHOICE = "no_such_choice"
    CHOOSE_ONE = "choose_one"
    CHOICE_AND_WORDS = "choice_and_words"
    MISSING_ANSWERS = "missing_answers"


class Unsure(Exception):
    """The answer is not certain or not complete."""

    def __init__(self, ask: Ask, **details: str) -> None:
        super().__init__(ask)
        self.ask = ask
        self.details = details


class _Piece(NamedTuple):
    """The answer to one question (index from 0): picked options, or own words."""

    question: int
    picked: tuple[int, ...]
    words: str = ""


def answers_from_form(questions: Sequence[Asked], fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Answers from the fields `answer.<i>` and `other.<i>`. Raises `Unsure`."""
    pieces = []
    for at, question in enumerate(questions):
        values = [value for value in fields.get(f"answer.{at}", ()) if value]
        words = "\n".join(fields.get(f"other.{at}", ())).replace("\r\n", "\n").strip()
        picked = tuple(_index(value, question) for value in values if value != "other")
        if picked and words and not question.multiple:
            raise Unsure(Ask.CHOICE_AND_WORDS, question=question.text)
        if "other" in values and not words:
            raise Unsure(Ask.MISSING_ANSWERS, questions=question.text)
        pieces.append(_Piece(at, picked, words))
    return _complete(questions, pieces)


def _index(value: str, question: Asked) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", value) or int(value) >= len(question.options):
        raise Unsure(Ask.NO_SUCH_CHOICE, choice=value[:20])
    return int(value)


def _complete(questions: Sequence[Asked], pieces: Sequence[_Piece]) -> dict[str, str]:
    """Question text -> answer. Raises `Unsure` if any question is left, or answered twice."""
    answers: dict[str, str] = {}
    for piece in sorted(pieces, key=lambda piece: piece.question):
        question = questions[piece.question]
        picked = sorted(set(piece.picked))
        if len(picked) > 1 and not question.multiple:
            raise Unsure(Ask.CHOOSE_ONE, question=question.text)
        said = JOIN.join([*(question.options[at].label for at in picked), *filter(None, [piece.words])])
        if said.strip():
            if answers.get(question.text, said) != said:  # two questions with one text: no way to tell
                raise Unsure(Ask.UNCLEAR_ANSWER)
            answers[question.text] = said
    left = [question.text for question in questions if question.text not in answers]
    if left or not answers:
        raise Unsure(Ask.MISSING_ANSWERS, questions=" / ".join(left))
    return answers


def answers_typed(questions: Sequence[Asked], text: str) -> dict[str, str] | None:
    """Answers from a typed message; None if it reads as ordinary words. Raises `Unsure`."""
    text = text.strip()
    if not questions or not text:
        return None
    pieces = _one(questions[0], text) if len(questions) == 1 else _several(questions, text)
    return None if pieces is None else _complete(questions, pieces)


_PREFIXED = re.compile(r"(?:1|other|其他|其它|その他)\s*:\s*(.*)", re.DOTALL)
_NUMBERED = re.compile(r"(?:[#(选選第]\s*)*[0-9]+(?=$|[\s.,:;)、。/~-])")
_LETTERED = re.compile(r"1\s*([a-z](?:[,、&+]?[a-z])*)")


def _one(question: Asked, text: str) -> list[_Piece] | None:
    """The answer to a single question."""
    plain = shadow(text)
    by_label = _labels(question, plain)
    by_number = _numbers(text)
    if by_number is not None:
        picked = tuple(_option(number - 1, str(number), question) for number in by_number)
        if by_label and set(by_label) != set(picked):
            raise Unsure(Ask.UNCLEAR_ANSWER)
        return [_Piece(0, picked)]
    if by_label:
        return [_Piece(0, by_label)]
    prefixed = _PREFIXED.fullmatch(plain)
    if prefixed:
        words = text[prefixed.start(1) :].strip()
        return [_own_words(0, question, words, prefixed[1].strip(), letters=False)]
    lettered = _LETTERED.fullmatch(plain)
    if lettered:
        return [_Piece(0, _letters(lettered[1], question))]
    if _NUMBERED.match(plain):
        raise Unsure(Ask.UNCLEAR_ANSWER)
    return None


def _option(index: int, shown: str, question: Asked) -> int:
    if not 0 <= index < len(question.options):
        raise Unsure(Ask.NO_SUCH_CHOICE, choice=shown[:20])
    return index


def _letters(letters: str, question: Asked) -> tuple[int, ...]:
    return tuple(_option(ord(c) - ord("a"), c, question) for c in letters if c.isalpha())


def _labels(question: Asked, plain: str) -> tuple[int, ...]:
    """Options whose labels are typed out, one or (multi-select) a list of them; else nothing."""
    known: dict[str, list[int]] = {}
    for at, choice in enumerate(question.options):
        known.setdefault(shadow(choice.label).strip(), []).append(at)
    whole = known.get(plain.strip(), [])
    if whole or not question.multiple:
        return tuple(whole) if len(whole) == 1 else ()
    found = [known.get(part.strip(), []) for part in re.split(r"[,、;\n]", plain)]
    return tuple(at for ats in found for at in ats) if all(len(ats) == 1 for ats in found) else ()


def _own_words(at: int, question: Asked, words: str, plain: str, *, letters: bool) -> _Piece:
    """The person's own words (`plain`: their shadow), unless they are an option in other words."""
    if not words:
        raise Unsure(Ask.MISSING_ANSWERS, questions=question.text)
    by_label = _labels(question, plain)
    if by_label:
        return _Piece(at, by_label)
    if letters and re.fullmatch(r"[a-z](?:\s*[,、&+]\s*[a-z])*", plain):
        return _Piece(at, _letters(plain, question))
    if re.fullmatch(r"[0-9]", plain) and int(plain) <= len(question.options):
        raise Unsure(Ask.UNCLEAR_ANSWER)
    return _Piece(at, (), words)


# Numbers of options, as people write them.

_CIRCLED = {chr(0x2460 + n): n + 1 for n in range(20)}
_HAN = {c: n for n, c in enumerate("一二三四五六七八九十", 1)}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6}
_TOKENS = re.compile(
    r"(?P<circled>[①-⑳])|(?P<digits>[0-9０-９]{1,4})|(?P<ordinal>first|second|third|fourth|fifth|sixth)\b"
    r"|(?P<han>[一二三四五六七八九十](?=[个個项項つ番]))"
    r"|(?:我?选择?|我?選択?|第|和|与|跟|及|以及|还有|と|and\b|the\b|one\b|options?\b|choose\b|pick\b|please\b)"
    r"|(?:[个個项項号]|番目?|つ目?|です|を|でお願いします)|[,，、;；&+\s!！。．]|\.(?=\s|$)|[)）](?=\s|$)",
    re.IGNORECASE,
)


def _numbers(text: str) -> list[int] | None:
    """The numbers, if the text is nothing but numbers and what joins them."""
    found: list[int] = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            return None
        if match["circled"]:
            found.append(_CIRCLED[match["circled"]])
        elif match["digits"]:
            found.append(int(match["digits"]))
        elif match["ordinal"]:
            found.append(_ORDINALS[match["ordinal"].lower()])
        elif match["han"]:
            found.append(_HAN[match["han"]])
        at = match.end()
    return found or None


# Several questions in one message.

_GAP = re.compile(r"[\s,;、。]*")
_TOKEN = re.compile(
    r"([1-9][0-9]?)\s*(?:(?P<free>:\s*)|(?P<letters>[a-z]++(?:[\s,、&+]++[a-z]++)*+)(?![0-9:]))"
)
_START = re.compile(r"(?:^|(?<=[\s,;、。]))[1-9][0-9]?\s*[a-z:]")
_ATTEMPT = re.compile(
    r"[1-9][0-9]?(?:\s*:|(?!(?:st|nd|rd|th|am|pm)\b)[a-z]{1,4}(?![a-z])|\s+[a-h](?![a-z]))|[0-9][0-9\s,、;]*$"
)
"""How a message begins that means to answer, be it right or wrong."""


def _several(questions: Sequence[Asked], text: str) -> list[_Piece] | None:
    """Pieces for all questions, from the one reading of the text that answers them all."""
    search = _Search(questions, text)
    try:
        readings = list(search.readings(0, frozenset(range(len(questions)))))
    except _TooMany:
        raise Unsure(Ask.UNCLEAR_ANSWER) from None
    complete = {reading for reading in readings if len(reading) == len(questions)}
    if len(complete) == 1:
        (reading,) = complete
        if not _swallows(reading):
            return list(reading)
    if complete:
        raise Unsure(Ask.UNCLEAR_ANSWER)
    if readings:
        return list(sorted(readings, key=len)[-1])
    if _ATTEMPT.match(search.plain):
        raise search.refused or Unsure(Ask.UNCLEAR_ANSWER)
    return None


def _swallows(reading: Sequence[_Piece]) -> bool:
    """Whether own words hold what may be the answer to a question that is answered after them."""
    for at, piece in enumerate(reading):
        later = {other.question for other in reading[at + 1 :]}
        for match in _TOKEN.finditer(shadow(piece.words)):
            if int(match[1]) - 1 in later:
                return True
    return False


class _TooMany(Exception):
    """The message has too many readings to go through."""


class _Search:
    """All readings of one message as answers to several questions."""

    def __init__(self, questions: Sequence[Asked], text: str) -> None:
        self.questions = questions
        self.text = text
        self.plain = shadow(text)
        self.starts = [match.start() for match in _START.finditer(self.plain)]
        self.steps = _BUDGET if len(self.starts) > _MOST_STARTS else 0
        self.refused: Unsure | None = None
        """Why the first reading that failed did: an option that is not there."""

    def readings(self, at: int, left: frozenset[int]) -> Iterator[tuple[_Piece, ...]]:
        """Every way to read the text from `at` on, answering only questions that are `left`."""
        self.steps += 1
        if self.steps > _BUDGET:
            raise _TooMany
        gap = _GAP.match(self.plain, at)
        at = gap.end() if gap else at
        if at == len(self.plain):
            yield ()
            return
        token = _TOKEN.match(self.plain, at)
        question = int(token[1]) - 1 if token else -1
        if token is None or question not in left:
            return
        found = self._own(token, question) if token["free"] else self._picked(token, question)
        for piece, end in found:
            for rest in self.readings(end, left - {question}):
                yield (piece, *rest)

    def _picked(self, token: re.Match[str], question: int) -> Iterator[tuple[_Piece, int]]:
        """The letters after a number."""
        try:
            yield _Piece(question, _letters(token["letters"], self.questions[question])), token.end()
        except Unsure as unsure:
            self.refused = self.refused or unsure

    def _own(self, token: re.Match[str], question: int) -> Iterator[tuple[_Piece, int]]:
        """Own words up to any place where another answer may begin, or to the end."""
        begin = token.end()
        for end in [start for start in self.starts if start > begin] + [len(self.plain)]:
            words, plain = self.text[begin:end].strip(), self.plain[begin:end].strip()
            if end < len(self.plain):
                words, plain = words.rstrip(",;，；、 "), plain.rstrip(",;、 ")
            try:
                yield _own_words(question, self.questions[question], words, plain, letters=True), end
            except Unsure as unsure:
                self.refused = self.refused or unsure
