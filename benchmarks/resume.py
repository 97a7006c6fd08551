"""How long people wait: click to the approved tool's start, and click to the answer.

Prints ratios against a bare scripted `ClaudeSDKClient` resume of the same run, because seconds
depend on the machine. Run: `python -m benchmarks.resume [rounds]`
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server

from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Request, Text, ToolUse
from tests.fakes.stack import Stack, until

STAMP = "date +%s.%N > stamp.txt"


def model(request: Request) -> list[Any]:
    """Makes one call that writes down when it started."""
    if request.auxiliary or request.tool_uses_since_prompt:
        return [Text("The end.")]
    return [ToolUse(request.fresh_id(), "Bash", {"command": STAMP})]


def bare(folder: Path, environment: dict[str, str]) -> float:
    """Seconds from the decision to resume to the tool's start, with nothing but the SDK."""
    folder.mkdir()

    async def run() -> float:
        verdict = ["defer"]

        async def hook(_data: Any, _id: str | None, _context: Any) -> dict[str, Any]:
            name = {"hookEventName": "PreToolUse", "permissionDecision": verdict[0]}
            return {"hookSpecificOutput": name}

        def options(**more: Any) -> ClaudeAgentOptions:
            return ClaudeAgentOptions(
                cwd=folder,
                hooks={"PreToolUse": [HookMatcher(hooks=[hook])]},  # type: ignore[list-item]  # the SDK's union
                mcp_servers={"m": create_sdk_mcp_server("m", tools=[])},
                env={**environment, "CLAUDE_CONFIG_DIR": str(folder / ".config")},
                setting_sources=[],
                **more,
            )

        async with ClaudeSDKClient(options()) as client:
            await client.query("go")
            session = [m async for m in client.receive_response()][-1].session_id  # type: ignore[union-attr]  # the last is the result
        verdict[0] = "allow"
        clicked = time.time()
        async with ClaudeSDKClient(options(resume=session)) as client:
            async for _ in client.receive_response():
                pass
        return float((folder / "stamp.txt").read_text()) - clicked

    return asyncio.run(run())


def ours(stack: Stack) -> tuple[float, float]:
    """Seconds from the click to the tool's start, and to the answer to the click."""
    stamp = stack.workspace / "stamp.txt"
    stamp.unlink(missing_ok=True)
    task_id = stack.ask("go")
    inquiry = stack.pending(task_id)
    with stack.http() as http:
        http.get("/healthz")
        clicked, begun = time.time(), time.perf_counter()
        http.post(f"/api/inquiries/{inquiry['id']}/decision", json={"verdict": "approve"})
        answered = time.perf_counter() - begun
    stack.until_state(task_id, "done")
    return float(stamp.read_text()) - clicked, answered


def clicks(stack: Stack, count: int) -> list[float]:
    """Seconds to the answer of each of `count` clicks, one after another."""
    tasks = [stack.ask("go") for _ in range(count)]
    inquiries = [stack.pending(task_id) for task_id in tasks]
    taken = []
    with stack.http() as http:
        http.get("/healthz")
        for inquiry in inquiries:
            begun = time.perf_counter()
            body = {"verdict": "reject", "reason": "benchmark"}
            http.post(f"/api/inquiries/{inquiry['id']}/decision", json=body)
            taken.append(time.perf_counter() - begun)
    for task_id in tasks:
        stack.until_state(task_id, "done")
    return taken


def processes_while_waiting(stack: Stack) -> int:
    """How many agent processes are alive while a task waits for a person."""
    inquiry = stack.pending(stack.ask("go"))
    assert stack.process is not None

    def agents() -> list[str]:
        family = psutil.Process(stack.process.pid).children(recursive=True)  # type: ignore[union-attr]  # asserted above
        return [p.name() for p in family if "claude" in p.name()]

    until(lambda: not agents())
    count = len(agents())
    stack.decide(inquiry, "reject", reason="benchmark")
    return count


def main() -> None:
    """Prints the report."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as name, MessagesServer(model) as server:
        folder = Path(name)
        begun = time.perf_counter()
        with Stack(folder, model_url=server.url) as stack:
            usable = time.perf_counter() - begun
            environment = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-not-a-key"}
            without = [bare(folder / f"bare-{i}", environment) for i in range(rounds)]
            pairs = [ours(stack) for _ in range(rounds)]
            answers = sorted([a for _, a in pairs] + clicks(stack, 50))
            waiting = processes_while_waiting(stack)
    bare_median, our_median = statistics.median(without), statistics.median(s for s, _ in pairs)
    print(f"click to tool start   {our_median:.2f} s, bare resume {bare_median:.2f} s")
    print(f"  ratio               {our_median / bare_median:.2f}   (goal: at most 1.3)")
    p99 = answers[min(len(answers) - 1, int(len(answers) * 0.99))]
    print(f"click answered        p50 {statistics.median(answers) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    print(f"agent processes of a waiting task   {waiting}")
    print(f"`up` usable after     {usable:.1f} s")


if __name__ == "__main__":
    main()
