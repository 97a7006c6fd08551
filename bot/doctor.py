"""What can be checked before a person trusts this installation, each with its remedy.

The checks of Redis are in `bot.storage_check`; these are all others.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from agent_runner.errors import FixConfiguration
from bot import platforms
from bot.doors import Parts
from bot.findings import Finding, Level, fail, ok, refuse_failures, warn
from bot.settings import Settings
from bot.storage_check import check_marker, check_storage, connect, ensure_marker, remembers
from bot.stores import store_of

__all__ = [
    "Finding",
    "Level",
    "admit_storage",
    "bundled_cli",
    "check_engine_cli",
    "check_marker",
    "check_model",
    "check_storage",
    "check_workspaces",
    "connect",
    "ensure_marker",
    "examine",
    "refuse_failures",
    "try_click",
]

CLI_SECONDS = 20.0
"""Longest wait for the engine's program to give its version; measured 0.13 s, a cold disk is slower."""


def bundled_cli() -> Path | None:
    """The engine's program inside the SDK's package, found without the second that importing it takes."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "_bundled" / "claude"


def check_engine_cli(cli: Path | None) -> Finding:
    """Whether the engine's program starts, and which version it is; give it `bundled_cli()`."""
    reinstall = "Install claude-agent-sdk again, from a wheel for this platform."
    if cli is None or not cli.exists():
        return fail("The engine's program is not installed.", reinstall)
    try:
        answer = subprocess.run(  # noqa: S603  (the program inside our own pinned dependency)
            [cli, "-v"], capture_output=True, text=True, timeout=CLI_SECONDS, env={}, check=False
        )
    except subprocess.TimeoutExpired:
        return fail(f"The engine's program gave no version in {CLI_SECONDS:.0f} s.", f"Run: {cli} -v")
    except OSError as error:
        return fail(f"The engine's program does not start: {error.strerror}.", reinstall)
    if answer.returncode:
        words = (answer.stderr or answer.stdout).strip() or f"exit code {answer.returncode}"
        return fail(f"The engine's program does not start: {words}", reinstall)
    return ok(f"The engine starts: {answer.stdout.strip()}.")


class HasPath(Protocol):
    """A configured workspace, as far as it matters here."""

    @property
    def path(self) -> str | Path:
        """Where it is."""


def check_workspaces(workspaces: Mapping[str, HasPath]) -> list[Finding]:
    """Whether each workspace is a directory in which this user can work."""
    if not workspaces:
        return [fail("No workspace is configured.", "Add a [workspaces.NAME] section with a path.")]
    return [_workspace(name, Path(workspace.path)) for name, workspace in workspaces.items()]


def _workspace(name: str, path: Path) -> Finding:
    if not path.exists():
        return fail(f"Workspace {name}: {path} does not exist.", "Create it, or correct its path.")
    if not path.is_dir():
        return fail(f"Workspace {name}: {path} is not a directory.", "Correct its path.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fail(f"Workspace {name}: {path} is not writable.", "Give this user the right to write there.")
    return ok(f"Workspace {name}: {path}")


def check_model(environment: Mapping[str, str], *, rehearsal: bool) -> Finding:
    """Whether there is a way to the model; `environment` is what the engine is given for it."""
    if rehearsal:
        return warn(
            "No ANTHROPIC_API_KEY is set: the rehearsal, a scripted model, answers.",
            "Set it to work with Claude.",
        )
    api_key = environment.get("ANTHROPIC_API_KEY", "")
    if any(character.isspace() or character in "\"'" for character in api_key):
        return fail("ANTHROPIC_API_KEY has spaces or quotes in it.", "Set it to the key alone.")
    base_url = environment.get("ANTHROPIC_BASE_URL", "")
    where = f" at {base_url}" if base_url else ""
    return ok(f"There is a model{where}; it is not called here.")


def examine(settings: Settings, *, new_id: Callable[[], str] = secrets.token_urlsafe) -> list[Finding]:
    """Everything above for one installation; starts its private Redis for the moment if none runs.

    Call it from the main thread (see `bot.embedded`).
    """
    return [
        *_storage(settings, new_id),
        check_engine_cli(bundled_cli()),
        *check_workspaces(settings.config.workspaces),
        check_model(settings.model_environment, rehearsal=settings.rehearsal),
        *platforms.check(settings),
        *(warn(text, f"See {settings.config.source}.") for text in settings.config.warnings),
    ]


def try_click(
    settings: Settings,
    place: str,
    *,
    say: Callable[[str], None],
    seconds: float,
    new_id: Callable[[], str] = secrets.token_urlsafe,
) -> Finding:
    """Posts a test card to a place (`slack:C012AB`, `feishu:oc_12ab`) and waits for its click.

    Call it from the main thread.
    """
    from bot.serve import build  # the web server is of no use to the other checks

    with store_of(settings) as url:
        bot = build(settings, url)
        parts = Parts(
            settings=settings,
            store=bot.store,
            registers=bot.registers,
            handler=bot.handler,
            clock=lambda: datetime.now(UTC),
            zone=datetime.now().astimezone().tzinfo or UTC,
            wake=lambda: None,  # the running bot hears of changes from the store
            page=settings.config.web.public_url.rstrip("/") or f"http://{settings.host}:{settings.port}",
        )
        return platforms.check_click(parts, place, token=new_id(), say=say, seconds=seconds)


def admit_storage(
    url: str, state_dir: Path, *, external: bool, new_id: Callable[[], str] = secrets.token_urlsafe
) -> list[Finding]:
    """For every start: raises `FixConfiguration` if this Redis would lose approvals or is not ours.

    Otherwise remembers it in `state_dir` and returns the findings, for their warnings.
    """
    with connect(url) as client:
        findings = check_storage(client, external=external, token=new_id())
        refuse_failures(findings)  # before the marker: a Redis that will not do is not to be remembered
        marker = check_marker(client, state_dir, new=new_id())
        refuse_failures([marker])
    return [*findings, marker]


def _storage(settings: Settings, new_id: Callable[[], str]) -> Iterator[Finding]:
    try:
        with store_of(settings) as url, connect(url) as client:
            yield from check_storage(client, external=bool(settings.redis_url), token=new_id())
            if remembers(settings.state_dir):  # a first look must not make the wrong Redis the known one
                yield check_marker(client, settings.state_dir, new=new_id())
    except FixConfiguration as error:
        yield fail(error.message, error.hint)
    except ValueError as error:  # what redis-py says of an address it cannot read
        yield fail(f"REDIS_URL is not an address: {error}", "Give redis://, rediss:// or unix://.")
