"""Who is connected, so that nobody keeps others out: for a newcomer an idle connection of the greediest goes. Webhook.

A connection is counted from its acceptance on, before TLS begins: half-open ones would use up the open files otherwise.
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from agent.webhook.http.address_shares import HANDSHAKE_SECONDS, MOST_OWED_SECONDS, Shares

MOST_REFUSED_AT_ONCE: Final = 100
"""Connections closed before the event loop has its turn again."""


class AcceptedConnection(socket.socket):
    """A connection that tells when it is closed."""

    address: str = ""
    hang_up: Callable[[], None]
    """Ends it now; a TLS transport's, once there is one."""
    on_close: Callable[[AcceptedConnection], None] | None = None

    def close(self) -> None:
        """Close it, and tell."""
        on_close, self.on_close = self.on_close, None
        self.__dict__.pop("hang_up", None)  # its transport holds it, with a buffer of 256 kB: no circle is to be left
        if on_close is not None:
            on_close(self)
        super().close()

    def cut(self) -> None:
        """Signal its end to whoever reads it."""
        with contextlib.suppress(OSError):  # its other side was first
            self.shutdown(socket.SHUT_RDWR)


class _OfOne:
    """Of one address; those that were so for longest stand first."""

    def __init__(self) -> None:
        self.idle: OrderedDict[AcceptedConnection, None] = OrderedDict()
        """Without a request under way."""
        self.busy: OrderedDict[AcceptedConnection, None] = OrderedDict()
        """With one, or before the first: for seconds, by the bounds of time."""

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)


class Connections:
    """The open connections by address, with a bound on each address and on all. Used by the event loop alone."""

    def __init__(self, most: int, most_idle_of_one: int, shares: Shares) -> None:
        """Begin with none; ``shares`` decides who may begin TLS: the dearest thing that a stranger can ask for."""
        self._most, self._most_idle, self._shares = most, most_idle_of_one, shares
        self._by_address: dict[str, _OfOne] = {}
        self._by_descriptor: dict[int, AcceptedConnection] = {}
        self._count = 0
        self.closed: Final = Counter({"idle": 0, "greedy": 0, "share": 0})
        """Connections that were closed, by why: idle beyond the bound of one address; to make room; not let in."""

    def __len__(self) -> int:
        return self._count

    def of(self, address: str) -> int:
        """Count those of an address."""
        own = self._by_address.get(address)
        return 0 if own is None else len(own)

    def let_in(self, connection: AcceptedConnection, address: str) -> bool:
        """Take a new connection; False = it is to be closed at once."""
        if self._shares.owed_seconds(address) >= MOST_OWED_SECONDS / 2:
            self.closed["share"] += 1
            return False
        if self._count >= self._most and not self._makes_room(address):
            self.closed["greedy"] += 1
            return False
        self._shares.charge(address, HANDSHAKE_SECONDS)
        connection.address, connection.hang_up, connection.on_close = address, connection.cut, self._forget
        self._by_address.setdefault(address, _OfOne()).busy[connection] = None
        self._by_descriptor[connection.fileno()] = connection
        self._count += 1
        return True

    def find(self, descriptor: int) -> AcceptedConnection | None:
        """Find an open connection."""
        return self._by_descriptor.get(descriptor)

    def busy(self, connection: AcceptedConnection) -> None:
        """Record that a request begins."""
        own = self._by_address.get(connection.address)
        if own is not None and connection in own.idle:
            del own.idle[connection]
            own.busy[connection] = None

    def idle(self, connection: AcceptedConnection) -> None:
        """Record that its request was answered."""
        own = self._by_address.get(connection.address)
        if own is None or connection not in own.busy:
            return
        del own.busy[connection]
        own.idle[connection] = None
        if len(own.idle) > self._most_idle:
            self._end(next(iter(own.idle)), "idle")

    def _makes_room(self, address: str) -> bool:
        greediest = max(self._by_address.values(), key=len)
        own = self._by_address.get(address)
        if own is not None and len(own) >= len(greediest):
            greediest = own
            if not own.idle:
                return False
        self._end(next(iter(greediest.idle or greediest.busy)), "greedy")
        return True

    def _end(self, connection: AcceptedConnection, why: str) -> None:
        self.closed[why] += 1
        self._take_out(connection)
        connection.hang_up()

    def _take_out(self, connection: AcceptedConnection) -> None:
        own = self._by_address.get(connection.address)
        if own is None or (connection not in own.idle and connection not in own.busy):
            return
        own.idle.pop(connection, None)
        own.busy.pop(connection, None)
        self._count -= 1
        if not len(own):
            del self._by_address[connection.address]

    def _forget(self, connection: AcceptedConnection) -> None:
        self._take_out(connection)
        self._by_descriptor.pop(connection.fileno(), None)


class GuardedListener(socket.socket):
    """A listening socket that hands out only whom ``Connections`` lets in; ends with the one that it was made of."""

    connections: Connections

    def __init__(self, listener: socket.socket, connections: Connections) -> None:
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.dup().detach())
        self._original: Final = listener
        self.connections = connections

    def accept(self) -> tuple[socket.socket, object]:
        """Return the next connection that is let in, and its other side's address."""
        for _ in range(MOST_REFUSED_AT_ONCE):
            client, address = super().accept()
            connection = AcceptedConnection(client.family, client.type, client.proto, fileno=client.detach())
            if self.connections.let_in(connection, str(address[0])):
                return connection, address
            connection.close()
        raise BlockingIOError

    def close(self) -> None:
        """Stop listening."""
        self._original.close()
        super().close()
