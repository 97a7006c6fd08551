"""Templates -> HTML. Escaping is on; untrusted text goes through `cards.visible` on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bot.web import words
from bot.web.blocks import joined
from bot.web.guard import Viewer, language, service_of
from cards import html
from cards.model import Theirs
from cards.outcomes import person

if TYPE_CHECKING:
    from bot.web.regions import Shown

HERE = Path(__file__).parent
LANG_SECONDS = 365 * 86_400

_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _theirs(text: str) -> Markup:
    return html.inline(Theirs(raw=text))


def _theirs_block(text: str) -> Markup:
    return html.block(Theirs(raw=text))


def _ticks(text: str) -> Markup:
    """Our own words with what stands between backticks as code."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece)
        for at, piece in enumerate(pieces)
    )


_templates.globals.update(
    theirs=_theirs,
    theirs_block=_theirs_block,
    ticks=_ticks,
    person=person,
    line=html.line,
    joined=joined,
    languages=words.LANGUAGES,
)


@dataclass(frozen=True)
class Shell:
    """What is around a page's content: who looks, which page it is, where its updates are."""

    viewer: Viewer | None
    name: str
    live: str


def fragment(template: str, lang: str, **values: Any) -> Markup:
    """A piece of a page."""
    text = _templates.get_template(template).render(lang=lang, t=_speaker(lang), **values)
    return Markup(text.strip())  # noqa: S704  (the environment escapes)


def _speaker(lang: str) -> Callable[..., str]:
    return partial(words.text, lang)


def _in_language(request: Request, lang: str) -> str:
    """The same page in another language, without a token that may be in its address."""
    url = request.url.remove_query_params("token").include_query_params(lang=lang)
    return f"{url.path}?{url.query}"


def page(request: Request, template: str, shell: Shell, shown: Shown, *, status: int = 200) -> Response:
    """A whole page in the reader's language. A language chosen by `?lang=` is remembered."""
    lang = language(request)
    text = _templates.get_template(template).render(
        lang=lang,
        t=_speaker(lang),
        line_of=partial(words.line, lang),
        shell=shell,
        shown=shown,
        version=service_of(request).version,
        here=request.url,
        in_language=partial(_in_language, request),
    )
    response = HTMLResponse(text, status_code=status)
    if request.query_params.get("lang") in words.LANGUAGES:
        response.set_cookie("lang", lang, max_age=LANG_SECONDS, samesite="lax", httponly=True)
    return response
