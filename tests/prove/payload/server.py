"""A server in a pod: each request costs so much CPU time. ``python3 -I -S server.py PORT SECONDS``.

A request is one byte, its answer too. Runs under the node's own Python, on the standard library alone.
"""

import socket
import sys
import time


def main() -> None:
    """Serve one connection after the other."""
    port, cpu_seconds = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server(("127.0.0.1", port)) as listening:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                while connection.recv(1):
                    used_up = time.process_time() + cpu_seconds
                    while time.process_time() < used_up:
                        pass
                    connection.sendall(b"!")


main()
