"""The commands about people who are away: for whoever runs the bot, about anybody who is listed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import click

Command = Callable[..., Any]


def add_to(
    main: click.Group,
    *,
    options: Callable[[Command], Command],
    read: Callable[..., Any],
    plainly: Callable[[], AbstractContextManager[None]],
) -> None:
    """Adds `away` and `back`; the arguments are what all commands have in common."""

    @main.command()
    @options
    @click.argument("who", required=False)
    @click.option("--until", default=None, help="5 Dec, 2026-12-05 18:00, 18:00, friday, 3d")
    @click.option("--to", "substitute", default=None, help="Who decides in their place, by name.")
    def away(who: str | None, until: str | None, substitute: str | None, **where: Any) -> None:
        """Let WHO be away: somebody else decides in their place. Without WHO, list who is away."""
        with plainly():
            _away(read(where["state_dir"], where["config_path"], where["workspaces"]), who, until, substitute)

    @main.command()
    @options
    @click.argument("who")
    def back(who: str, **where: Any) -> None:
        """Let WHO be back: they decide for themselves again."""
        with plainly():
            _back(read(where["state_dir"], where["config_path"], where["workspaces"]), who)


def _away(settings: Any, who: str | None, until: str | None, substitute: str | None) -> None:
    from bot import serve
    from bot.stores import store_of

    if who is None and (until or substitute):
        raise click.UsageError("Say who is away: countersign away lin --until '5 Dec' --to mei")
    if who is not None and not (until and substitute):
        raise click.UsageError("Say until when, and who decides meanwhile: --until '5 Dec' --to mei")
    with store_of(settings) as url:
        desk = serve.build(settings, url).handler.away
        if who is None:
            for line in desk.lines():
                click.echo(line)
            return
        _tell(desk.leave(who, str(until), str(substitute)), "away.set")


def _back(settings: Any, who: str) -> None:
    from bot import serve
    from bot.stores import store_of

    with store_of(settings) as url:
        _tell(serve.build(settings, url).handler.away.back(who), "away.back")


def _tell(reply: Any, good: str) -> None:
    """Prints what came of it; what was not done goes to stderr, with exit code 2."""
    done = reply.key == good
    click.echo(reply.text("en"), err=not done)
    if not done:
        sys.exit(2)
