"""The command line. The only place that reads the environment; it hands it on as a value."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import click

from agent_runner.errors import CountersignError
from agent_runner.model import Actor
from bot import cli_people, policy_commands
from bot import settings as reading
from bot.findings import Finding
from bot.private_files import private_directory
from bot.settings import Settings

DEFAULT_STATE = Path(".countersign")
DEFAULT_CONFIG = Path("countersign.toml")

Command = Callable[..., Any]


def _common(command: Command) -> Command:
    """Options that every command about a running system takes."""
    options = (
        click.option("--state-dir", type=click.Path(path_type=Path), default=DEFAULT_STATE, show_default=True,
                     help="Where the embedded store, logs and the local token live."),
        click.option("--config", "config_path", type=click.Path(path_type=Path), default=None,
                     help=f"Configuration file; {DEFAULT_CONFIG} if there is one."),
        click.option("--workspace", "workspaces", multiple=True, metavar="[NAME=]PATH",
                     help="A directory in which jobs run; may be given several times."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _read(state_dir: Path, config_path: Path | None, workspaces: tuple[str, ...], **flags: Any) -> Settings:
    if config_path is None and DEFAULT_CONFIG.exists():
        config_path = DEFAULT_CONFIG
    return reading.read(
        config_path=config_path,
        state_dir=state_dir,
        environment=dict(os.environ),
        workspaces=workspaces,
        **flags,
    )


@contextlib.contextmanager
def _plainly() -> Iterator[None]:
    """Errors as one line and a remedy, never a traceback."""
    try:
        yield
    except CountersignError as error:
        _say(f"countersign: {error.message}")
        if error.hint:
            _say(f"  {error.hint}")
        sys.exit(2)
    except OSError as error:
        _say(f"countersign: {error.filename or 'system'}: {error.strerror or error}")
        sys.exit(2)


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="countersign")
@click.option("--verbose", is_flag=True, help="Log more.")
def main(verbose: bool) -> None:
    """Let an AI agent do real work, and keep the say."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


@main.command()
@_common
@click.option("--host", default=None, help="Address to listen on.")
@click.option("--port", type=int, default=None, help="Port of the page; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 256), default=None, help="Jobs that may run at once.")
@click.option("--json", "as_json", is_flag=True, help='Print one line {"url", "token"} when ready.')
def up(
    state_dir: Path,
    config_path: Path | None,
    workspaces: tuple[str, ...],
    host: str | None,
    port: int | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Run everything on this machine: store, page and a runner. Ctrl-C ends it."""
    from bot.up import up as run

    with _plainly():
        settings = _read(state_dir, config_path, workspaces, host=host, port=port)
        flags = ["--state-dir", str(settings.state_dir)]
        if settings.config_path:
            flags += ["--config", str(settings.config_path)]
        for name in workspaces:
            flags += ["--workspace", name]
        if workers:
            flags += ["--workers", str(workers)]
        run(settings, say=_say, as_json=as_json, flags=flags)


@main.command()
@_common
@click.option("--host", default=None, help="Address to listen on.")
@click.option("--port", type=int, default=None, help="Port of the page.")
def bot(
    state_dir: Path,
    config_path: Path | None,
    workspaces: tuple[str, ...],
    host: str | None,
    port: int | None,
) -> None:
    """Run the bot alone: page, API, and what keeps the threads up to date."""
    from bot import serve
    from bot.stores import store_of
    from bot.up import address_of, admit

    with _plainly():
        settings = _read(state_dir, config_path, workspaces, host=host, port=port)
        private_directory(settings.state_dir)
        with store_of(settings) as url:
            admit(settings, url, _say)
            built = serve.build(settings, url)
            listening = serve.listen(settings.host, settings.port)
            address = address_of(built, listening.getsockname()[1])
            asyncio.run(_until_signalled(serve, built, listening, lambda: _say(f"Ready: {address.link}")))


async def _until_signalled(serve: Any, built: Any, listening: Any, ready: Callable[[], None]) -> None:
    await serve.run(built, listening, ready=ready, stop=serve.stop_on_signals())


@main.command()
@_common
@click.option("--pool", default="default", show_default=True, help="The queue to serve.")
@click.option("--workers", type=click.IntRange(1, 256), default=None, help="Jobs that may run at once.")
def runner(
    state_dir: Path,
    config_path: Path | None,
    workspaces: tuple[str, ...],
    pool: str,
    workers: int | None,
) -> None:
    """Run jobs of a pool. Start as many as you like, on as many machines."""
    from bot.up import run_runner

    with _plainly():
        settings = _read(state_dir, config_path, workspaces)
        run_runner(settings, pool=pool, workers=workers or settings.config.runner.workers, say=_say)


@main.command()
@click.option("--port", type=int, default=0, help="Port on loopback; 0 takes a free one.")
@click.option("--fd", type=int, default=None, hidden=True, help="An inherited socket that listens already.")
def rehearsal(port: int, fd: int | None) -> None:
    """Serve the scripted model on loopback until ended (used when there is no API key)."""
    from agent_runner.messages_api import MessagesServer
    from agent_runner.rehearsal import rehearsal as script

    listening = None if fd is None else socket.socket(fileno=fd)
    with MessagesServer(script, port=port, listening=listening) as server:
        click.echo(server.url)
        sys.stdout.flush()
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


@main.command()
@click.argument("text")
@click.option("--workspace", default="", help="Where it runs; the first one if left out.")
@click.option("--plan", is_flag=True, help="Have a plan made and approved first.")
@click.option("--state-dir", type=click.Path(path_type=Path), default=DEFAULT_STATE, show_default=True)
@click.option("--url", default=None, help="Address of a bot elsewhere.")
@click.option("--token", default=None, envvar="COUNTERSIGN_TOKEN", help="Your token there.")
def ask(text: str, workspace: str, plan: bool, state_dir: Path, url: str | None, token: str | None) -> None:
    """Ask for a job and follow it here; answer by typing the numbers."""
    from bot.terminal import Terminal

    with _plainly():
        sys.exit(Terminal(_address(state_dir, url, token)).ask(text, workspace=workspace, plan=plan))


@main.command()
@click.argument("request", type=str)
@click.argument("answer", nargs=-1, required=True)
@click.option("--state-dir", type=click.Path(path_type=Path), default=DEFAULT_STATE, show_default=True)
@click.option("--url", default=None, help="Address of a bot elsewhere.")
@click.option("--token", default=None, envvar="COUNTERSIGN_TOKEN", help="Your token there.")
def decide(
    request: str, answer: tuple[str, ...], state_dir: Path, url: str | None, token: str | None
) -> None:
    """Answer a request by its number, as in the thread: `countersign decide 12 1`, `12 3 not today`."""
    from bot.terminal import Terminal

    with _plainly():
        sys.exit(Terminal(_address(state_dir, url, token)).decide(request, " ".join(answer)))


@main.group()
def grants() -> None:
    """Approvals that outlive one call."""


@grants.command("list")
@click.option("--state-dir", type=click.Path(path_type=Path), default=DEFAULT_STATE, show_default=True)
@click.option("--url", default=None, help="Address of a bot elsewhere.")
@click.option("--token", default=None, envvar="COUNTERSIGN_TOKEN", help="Your token there.")
def grants_list(state_dir: Path, url: str | None, token: str | None) -> None:
    """Those that hold now: id, what is covered, where, until when, by whom."""
    from bot.terminal import Terminal

    with _plainly():
        sys.exit(Terminal(_address(state_dir, url, token)).grants())


@grants.command("revoke")
@click.argument("grant")
@click.option("--state-dir", type=click.Path(path_type=Path), default=DEFAULT_STATE, show_default=True)
@click.option("--url", default=None, help="Address of a bot elsewhere.")
@click.option("--token", default=None, envvar="COUNTERSIGN_TOKEN", help="Your token there.")
def grants_revoke(grant: str, state_dir: Path, url: str | None, token: str | None) -> None:
    """Take GRANT back (`g12`): from the next call on, people are asked again."""
    from bot.terminal import Terminal

    with _plainly():
        sys.exit(Terminal(_address(state_dir, url, token)).revoke(grant))


def _address(state_dir: Path, url: str | None, token: str | None) -> Any:
    from bot.address import Address, known_address

    if url and token:
        return Address(url.rstrip("/"), token)
    known = known_address(state_dir)
    return Address((url or known.url).rstrip("/"), token or known.token)


@main.command("token")
@_common
@click.argument("user")
@click.option("--name", default=None, help="The name others see; USER if left out.")
@click.option("--revoke", is_flag=True, help="End all tokens of USER instead.")
def token_command(
    state_dir: Path,
    config_path: Path | None,
    workspaces: tuple[str, ...],
    user: str,
    name: str | None,
    revoke: bool,
) -> None:
    """Print a new personal token for USER of the page (the bot must be running, or REDIS_URL be set)."""
    import secrets

    from agent_runner.policy import identify
    from bot import serve
    from bot.stores import store_of

    with _plainly():
        settings = _read(state_dir, config_path, workspaces)
        with store_of(settings) as url:
            registers = serve.build(settings, url).registers
            person = identify(settings.config.people, "web", user)
            actor = Actor(platform="web", user_id=user, name=name or user, person=person)
            if revoke:
                _say(f"{registers.revoke_tokens(actor.account)} token(s) of {user} ended.")
                return
            token = secrets.token_urlsafe(24)
            registers.keep_token(token, actor)
            click.echo(token)


@main.command()
@_common
@click.option(
    "--click",
    "place",
    default=None,
    metavar="PLACE",
    help="Post a test card there (slack:C012AB, feishu:oc_12ab) and wait until somebody presses its button.",
)
@click.option(
    "--click-seconds",
    type=click.FloatRange(1, 600),
    default=60,
    show_default=True,
    help="How long to wait for that.",
)
def doctor(
    state_dir: Path,
    config_path: Path | None,
    workspaces: tuple[str, ...],
    place: str | None,
    click_seconds: float,
) -> None:
    """Check everything a job needs, each with a remedy. Exit code 1 if something fails."""
    from bot.doctor import examine, try_click

    with _plainly():
        settings = _read(state_dir, config_path, workspaces)
        failed = [_tell(finding) for finding in examine(settings)].count(True)
        if place and not failed:
            failed += _tell(try_click(settings, place, say=_say, seconds=click_seconds))
        elif place:
            _say("No test card was posted: put the failures right first.")
        sys.exit(failed > 0)


def _tell(finding: Finding) -> bool:
    """Prints a finding; whether it is a failure."""
    marks = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
    click.echo(f"{marks[finding.level]}  {finding.what}")
    if finding.remedy and finding.level != "ok":
        click.echo(f"      {finding.remedy}")
    return finding.level == "fail"


@main.group()
def slack() -> None:
    """Connect Slack."""


@slack.command("manifest")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=None,
    help=f"Configuration file; {DEFAULT_CONFIG} if there is one.",
)
@click.option(
    "--mode",
    type=click.Choice(["socket", "http"]),
    default=None,
    help="How Slack reaches the bot; as configured if left out.",
)
@click.option("--name", default=None, help="The app's name.")
@click.option(
    "--url",
    default=None,
    metavar="https://...",
    help="The bot's public address, for http; as configured if left out.",
)
def slack_manifest(
    config_path: Path | None, mode: Literal["socket", "http"] | None, name: str | None, url: str | None
) -> None:
    """Print the manifest from which the Slack app is made, and how to go on."""
    from agent_runner.config import load
    from bot.slack import manifest

    with _plainly():
        config = load(config_path or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None))
        chosen = mode or config.slack.mode
        made = manifest.manifest(
            mode=chosen, name=name or manifest.NAME, public_url=url or config.web.public_url
        )
        click.echo(json.dumps(made, indent=2))
        for line in (*manifest.reasons(), "", *manifest.next_steps(chosen)):
            _say(line)


@main.group()
def feishu() -> None:
    """Connect Feishu or Lark."""


@feishu.command("permissions")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=None,
    help=f"Configuration file; {DEFAULT_CONFIG} if there is one.",
)
@click.option(
    "--mode",
    type=click.Choice(["socket", "http"]),
    default=None,
    help="How Feishu reaches the bot; as configured if left out.",
)
@click.option(
    "--url",
    default=None,
    metavar="https://...",
    help="The bot's public address, for http; as configured if left out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scopes for the console's batch import.")
def feishu_permissions(
    config_path: Path | None, mode: Literal["socket", "http"] | None, url: str | None, as_json: bool
) -> None:
    """Print the scopes, events and callbacks that the app needs, and what to do in the console."""
    from agent_runner.config import load
    from bot.feishu import permissions

    with _plainly():
        config = load(config_path or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None))
        if as_json:
            click.echo(json.dumps(permissions.importable(groups=bool(config.feishu.groups)), indent=2))
            return
        for line in permissions.steps(
            mode=mode or config.feishu.mode,
            domain=config.feishu.domain,
            public_url=url or config.web.public_url,
        ):
            click.echo(line)


main.add_command(policy_commands.group(_read, _plainly, state_dir=DEFAULT_STATE))

cli_people.add_to(main, options=_common, read=_read, plainly=_plainly)

if __name__ == "__main__":
    main()
