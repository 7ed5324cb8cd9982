"""The server's TLS settings, whose certificate changes while it serves.

``load_cert_chain`` on a context in use would race with handshakes in another thread: OpenSSL copies the certificate out
of the context without a lock. So there is a context per certificate, never changed, and one in front without any that
hands each new connection to the one of the moment. Connections that are open stay as they are.
"""

from __future__ import annotations

import os
import ssl

from agent.webhook.certificates.material import MaterialError

_PROTOCOLS = ("http/1.1",)


class ServedTls:
    """One context for a server, and the certificate behind it; ``serve`` may come from any thread."""

    def __init__(self) -> None:
        self._current: ssl.SSLContext | None = None
        self.context = _bare_context()
        """For the server. Handshakes fail until there is a certificate."""
        self.context.sni_callback = self._choose

    def serve(self, chain_pem: bytes, key_pem: bytes) -> None:
        """Serve a certificate from the next connection on.

        Raises:
            MaterialError: The TLS library does not take it; what was served before still is.
        """
        context = _bare_context()
        # The library reads files only. One in memory: the key never reaches a disk, and the root may be read-only.
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(chain_pem + b"\n" + key_pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "reason", None) or type(error).__name__
            raise MaterialError(f"the TLS library does not take the certificate: {reason}") from error
        finally:
            os.close(descriptor)
        self._current = context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Choose when a client begins; called for clients that name no server too."""
        current = self._current
        if current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = current
        return None


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(_PROTOCOLS))
    return context


def _no_password() -> str:
    """Keep the library from asking at the terminal for the password of an encrypted key."""
    return ""
