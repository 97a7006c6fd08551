"""The steps of a batch on a Feishu card: one form holds them all.

So the words that were typed come with whatever is pressed, and nothing typed is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cards import wording
from cards.feishu_elements import components
from cards.feishu_forms import WORDS, form, row, submit, text_input
from cards.feishu_text import Component
from cards.model import FURTHER, TOGETHER, Actions, Button, Card, Step


def body(card: Card) -> list[Component]:
    """All below the header of a card; of a batch that is open, the form and what stands below it."""
    together = [e for e in card.elements if isinstance(e, Actions) and e.buttons[0].verb in TOGETHER]
    if not together:
        return [part for element in card.elements for part in components(element, card.lang)]
    steps: list[Component] = []
    mark = ""
    for element in card.elements[: card.elements.index(together[0])]:
        if isinstance(element, Step):
            mark = element.mark
        if isinstance(element, Actions):
            steps.append(step_row(element.buttons, mark, card.lang))
        else:
            steps += components(element, card.lang)
    rest = card.elements[card.elements.index(together[0]) + 1 :]
    below = [part for element in rest for part in components(element, card.lang)]
    return [batch_form(steps, together[0].buttons, card.lang), *below]


def batch_form(parts: Iterable[Component], everything: Sequence[Button], lang: str) -> Component:
    """All steps of a batch as they are drawn, one place for words, and what is about all of them."""
    hint = wording.text(lang, "feishu.batch_words_hint")
    words = text_input(WORDS, wording.text(lang, "feishu.words"), hint=hint)
    last = row(_named(button, button.verb.value, lang) for button in everything)
    return form("decision", [*parts, words, last])


def step_row(buttons: Iterable[Button], mark: str, lang: str) -> Component:
    """The buttons of one step in that form, each with its letter on it. What reaches further is typed."""
    return row(
        _named(button, f"{button.verb.value}.{mark}", lang, before=f"{mark} ")
        for button in buttons
        if button.verb not in FURTHER
    )


def _named(button: Button, name: str, lang: str, *, before: str = "") -> Component:
    return {**submit(button, lang, before=before), "name": name}
