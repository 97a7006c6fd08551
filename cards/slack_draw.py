"""The elements of a card as blocks, each within Slack's limits: what is long is split, never cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cards import markdown, visible, wording
from cards.model import (
    FURTHER,
    SIGNS,
    Actions,
    Attachment,
    Button,
    Card,
    CardState,
    Code,
    Diff,
    Element,
    Fields,
    Footer,
    Hint,
    Line,
    Op,
    Option,
    Outcome,
    Paragraph,
    Prose,
    Question,
    Questions,
    Quote,
    Step,
    StepsEnd,
    Warn,
)
from cards.slack_forms import MORE, SLOT, input_block, value_of
from cards.slack_parts import (
    HEADER,
    TEXT,
    Json,
    before,
    cut,
    line,
    plain,
    pre,
    quote,
    rich,
    run,
    section,
    small,
    small_words,
    words,
)

OPTION = 75
"""Characters of the text and of the description of an option (slack_sdk, basic_components.py)."""
BUTTON = 75
"""Characters of a button's text (slack_sdk, block_elements.py)."""
TICKS = 10
"""Options of radio buttons and of checkboxes (docs.slack.dev, block elements)."""
CHOICES = 100
"""Options of a select menu (slack_sdk, block_elements.py)."""
OTHER = "other"
"""The option for a person's own words, as `cards.answers` reads it."""
PREVIEW = 400
"""Characters shown of a file (our choice)."""
_EMOJI: Mapping[CardState, str] = {
    CardState.PENDING: "✋",
    CardState.APPROVED: "✅",
    CardState.CHANGED: "✏️",
    CardState.REJECTED: "⛔",
    CardState.ANSWERED: "💬",
    CardState.EXPIRED: "⌛",
    CardState.WITHDRAWN: "↩️",
    CardState.UNKNOWN: "❓",
    CardState.QUEUED: "🕓",
    CardState.WORKING: "⏳",
    CardState.WAITING: "⏸️",
    CardState.DONE: "✅",
    CardState.FAILED: "❌",
    CardState.STOPPED: "⏹️",
    CardState.STUCK: "🆘",
}
"""In front of the words that say the same."""
DIVIDER: Json = {"type": "divider"}
_LOOK = {Op.SAME: {}, Op.ADDED: {"bold": True}, Op.REMOVED: {"strike": True}, Op.GAP: {}}


def header(title: str) -> Json:
    """A title, shortened if it is too long."""
    return {"type": "header", "text": plain(title, HEADER)}


def head(card: Card) -> list[Json]:
    """The title with its state in front, whole below if it is too long for a header, and the summary."""
    title = f"{_EMOJI[card.state]} {words(card.title)}"
    whole = [rich(section(line(card.title, bold=True)))] if len(title) > HEADER else []
    about = [rich(section(line(card.summary)))] if card.summary else []
    return [header(title), *whole, *about]


def _label(label: Line) -> Json:
    return section(line(label, bold=True))


def _paragraph(element: Paragraph, _: str) -> list[Json]:
    return [rich(section(line(element.text)))]


def _warning(element: Warn, _: str) -> list[Json]:
    return [rich(section([*run("⚠️ "), *line(element.text, bold=True)]))]


def _outcome(element: Outcome, _: str) -> list[Json]:
    return [rich(section([*run(f"{_EMOJI[element.state]} "), *line(element.text, bold=True)]))]


def _step(element: Step, _: str) -> list[Json]:
    return [DIVIDER, rich(section([*run(f"{_EMOJI[element.state]} "), *line(element.text, bold=True)]))]


def _steps_end(_: StepsEnd, __: str) -> list[Json]:
    return [DIVIDER]


def _code(element: Code, lang: str) -> list[Json]:
    return [rich(_label(element.label), _pre(visible.block(element.text.raw), lang))]


def _pre(shown: str, lang: str) -> Json:
    """Text as it is; that there is none is said outside of it, where no text of theirs can stand."""
    return pre(shown) if shown else section(run(wording.text(lang, "slack.empty"), italic=True))


def _diff(element: Diff, lang: str) -> list[Json]:
    if element.by_words:
        runs = (run(visible.block(part.text.raw), **_LOOK[part.op]) for part in element.parts)
        return [rich(_label(element.label), quote(one for more in runs for one in more))]
    lines = (
        SIGNS[part.op] + row for part in element.parts for row in visible.block(part.text.raw).split("\n")
    )
    return [rich(_label(element.label), _pre("\n".join(lines), lang))]


def _fields(element: Fields, lang: str) -> list[Json]:
    runs: list[Json] = []
    for item in element.items:
        runs += run("\n") if runs else []
        runs += [*line(item.label, bold=True), *run(before(item.label, lang)), *line(item.value)]
    return [rich(section(runs))]


def _quote(element: Quote, _: str) -> list[Json]:
    said = quote(run(visible.block(element.text.raw)))
    if element.small:
        return [*small(element.label), rich(said)]
    return [rich(_label(element.label), said)]


def _prose(element: Prose, _: str) -> list[Json]:
    parts = [_label(element.label)]
    runs: list[Json] = []
    for chunk in markdown.chunks(visible.block(element.text.raw)):
        if chunk.code:
            parts += [section(runs), pre(chunk.text)]
            runs = []
        else:
            runs += [*(run("\n\n") if runs else []), *_inline(chunk.text)]
    return [rich(*parts, section(runs))]


def _inline(paragraph: str) -> Iterator[Json]:
    for chunk in markdown.inline(paragraph):
        yield from run(chunk.text, code=True) if chunk.code else run(chunk.text)


def _attachment(element: Attachment, lang: str) -> list[Json]:
    """What the file is, and how it begins."""
    whole = visible.block(element.text.raw[: PREVIEW + 1])
    shown = cut(whole, PREVIEW)
    begins = [*run("\n"), *run(wording.text(lang, "slack.beginning"), italic=True)] if shown != whole else []
    return [rich(section([*line(element.label, bold=True), *begins]), _pre(shown, lang))]


def _questions(element: Questions, lang: str) -> list[Json]:
    several = len(element.items) > 1
    blocks: list[Json] = []
    for question in element.items:
        blocks.append(rich(section(_question(question, several))))
        blocks += _previews(question, lang)
        if element.send is not None:
            blocks += _inputs(question, element.send.revision, several)
    return blocks + (buttons((element.send,), lang) if element.send else [])


def _question(question: Question, several: bool) -> Iterator[Json]:
    """All of a question as text: what its inputs show of it is short."""
    header = visible.inline(question.header.raw)
    yield from run(f"{question.number}  " if several else "", bold=True)
    yield from run(f"{header}: " if header else "", bold=True)
    yield from run(f"{visible.inline(question.text.raw)} ({question.note})")
    for option in question.options:
        yield from run(f"\n{option.mark}  ", bold=True)
        yield from run(visible.inline(option.label.raw))
        about = visible.inline(option.description.raw)
        yield from run(f" ({about})" if about else "", italic=True)


def _previews(question: Question, lang: str) -> list[Json]:
    """What the options would look like, each under its mark."""
    shown = [option for option in question.options if option.preview.raw]
    parts = [
        part
        for option in shown
        for part in (
            section(run(f"{option.mark}  {visible.inline(option.label.raw)}", bold=True)),
            _pre(visible.block(option.preview.raw), lang),
        )
    ]
    return [rich(*parts)] if parts else []


def _actions(element: Actions, lang: str) -> list[Json]:
    return buttons(element.buttons, lang)


def _hint(element: Hint, _: str) -> list[Json]:
    return small_words(element.spaced)


def _footer(element: Footer, _: str) -> list[Json]:
    return small(element.text)


# Buttons.


def buttons(of: tuple[Button, ...], lang: str) -> list[Json]:
    """The buttons in one row; what reaches further than this call is in a menu beside them."""
    row = [_button(button) for button in of if button.verb not in FURTHER]
    # What an entry covers must be readable on it as a whole; else it can still be typed.
    further = [_further(b, lang) for b in of if b.verb in FURTHER and len(b.label) <= OPTION]
    if further:
        row.append({"type": "overflow", "action_id": MORE, "options": further})
    return [{"type": "actions", "elements": row}] if row else []


def _button(button: Button) -> Json:
    look = {} if button.style == "plain" else {"style": button.style.value}
    text = plain(button.label, BUTTON)
    return {
        "type": "button",
        "action_id": button.verb.value,
        "text": text,
        "value": value_of(button),
        **look,
    }


def _further(button: Button, lang: str) -> Json:
    about = plain(wording.text(lang, f"slack.{button.verb}"), OPTION)
    return {"text": plain(button.label, OPTION), "description": about, "value": value_of(button)}


# Questions in a message.


def _inputs(question: Question, revision: int, several: bool) -> list[Json]:
    """The inputs of one question: its options, if they fit in any input, and the person's own words.

    Nothing is sent before the button is pressed: inputs do not act by themselves.
    """
    at = question.number - 1
    number = f"{question.number} · " if several else ""
    words_input = {"type": "plain_text_input", "action_id": SLOT, "multiline": True, "max_length": TEXT}
    other = input_block(f"other.{at}@{revision}", f"{number}{question.other}", words_input, optional=True)
    if not 0 < len(question.options) <= CHOICES:
        return [other]
    picker = _picker(question)
    return [input_block(f"answer.{at}@{revision}", f"{number}{question.note}", picker, optional=True), other]


def _picker(question: Question) -> Json:
    options = [_option(at, option) for at, option in enumerate(question.options)]
    if not question.multiple and len(options) < CHOICES:
        # What was picked cannot be taken back, only replaced: by this, for own words.
        options.append({"text": plain(question.other, OPTION), "value": OTHER})
    few = len(options) <= TICKS
    ticks = "checkboxes" if question.multiple else "radio_buttons"
    menu = "multi_static_select" if question.multiple else "static_select"
    return {"type": ticks if few else menu, "action_id": SLOT, "options": options}


def _option(at: int, option: Option) -> Json:
    """Short: the whole text stands above."""
    label = f"{option.mark}  {visible.inline(option.label.raw)}"
    about = visible.inline(option.description.raw)
    more = {"description": plain(about, OPTION)} if about.strip() else {}
    return {"text": plain(label, OPTION), "value": str(at), **more}


DRAW: Mapping[type[Element], Callable[[Any, str], list[Json]]] = {
    Paragraph: _paragraph,
    Warn: _warning,
    Outcome: _outcome,
    Code: _code,
    Diff: _diff,
    Fields: _fields,
    Quote: _quote,
    Prose: _prose,
    Attachment: _attachment,
    Questions: _questions,
    Step: _step,
    StepsEnd: _steps_end,
    Actions: _actions,
    Hint: _hint,
    Footer: _footer,
}
"""How each kind of element is drawn, given the language."""
