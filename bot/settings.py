"""What a process was told: flags, the environment as it was at the start, and the configuration.

Made once by `cli`, passed on as a value. Which names of the environment go where is decided
here: the model's key to runners only, nothing but a short list to the agent.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_runner import config as configuration
from agent_runner.config import Config, Workspace
from agent_runner.errors import FixConfiguration
from agent_runner.model import Actor
from agent_runner.policy import identify

PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""What the agent's process sees of the runner's environment; `runner.pass_env` adds to it."""

MODEL_NAMES = ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
"""Names beside `ANTHROPIC_*` that say how to reach the model."""

KEY_NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", *MODEL_NAMES)
NO_KEY = "none"
"""What is sent as the key to a model server of one's own that wants none."""


@dataclass(frozen=True)
class Settings:
    """Everything a command needs; see the functions below for what is derived."""

    config: Config
    config_path: Path | None
    state_dir: Path
    environment: Mapping[str, str]
    host: str
    port: int
    workspace_flags: tuple[str, ...] = ()

    @property
    def redis_url(self) -> str:
        """The configured store, '' for the embedded one."""
        return self.environment.get("REDIS_URL", "")

    @property
    def model_environment(self) -> dict[str, str]:
        """What tells the agent's CLI how to reach the model; empty without a key or an address."""
        names = [n for n in self.environment if n.startswith("ANTHROPIC_") or n in MODEL_NAMES]
        found = {name: self.environment[name] for name in names if self.environment[name]}
        if "ANTHROPIC_BASE_URL" in found and not any(name in found for name in KEY_NAMES):
            found["ANTHROPIC_API_KEY"] = NO_KEY
        return found

    @property
    def rehearsal(self) -> bool:
        """Whether there is no model to talk to, so that the scripted one is used."""
        return not any(name in self.model_environment for name in KEY_NAMES)

    @property
    def agent_environment(self) -> dict[str, str]:
        """What the agent's process sees of ours."""
        names = (*PASSED_ON, *self.config.runner.pass_env)
        return {name: self.environment[name] for name in names if name in self.environment}

    @property
    def token_file(self) -> Path:
        """Where the local person's token is kept, readable by them alone."""
        return self.state_dir / "token"

    @property
    def scratch(self) -> Path:
        """Where running turns keep their files."""
        return self.state_dir / "turns"

    def local_person(self) -> Actor:
        """The person at this machine, as the web page knows them."""
        try:
            name = getpass.getuser()
        except (OSError, KeyError):  # no such user id on this machine, as in some containers
            name = "local"
        return Actor(
            platform="web",
            user_id="local",
            name=name,
            person=identify(self.config.people, "web", "local"),
        )


def read(
    *,
    config_path: Path | None,
    state_dir: Path,
    environment: Mapping[str, str],
    host: str | None = None,
    port: int | None = None,
    workspaces: tuple[str, ...] = (),
) -> Settings:
    """Reads the configuration and applies the flags; raises `FixConfiguration` with what is wrong."""
    config = configuration.load(config_path)
    added = dict(map(_workspace, workspaces))
    if not config.workspaces and not added:
        default = state_dir / "workspace"
        default.mkdir(parents=True, exist_ok=True)
        added = {"workspace": Workspace(path=str(default.resolve()))}
    config = config.having(workspaces={**added, **config.workspaces, **added})
    return Settings(
        config=config,
        config_path=config_path,
        state_dir=state_dir.resolve(),
        environment=environment,
        host=host or config.web.host,
        port=config.web.port if port is None else port,
        workspace_flags=workspaces,
    )


def _workspace(flag: str) -> tuple[str, Workspace]:
    """`PATH`, named after its last part, or `NAME=PATH`."""
    name, given, path = flag.partition("=")
    directory = Path(path if given else flag).expanduser().resolve()
    if not directory.is_dir():
        raise FixConfiguration(
            f"The workspace {directory} is not a directory.", hint="Create it, or name another one."
        )
    if not given:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", directory.name).strip("-") or "workspace"
    return name, Workspace(path=str(directory))
