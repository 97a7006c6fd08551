"""`countersign policy`: a configuration file checked, and tried on past calls, before it is used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import click

from bot.settings import Settings

Read = Callable[[Path, Path | None, tuple[str, ...]], Settings]
"""State directory, configuration file, workspaces -> what a command needs to know."""
Plainly = Callable[[], AbstractContextManager[None]]
"""Around a command: errors as one line and a remedy, exit code 2."""

_FILE = click.argument("file", type=click.Path(path_type=Path))


def group(read: Read, plainly: Plainly, *, state_dir: Path) -> click.Group:
    """The commands, given how `cli` reads the environment and tells errors."""

    @click.group("policy")
    def policy() -> None:
        """Look at a policy before it is switched on."""

    @policy.command("check")
    @_FILE
    def check(file: Path) -> None:
        """Check FILE as the start does: every mistake with its line and key. Exit code 2 if there is one."""
        from agent_runner.config import load, load_hook

        with plainly():
            new = load(file)
            load_hook(new, file.parent)
            _warn(file, new.warnings)
            rules = new.policy
            click.echo(
                f"{file} is in order: rules {len(rules.deny)} deny, {len(rules.ask)} ask, "
                f"{len(rules.allow)} allow; {len(rules.routes)} routes (policy {new.policy_version})."
            )

    @policy.command("try")
    @_FILE
    @click.option(
        "--since", default="7d", show_default=True, help="From when: 12h, 7d, or an ISO date (UTC)."
    )
    @click.option("--until", default="", help="Until when, in the same words; until now if left out.")
    @click.option("--workspace", "workspaces", multiple=True, metavar="NAME", help="Only calls there.")
    @click.option("--all", "everything", is_flag=True, help="List calls that nothing changes for, too.")
    @click.option("--json", "as_json", is_flag=True, help="Print each call as a line of JSON, the sum last.")
    @click.option("--strict", is_flag=True, help="Exit code 1 if what people refused would run by itself.")
    @click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        default=None,
        help="The present configuration; countersign.toml if there is one.",
    )
    @click.option(
        "--state-dir",
        type=click.Path(path_type=Path),
        default=state_dir,
        show_default=True,
        help="Where the embedded store lives, if REDIS_URL names no other.",
    )
    def try_(
        file: Path,
        since: str,
        until: str,
        workspaces: tuple[str, ...],
        everything: bool,
        as_json: bool,
        strict: bool,
        config_path: Path | None,
        state_dir: Path,
    ) -> None:
        """Say what the policy in FILE would do about past and running calls. Changes nothing.

        Calls are read from the transcripts, which are kept for 30 days, and from the record. A
        needs_approval function of either file is asked about every one of them.
        """
        from agent_runner.config import load
        from agent_runner.shadow import Shadow, Summary
        from bot import policy_report as report
        from bot import policy_trial as trial
        from bot.since import moment

        with plainly():
            now = datetime.now(UTC)
            start = moment(since, "--since", now)
            end = moment(until, "--until", now) if until else now
            asked = trial.window(start, end, workspaces, now)
            config = load(file)
            settings = read(state_dir, config_path, ())
            present = trial.present_rules(settings, beside=file)
            new = trial.rules_of(config, file)
            _warn(file, config.warnings)
            summary = Summary(short=report.short)

            def each(seen: Shadow) -> None:
                summary.add(seen)
                if as_json:
                    click.echo(report.call_line(seen))

            gaps = trial.judge_all(settings, asked, present, new, each)
            names = {"new": str(file), "present": settings.config.source}
            if as_json:
                click.echo(report.summary_line(summary, gaps, asked, **names))
            else:
                for line in report.text(summary, gaps, asked, everything=everything, **names):
                    click.echo(line)
            sys.exit(int(strict and summary.overruling > 0))

    return policy


def _warn(file: Path, warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        click.echo(f"{file}: warning: {warning}", err=True)
