"""A reading process that dies or hangs harms nobody: what was not read is asked about."""

from __future__ import annotations

import signal

import psutil
import pytest

from agent_runner import bash_reader
from agent_runner.bash import Script, read_here
from agent_runner.matching import Call
from agent_runner.policy import Policy, judge
from tests.fakes.stack import until


def reading() -> psutil.Process:
    """The reading process of this process."""
    bash_reader.remembered.cache_clear()
    bash_reader.read("ls")
    found = [c for c in psutil.Process().children() if "bash_reader" in " ".join(c.cmdline())]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    "text", ["ls -la && FOO=1 rm x", "cat <<E\nsudo ls\nE", "echo '\udc80'", "", "a" * 60_000]
)
def test_it_says_what_the_reader_itself_says(text: str) -> None:
    """Nothing is lost on the way between the two processes."""
    assert bash_reader.read(text) == read_here(text)


def test_a_crash_is_uncertain_and_the_next_text_is_read_again() -> None:
    """The process is killed under a text: that one is asked about, later ones are read."""
    reading().send_signal(signal.SIGKILL)
    seen = bash_reader.read("pwd")  # by the dead process, or by the next one if its death was noticed
    assert seen in (read_here("pwd"), Script(text="pwd", plain=None, commands=(), uncertain=True))
    bash_reader.remembered.cache_clear()
    assert bash_reader.read("pwd") == read_here("pwd")


@pytest.mark.parametrize(("command", "effect"), [("ls -la", "ask"), ("sudo ls", "deny")])
def test_a_text_that_hangs_is_asked_about(monkeypatch: pytest.MonkeyPatch, command: str, effect: str) -> None:
    """No answer in time: not allowed by a rule that would allow it, still denied by one that denies it."""
    policy = Policy(allow=("Bash(ls:*)",), deny=("Bash(sudo *)",))
    call = Call(tool_name="Bash", tool_input={"command": command}, cwd="/srv", workspace="ops")
    warm = call.having(tool_input={"command": "true"})
    judge(policy, warm)  # the rules themselves are read, too; the call itself must not be
    process = reading()
    monkeypatch.setattr(bash_reader, "SECONDS", 0.01)
    process.send_signal(signal.SIGSTOP)
    until(lambda: process.status() == psutil.STATUS_STOPPED)
    assert judge(policy, call).effect == effect
    assert not process.is_running()
