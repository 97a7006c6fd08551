"""The rules of the layout, checked, because stated rules decay.

Every exception stands here with its reason; an exception that is no longer used fails as well.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agent_runner", "cards", "bot")
"""Bottom of the street first; `cards` and `agent_runner` do not know `bot`, and so on."""

SDK_HOMES: dict[str, dict[str, str]] = {
    "claude_agent_sdk": {
        "agent_runner/engine.py": "runs the agent",
        "agent_runner/engine_setup.py": "what the agent is started with",
        "agent_runner/transcripts.py": "implements its SessionStore, with its types",
    },
    "redis": {
        "agent_runner/store.py": "the aggregates",
        "agent_runner/people_register.py": "the single facts about people",
        "agent_runner/registers.py": "the single facts beside them, and the change feed",
        "agent_runner/transcripts.py": "the agent's sessions",
        "agent_runner/queues.py": "hands its pipeline to RQ",
        "bot/embedded.py": "asks the server it started whether it answers",
        "bot/storage_check.py": "reads the server's settings for `doctor` and the start",
    },
    "rq": {
        "agent_runner/queues.py": "the bot's side: puts turns on queues and looks after lost ones",
        "agent_runner/jobs.py": "the runner's side: workers",
    },
    "starlette": {
        "bot/web": "the pages and the API",
        "bot/doors.py": "the type of what answers signed calls",
        "bot/background.py": "reads the bodies of those calls",
        "bot/slack": "takes Slack's signed calls",
        "bot/feishu": "takes Feishu's signed calls",
        "agent_runner/messages_api.py": "the scripted model",
    },
    "slack_bolt": {"bot/slack/app.py": "Slack's wire"},
    "slack_sdk": {
        "bot/slack/api.py": "Slack's Web API",
        "bot/slack/app.py": "Slack's sockets",
    },
    "aiohttp": {
        "bot/slack/api.py": "the connections of Slack's Web API",
        "bot/slack/doctor.py": "tries a socket",
    },
    "uvicorn": {
        "bot/web/server.py": "serves the page",
        "bot/serve.py": "is told when that server is up, and ends it",
        "agent_runner/messages_api.py": "serves the scripted model",
    },
    "jinja2": {"bot/web": "the pages"},
    "markupsafe": {
        "bot/web": "the pages",
        "cards/html.py": "escapes for HTML",
        "cards/web.py": "draws a card as HTML",
    },
    "click": {
        "bot/cli.py": "the commands",
        "bot/policy_commands.py": "the commands about a policy",
        "bot/cli_people.py": "the commands about who is away",
        "bot/terminal.py": "talks in the terminal",
    },
    "httpx": {
        "bot/terminal.py": "a client of our own API",
        "bot/feishu/api.py": "Feishu's API, without what its SDK does to the loop",
        "bot/feishu/connection.py": "one client for all restarts of the long connection",
        "bot/feishu/dial.py": "asks where it is",
        "bot/feishu/doctor.py": "tries the long connection",
    },
    "lark_oapi": {"bot/feishu/frames.py": "the protocol of the long connection"},
    "websockets": {
        "bot/feishu/connection.py": "the long connection",
        "bot/feishu/dial.py": "opens it",
        "bot/feishu/doctor.py": "tries it",
    },
    "cryptography": {"bot/feishu/webhook.py": "opens what Feishu encrypted"},
    "tree_sitter": {
        "agent_runner/bash.py": "parses shell commands",
        "agent_runner/bash_words.py": "reads the words of a parsed command",
    },
    "tree_sitter_bash": {"agent_runner/bash.py": "the grammar"},
    "psutil": {
        "agent_runner/leases.py": "whether a lease's owner lives",
        "agent_runner/processes.py": "ends what a dead worker left running",
        "agent_runner/queues.py": "whether a lease's owner lives",
        "bot/redis_process.py": "whether the embedded server's owner lives",
    },
    "pydantic": {
        "agent_runner": "values",
        "cards": "values",
        "bot/reply.py": "a reply is a value",
        "bot/commands.py": "commands are values",
    },
    "pydantic_core": {"agent_runner/config_types.py": "the type of pydantic's error details"},
}
"""Third-party package -> the files or folders that may import it, each with what for."""

ENVIRONMENT: dict[str, str] = {
    "bot/cli.py": "the one reader: what it reads it hands on as values",
    "agent_runner/launcher.py": "a script of its own between worker and agent: its environment is its input",
    "agent_runner/jobs.py": "writes only: prunes what the agent's process would inherit (engine fact E36)",
}

PLATFORM_HOMES: dict[str, str] = {
    "bot/web/": "its folder",
    "bot/slack/": "its folder",
    "bot/feishu/": "its folder",
    "cards/web.py": "its renderer",
    "cards/slack": "its renderer",
    "cards/feishu": "its renderer",
    "cards/wording/": "a sentence that one product alone needs has its name in the key",
    "bot/platforms.py": "the table",
    "agent_runner/config": "config",
}
PLATFORM_EXCEPTIONS: dict[str, str] = {
    "agent_runner/registers.py": "the page has no other product that keeps its posts: they lie in Redis",
    "bot/settings.py": "the local user of `up` is a user of the page",
    "bot/cli.py": "the token command makes users of the page",
}

MOST_LINES = 450
LOOK_TWICE = 300
MOST_SENTENCES = 700
"""Lines of a file that holds sentences and no logic."""
LONG: dict[str, tuple[int, str]] = {
    "agent_runner/engine.py": (MOST_LINES, "one turn, every workaround next to the fact that it answers"),
    "agent_runner/store.py": (MOST_LINES, "keys, codec and transaction change together"),
    "agent_runner/lifecycle.py": (MOST_LINES, "one function for each event, and what they share"),
    "agent_runner/model.py": (500, "values only, no logic to split off"),
    "agent_runner/registers.py": (MOST_LINES, "one short method for each fact, all of one kind"),
    "agent_runner/turns.py": (MOST_LINES, "claim, run and commit of one turn, with its watch"),
    "agent_runner/transcripts.py": (MOST_LINES, "one implementation of the SDK's SessionStore"),
    "bot/cli.py": (MOST_LINES, "one function for each command: options, and a call"),
    "bot/courier.py": (470, "when and what to deliver are one loop"),
    "bot/frontdesk.py": (MOST_LINES, "the order in which words and presses are understood is one decision"),
    "bot/handle.py": (MOST_LINES, "one gate for every way in"),
    "bot/web/inbound.py": (MOST_LINES, "every payload of the page and the API is read here"),
    "bot/web/words.py": (MOST_LINES, "sentences in three languages, no logic"),
    "bot/feishu/api.py": (MOST_LINES, "one method for each call of Feishu's API"),
    "bot/web/api.py": (MOST_LINES, "one function for each call of the API"),
    "cards/compose.py": (MOST_LINES, "all structure of one request's card"),
    "cards/replies.py": (MOST_LINES, "what words and forms mean is one decision"),
    "cards/model.py": (MOST_LINES, "the closed set of elements, values only"),
    "cards/slack_draw.py": (MOST_LINES, "one function for each kind of element"),
    "cards/web.py": (MOST_LINES, "one function for each kind of element"),
    "cards/wording/en.py": (MOST_SENTENCES, "sentences, no logic"),
    "cards/wording/ja.py": (MOST_SENTENCES, "sentences, no logic"),
    "cards/wording/zh.py": (MOST_SENTENCES, "sentences, no logic"),
}
"""Modules beyond `LOOK_TWICE` lines that were looked at twice: ceiling, and why they stay whole."""


@cache
def sources(*packages: str) -> tuple[str, ...]:
    """The Python files of these packages, relative to the root."""
    found = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


@cache
def tree(file: str) -> ast.Module:
    """A file, parsed."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@cache
def imports(file: str) -> tuple[str, ...]:
    """Dotted names of everything a file imports, inside functions and type-checking blocks as well.

    `from a import b` counts as `a.b`: whether b is a module or a name in one makes no difference.
    """
    names: list[str] = []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = file.removesuffix(".py").split("/")[: -node.level] if node.level else []
            base = ".".join([*package, *filter(None, [node.module])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    return tuple(names)


def within(file: str, place: str) -> bool:
    """Whether a file is that place, or below it."""
    return file == place or file.startswith(f"{place.removesuffix('/')}/")


def tracked() -> list[str]:
    """Every file that belongs to the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git repository: nothing tells tracked files from others")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


# --- the street --------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_runs_up_the_street(package: str) -> None:
    """The street is bot -> cards -> agent_runner, never the other way, and never into the tests."""
    above = (*PACKAGES[PACKAGES.index(package) + 1 :], "tests", "benchmarks")
    assert [
        (file, name) for file in sources(package) for name in imports(file) if name.split(".")[0] in above
    ] == []


def test_cards_know_the_values_and_nothing_else_of_the_runner() -> None:
    """What draws and reads cards depends on `agent_runner.model` alone."""
    assert [
        (file, name)
        for file in sources("cards")
        for name in imports(file)
        if name.split(".")[0] == "agent_runner" and not f"{name}.".startswith("agent_runner.model.")
    ] == []


def test_platforms_do_not_know_each_other() -> None:
    """Each folder stands alone: a platform can be added or taken out without touching another."""
    folders = ("web", "slack", "feishu")
    assert [
        (file, name)
        for mine in folders
        for file in sources("bot")
        if within(file, f"bot/{mine}")
        for name in imports(file)
        for other in folders
        if other != mine and f"{name}.".startswith(f"bot.{other}.")
    ] == []


# --- third-party packages ----------------------------------------------------------------------


def third_party(*packages: str) -> Iterator[tuple[str, str]]:
    """(top-level name, file) of each import of somebody else's package."""
    ours = {*PACKAGES, "tests", "benchmarks"}
    for file in sources(*packages):
        for name in sorted({name.split(".")[0] for name in imports(file)}):
            if name not in ours and name not in sys.stdlib_module_names:
                yield name, file


def test_each_third_party_package_has_its_homes() -> None:
    """An import elsewhere needs a reason here first."""
    assert [
        (name, file)
        for name, file in third_party(*PACKAGES)
        if not any(within(file, home) for home in SDK_HOMES.get(name, {}))
    ] == []


def test_no_home_is_empty() -> None:
    """A home that nobody uses any more is taken off the list."""
    used = set(third_party(*PACKAGES))
    assert [
        (name, home)
        for name, homes in SDK_HOMES.items()
        for home in homes
        if not any(package == name and within(file, home) for package, file in used)
    ] == []


def test_every_import_is_declared() -> None:
    """What is imported is asked for in pyproject.toml, not left to another package to bring along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runtime = _names(project["dependencies"])
    testing = runtime | _names(project["optional-dependencies"]["test"])
    brought_along = {
        "pydantic_core": "pydantic",  # pydantic pins its own core exactly
        "Crypto": "pycryptodome",  # its name is its own
    }

    def missing(declared: set[str], *packages: str) -> set[str]:
        found = {name for name, _ in third_party(*packages)}
        return {name for name in found if _canonical(brought_along.get(name, name)) not in declared}

    assert missing(runtime, *PACKAGES) == set()
    assert missing(testing, "tests", "benchmarks") == set()


def _names(requirements: list[str]) -> set[str]:
    return {_canonical(re.split(r"[\s\[<>=!~;]", text, maxsplit=1)[0]) for text in requirements}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- the environment ---------------------------------------------------------------------------

_ENVIRONMENT_NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def environment_uses(file: str) -> list[str]:
    """How a file touches the process environment: `environ.get`, `getenv`, ..."""
    parents = {child: node for node in ast.walk(tree(file)) for child in ast.iter_child_nodes(node)}
    uses = [
        name.removeprefix("os.") for name in imports(file) if name.removeprefix("os.") in _ENVIRONMENT_NAMES
    ]
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute) and node.attr in _ENVIRONMENT_NAMES:
            parent = parents.get(node)
            uses.append(f"{node.attr}.{parent.attr}" if isinstance(parent, ast.Attribute) else node.attr)
    return uses


def test_the_environment_is_read_in_one_place() -> None:
    """Everybody else gets values; a secret has one way in."""
    assert {file for file in sources(*PACKAGES) if environment_uses(file)} == set(ENVIRONMENT)
    assert set(environment_uses("agent_runner/jobs.py")) == {"environ.clear", "environ.update"}


# --- platform names ----------------------------------------------------------------------------


def names_a_platform(file: str) -> list[str]:
    """Texts in a file (docstrings aside) that spell a platform: `slack`, `web:mei`, `post to Feishu`.

    `web` is an ordinary word in a sentence, so it counts only alone or before a colon.
    """
    docstrings = {
        id(node.value)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    pattern = re.compile(r"\b(slack|feishu|lark)\b|\Aweb(?=\Z|:)", re.IGNORECASE)
    return [
        node.value
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and pattern.search(node.value)
    ]


def test_platforms_are_spelled_only_at_home() -> None:
    """A new platform is a folder, a renderer, a row in the table and a section of the configuration."""
    spelled = {
        file
        for file in sources(*PACKAGES)
        if names_a_platform(file) and not any(file.startswith(home) for home in PLATFORM_HOMES)
    }
    assert spelled == set(PLATFORM_EXCEPTIONS)


# --- sizes -------------------------------------------------------------------------------------


def lines(file: str) -> int:
    """How long a file is."""
    return len((ROOT / file).read_text(encoding="utf-8").splitlines())


def test_no_module_is_too_long() -> None:
    """Beyond 300 lines a module needs a reason, beyond its ceiling it is split."""
    sizes = {file: lines(file) for file in sources(*PACKAGES)}
    long = {file: size for file, size in sizes.items() if size > LOOK_TWICE}
    assert {file: size for file, size in long.items() if size > LONG.get(file, (LOOK_TWICE, ""))[0]} == {}
    assert set(LONG) - set(long) == set(), "no longer long: take it off the list"


# --- what must not be in a file ----------------------------------------------------------------

_MACHINE = re.compile(
    r"(?<![\w.~{}$/-])/(?:root|work|builds|workspace)/[A-Za-z_]"  # where somebody builds
    r"|https?://[^\s\"')]*(?:pypi|npmjs|artifactory|nexus|jfrog|pythonhosted|devpi|verdaccio|goproxy)"
    r"|--(?:extra-)?index-url|--trusted-host",
    re.IGNORECASE,
)


def test_no_file_names_one_machine_or_a_registry() -> None:
    """The repository works anywhere, with whatever registry the machine is set up for."""
    found = []
    for name in tracked():
        if name == "tests/test_architecture.py":
            continue  # the pattern itself
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # an image
        found += [(name, match[0]) for match in _MACHINE.finditer(text)]
        found += [(name, str(ROOT))] if f"{ROOT}/" in text else []
    assert found == []


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("cd /builds/ops", True),
        ("--index-url https://example.org", True),
        ("https://pypi.org/simple", True),
        ('path = "~/ops"', False),
        ("/srv/ops", False),
        ("https://example.org/builds/x", False),
        ("docs/builds/plan", False),
    ],
)
def test_the_pattern_catches_what_it_should(text: str, caught: bool) -> None:
    """A check that cannot fail checks nothing."""
    assert bool(_MACHINE.search(text)) is caught
