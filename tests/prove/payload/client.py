"""The server's client in a pod: requests at moments that were drawn beforehand. ``python3 -I -S client.py PORT``.

/control/arrivals has the moments, seconds from /control/go on (JSON); what each answer took, from the moment its
request was to be sent, goes to standard output in lines of JSON. So a server that is slow makes nobody ask less.
"""

import json
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path

CONTROL = Path("/control")
POLL_SECONDS = 0.2
LINE = 50
"""Answers told in one line."""


def connected(port: int) -> socket.socket:
    """Return a connection, as soon as somebody listens."""
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(POLL_SECONDS)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def main() -> None:
    """Wait for the beginning, ask, tell."""
    server = connected(int(sys.argv[1]))
    while not (CONTROL / "go").exists():
        time.sleep(POLL_SECONDS)
    moments = deque(json.loads((CONTROL / "arrivals").read_text()))
    begun = time.monotonic()
    waiting: deque[float] = deque()
    answered: list[tuple[float, float]] = []
    while moments or waiting:
        now = time.monotonic() - begun
        while moments and moments[0] <= now:
            waiting.append(moments.popleft())
            server.sendall(b"?")
        timeout = max(0.0, moments[0] - now) if moments else None
        ready, _, _ = select.select([server], [], [], timeout)
        if ready:
            answers = server.recv(64)
            if not answers:
                break
            now = time.monotonic() - begun
            answered += [(sent, now - sent) for sent in (waiting.popleft() for _ in answers)]
        if len(answered) >= LINE or (answered and not moments and not waiting):
            print(json.dumps({"event": "answers", "answers": answered}), flush=True)
            answered = []
    print(json.dumps({"event": "ended", "unanswered": len(waiting)}), flush=True)
    while True:
        time.sleep(60.0)


main()
