"""When the event loop says that it has something to do, and when that it waits."""

from __future__ import annotations

import asyncio
import time

from agent.webhook.http.tls_server import LoopStateSelector


def test_the_loop_tells_when_it_waits_and_when_it_has_something_to_do() -> None:
    events: list[bool | str] = []

    def await_its_wait() -> None:
        until = time.monotonic() + 60.0
        while False not in events:
            assert time.monotonic() < until
            time.sleep(0.001)

    async def work() -> None:
        events.append("begun")
        await asyncio.sleep(0)  # what is due at once is no wait
        events.append("gone on")
        # Until it waits, and by nothing that is due in time: a busy machine keeps it from beginning to wait.
        await asyncio.to_thread(await_its_wait)
        events.append("ended")

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(LoopStateSelector(events.append))) as runner:
        runner.run(work())
    assert events[:5] == ["begun", "gone on", False, True, "ended"]
