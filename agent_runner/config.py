"""One frozen value with everything `countersign.toml` says, read once and checked at start.

Every mistake of the file is reported at once, each with line, key and what is allowed; a file
with a mistake is never half used. Secrets are not in it: they come from the environment.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agent_runner.config_chats import Feishu, Slack, with_kept_groups
from agent_runner.config_checks import PLATFORMS, McpServer, check_values, read_people
from agent_runner.config_policy import check_policy, warnings
from agent_runner.config_report import Report, Source, suggest, table
from agent_runner.config_types import NOT_IN_FILE, file_keys, validate
from agent_runner.digest import canonical
from agent_runner.errors import FixConfiguration
from agent_runner.model import Value
from agent_runner.people import Person
from agent_runner.policy import ALLOWED_BY_DEFAULT, ASKED_BY_DEFAULT, NeedsApproval, Policy

VERSION_CHARS = 12
"""Characters of the policy's digest on record: 48 bits, plenty to tell two policies apart."""


class Chat(Value):
    """A chat whose threads belong to a workspace; written `slack:C012AB`."""

    platform: str
    chat: str


def _chat(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    platform, _, chat = value.partition(":")
    return {"platform": platform, "chat": chat}


class Workspace(Value):
    """A directory in which tasks run. `mcp` is in Claude's own form, name -> table."""

    path: str
    pool: str = Field(default="default", pattern=r"^[A-Za-z0-9_-]+$")
    places: tuple[Annotated[Chat, BeforeValidator(_chat)], ...] = ()
    mcp: dict[str, dict[str, Any]] = Field(default_factory=dict)
    max_usd_per_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """What all its tasks may cost on one day (UTC) before people are asked."""


class Limits(Value):
    """Where a run ends by itself. Times count only while the agent works, not while people think.

    At `max_task_usd`, `max_task_minutes` and `max_model_turns`, counted over all turns of a task,
    people are asked whether it goes on; the others guard one turn against hanging.
    """

    turn_minutes: int = Field(default=60, ge=1)
    idle_minutes: int = Field(default=15, ge=1)
    live_minutes: int = Field(default=15, ge=1, le=24 * 60)
    """How long a process waits for people where it cannot end meanwhile: for the call of a subagent."""
    connect_seconds: int = Field(default=60, ge=1)
    max_model_turns: int = Field(default=200, ge=1)
    max_task_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_task_minutes: int | None = Field(default=None, ge=1)
    task_text_chars: int = Field(default=100_000, ge=1)


class Web(Value):
    """Where the page listens, and the address people reach it by if that is another one."""

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8321, ge=0, le=65535)
    public_url: str = Field(default="", pattern=r"^(https?://[^\s/]+.*)?$")


class Runner(Value):
    """`pass_env`: names of environment variables that the agent's commands may see."""

    workers: int = Field(default=2, ge=1, le=256)
    pass_env: tuple[str, ...] = ()


class Model(Value):
    """The model to ask for; empty is the engine's own choice."""

    name: str = ""


class Config(Value):
    """Everything a process needs to know, and nothing secret. Survives JSON unchanged."""

    language: Literal["en", "zh", "ja"] = "en"
    workspaces: dict[str, Workspace] = Field(default_factory=dict)
    policy: Policy = Policy.default()
    people: dict[str, Person] = Field(default_factory=dict)
    limits: Limits = Limits()
    web: Web = Web()
    runner: Runner = Runner()
    model: Model = Model()
    slack: Slack = Slack()
    feishu: Feishu = Feishu()
    source: str = ""
    """The file it was read from; empty if there is none."""
    warnings: tuple[str, ...] = ()
    """What is no mistake but probably not meant, for the start-up message and `doctor`."""

    @property
    def group_keepers(self) -> tuple[str, ...]:
        """The platforms that keep approver groups for us."""
        chats = {"slack": self.slack, "feishu": self.feishu}
        return tuple(name for name, chat in chats.items() if chat.groups)

    @property
    def policy_version(self) -> str:
        """Changes whenever a rule, a route or a person does; on record with every decision."""
        rules = self.model_dump(mode="json", include={"policy", "people"})
        rules["groups"] = [self.slack.groups, self.feishu.groups]
        return hashlib.sha256(canonical(rules).encode()).hexdigest()[:VERSION_CHARS]


def load(path: Path | None, *, text: str | None = None) -> Config:
    """The configuration in a file, or the defaults without one; `text` stands in for its content.

    Raises one `FixConfiguration` for all mistakes; its details hold them as
    `mistakes=[{"line", "key", "text"}]`. Relative workspace paths are relative to the file.
    """
    if path is None and text is None:
        return Config()
    file = path or Path("countersign.toml")
    source = Source(str(file), _read(file) if text is None else text)
    raw = _parse(source)
    report = Report(source)
    people = read_people(raw, report.add)
    check_values(raw, report.add)
    approvers = with_kept_groups(raw, people, PLATFORMS)
    check_policy(raw, approvers, report.add)
    data = _as_models(raw, people, report)
    validate(data, Config, (), report)
    report.finish()
    for workspace in data.get("workspaces", {}).values():
        workspace["path"] = _absolute(workspace["path"], file)
    return Config.model_validate({**data, "source": str(file), "warnings": warnings(raw, approvers)})


def load_hook(config: Config, directory: Path) -> NeedsApproval | None:
    """The `needs_approval` function, imported from `directory`; None if none is configured.

    Raises `FixConfiguration` if it is missing, cannot be imported or is no plain function.
    """
    spec = config.policy.needs_approval
    if not spec:
        return None
    name, _, attribute = spec.partition(":")
    try:
        module = _import(name, directory)
    except FixConfiguration:
        raise
    except Exception as error:
        raise _hook_mistake(config, f"importing {name} failed: {type(error).__name__}: {error}") from error
    hook = getattr(module, attribute, None)
    if hook is None:
        raise _hook_mistake(config, f"{name} has no {attribute}")
    if not callable(hook) or inspect.iscoroutinefunction(hook):
        raise _hook_mistake(config, f"{spec} is no plain function")
    return hook  # type: ignore[no-any-return]  # somebody else's code: `policy` checks what it answers


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        hint = "Check the path and its permissions, or start without a file."
        raise FixConfiguration(f"cannot read {file}: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise FixConfiguration(f"{file}:{line}: this is not UTF-8", hint="Save the file as UTF-8.") from error


def _parse(source: Source) -> dict[str, Any]:
    try:
        return tomllib.loads(source.text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found.group(1)) if found else source.text.count("\n") + 1
        message = f"{source.file}:{line}: this is not TOML: {error}"
        raise FixConfiguration(message, hint="Correct the file and start again.", line=line) from error


def _as_models(raw: Mapping[str, Any], people: Mapping[str, Person], report: Report) -> dict[str, Any]:
    """The file's tables in the models' words."""
    data = dict(raw)
    for key in NOT_IN_FILE & data.keys():
        report.add((key,), f"there is no such key; {suggest(key, file_keys(Config))}")
        del data[key]
    if isinstance(raw.get("workspaces"), dict):
        data["workspaces"] = {n: dict(w) if isinstance(w, dict) else w for n, w in raw["workspaces"].items()}
        for name, workspace in raw["workspaces"].items():
            for server, settings in table(workspace, "mcp").items() if isinstance(workspace, dict) else ():
                validate(settings, McpServer, ("workspaces", name, "mcp", server), report)
    if isinstance(raw.get("people"), dict):
        data["people"] = {name: person.model_dump(mode="json") for name, person in people.items()}
    if isinstance(raw.get("policy"), dict):
        data["policy"] = _policy(dict(raw["policy"]))
    return data


def _policy(policy: dict[str, Any]) -> dict[str, Any]:
    """The default rules hold unless the file has a list of its own; routes alone do not end them."""
    if "route" in policy:
        policy["routes"] = policy.pop("route")
    if not {"allow", "ask", "deny"} & policy.keys():
        policy |= {"allow": list(ALLOWED_BY_DEFAULT), "ask": list(ASKED_BY_DEFAULT)}
    return policy


def _absolute(path: str, file: Path) -> str:
    """Lexically absolute: where a link points today must not be frozen into a task."""
    beside = file.expanduser().absolute().parent
    return os.path.normpath(beside / Path(path).expanduser())


def _import(name: str, directory: Path) -> ModuleType:
    """The module beside the configuration file, else an installed one."""
    file = directory.joinpath(*name.split(".")).with_suffix(".py")
    if not file.is_file():
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(directory))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(directory))
    return module


def _hook_mistake(config: Config, what: str) -> FixConfiguration:
    line = ""
    if config.source and Path(config.source).is_file():
        source = Source(config.source, _read(Path(config.source)))
        line = f":{source.lines.of(('policy', 'needs_approval'))}"
    where = f"{config.source or 'configuration'}{line}: policy.needs_approval"
    hint = 'Write "module:function" for a function (call) -> True, False or None beside the file.'
    return FixConfiguration(f"{where}: {what}", hint=hint)
