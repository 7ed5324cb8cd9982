"""The webhook of the day: away and back under the same address, and with another certificate."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.cluster.certificates import KeyPair
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import free_ports
from tests.cluster.webhook_process import SERVED_AS, SERVED_NAMES, WebhookProcess, webhook_started
from tests.soak.agent_lives import sample_of
from tests.soak.flatness import Sample

_ADMISSIONS: Final = re.compile(r'^plimsoll_webhook_requests_total\{result="(\w+)"\} (\S+)$', re.M)
SETTINGS: Final = ("recommend.policy=cruise", "act.mode=enforce", "plan.minAgeSeconds=60")
"""The last: new pods are sized by the history of a minute, where it is an hour."""


class WebhookLives:
    """See the module's docstring; a context manager. One thread."""

    def __init__(self, plane: ControlPlane, folder: Path, kubeconfig: Path, *, began: float) -> None:
        self._plane, self._folder, self._kubeconfig, self.began = plane, folder, kubeconfig, began
        (self.port,) = free_ports(1, "127.0.0.1")
        self._served = folder / "served"
        """A link to the folder with certificate and key, as a mounted Secret has one."""
        self._certificates = 0
        self._stack = contextlib.ExitStack()
        self._hook: WebhookProcess | None = None
        self._started = 0.0
        self.lives: list[list[Sample]] = []
        self.admissions: Counter[str] = Counter()
        """By how they came out, of all lives."""
        self.rotate()

    @property
    def database(self) -> Path:
        """The file with all that it knows."""
        return self._folder / "webhook.db"

    @property
    def log(self) -> Path:
        """Of all its lives."""
        return self._folder / "webhook.log"

    @property
    def hook(self) -> WebhookProcess:
        """The running one."""
        assert self._hook is not None
        return self._hook

    def start(self) -> None:
        """Start it; it is not waited for."""
        pair = KeyPair(certificate=self._served / "tls.crt", key=self._served / "tls.key")
        words = [f"--set={setting}" for setting in SETTINGS]
        started = webhook_started(
            self._plane, self._folder, kubeconfig=self._kubeconfig, arguments=words, port=self.port, pair=pair
        )
        self._hook = self._stack.enter_context(started)
        self._started = time.monotonic()
        self.lives.append([])

    def end(self) -> None:
        """End it in order, and take over what it counted."""
        if self._hook is not None:
            self._count(self._hook)
        self._stack.close()
        self._hook = None

    def rotate(self) -> None:
        """Put another certificate of the same authority into its folder, at once with its key."""
        self._certificates += 1
        signed = self._plane.serving_certificate(f"{SERVED_AS}-{self._certificates}", SERVED_NAMES)
        folder, link = self._folder / f"certificate-{self._certificates}", self._folder / "served.new"
        folder.mkdir()
        shutil.copyfile(signed.certificate, folder / "tls.crt")
        shutil.copyfile(signed.key, folder / "tls.key")
        link.symlink_to(folder.name)
        link.rename(self._served)

    def is_served(self) -> bool:
        """Return whether the newest certificate is what clients are shown."""
        return self.hook.certificate() == (self._served / "tls.crt").read_text()

    def sample(self) -> None:
        """Take down its memory and descriptors."""
        if self._hook is not None:
            now = time.monotonic()
            taken = sample_of(self._hook.process.pid, now - self.began, now - self._started)
            if taken is not None:
                self.lives[-1].append(taken)

    def _count(self, hook: WebhookProcess) -> None:
        try:
            page = hook.get("/metrics").body.decode()
        except OSError:  # killed, or not ready yet: it counted nothing that can be had
            return
        for result, number in _ADMISSIONS.findall(page):
            self.admissions[result] += int(float(number))

    def __enter__(self) -> WebhookLives:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
