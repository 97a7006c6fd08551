"""The steps of a batch on a Feishu card: one form holds them all.

So the words that were typed come with whatever is pressed, and nothing typed is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from cards import wording
from cards.feishu_elements import components
from cards.feishu_forms import WORDS, form, row, submit, text_input
from cards.feishu_text import Component
from cards.model import FURTHER, Actions, Button, Card, Element, Step, StepsEnd


def body(card: Card) -> list[Component]:
    """All below the header of a card; of a batch that is open, the form and what stands below it."""
    end = next((at for at, element in enumerate(card.elements) if isinstance(element, StepsEnd)), 0)
    if not any(_takes_words(element) for element in card.elements[:end]):
        return [part for element in card.elements for part in components(element, card.lang)]
    inside: list[Component] = []
    mark = ""
    for element in card.elements[:end]:
        if isinstance(element, Step):
            mark = element.mark
        if isinstance(element, Actions):
            inside.append(step_row(element.buttons, mark, card.lang))
        else:
            inside += components(element, card.lang)
    inside += [*components(card.elements[end], card.lang), _words(card.lang)]
    below: list[Component] = []
    for element in card.elements[end + 1 :]:
        if isinstance(element, Actions):
            inside.append(row(_named(button, button.verb.value, card.lang) for button in element.buttons))
        else:
            below += components(element, card.lang)
    return [form("decision", inside), *below]


def _takes_words(element: Element) -> bool:
    return isinstance(element, Actions) and any(button.inputs for button in element.buttons)


def _words(lang: str) -> Component:
    hint = wording.text(lang, "feishu.batch_words_hint")
    return text_input(WORDS, wording.text(lang, "feishu.words"), hint=hint)


def step_row(buttons: Iterable[Button], mark: str, lang: str) -> Component:
    """The buttons of one step in that form, each with its letter on it. What reaches further is typed."""
    return row(
        _named(button, f"{button.verb.value}.{mark}", lang, before=f"{mark} ")
        for button in buttons
        if button.verb not in FURTHER
    )


def _named(button: Button, name: str, lang: str, *, before: str = "") -> Component:
    return {**submit(button, lang, before=before), "name": name}
