"""The way to the webhook through the API server, for ``kubectl plimsoll``: ends with the verb. Face."""

from __future__ import annotations

import ssl
import threading
from typing import Final

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import NewConnectionError

from agent.cli.client.webhook import CONNECTIONS
from agent.core.cluster.pod import ENDED_PHASES
from agent.kube.client.api import Api
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.pod_forward import Forward
from agent.kube.objects.json_reader import Reader

WEBHOOKS: Final = "plimsoll.dev/part=webhook"
SERVICE: Final = "plimsoll-webhook"
PORT_NAME: Final = "https"
CONNECT_SECONDS: Final = 20.0
_FORBIDDEN: Final = 403


class NoWebhookError(Exception):
    """There is no way to a webhook; one line."""


class WebhookForward:
    """One webhook's pod, and connections to it."""

    def __init__(self, api: Api, credentials: Credentials, namespace: str) -> None:
        """Choose a pod; nothing is connected yet.

        Raises:
            NoWebhookError: There is none, or none that is ready.
            KubeError: The API server does not tell.
        """
        self.api: Final = api
        self.host: Final = f"{SERVICE}.{namespace}.svc"
        """The name in its certificate."""
        self._credentials, self._namespace = credentials, namespace
        self._choosing: Final = threading.Lock()
        self._forward = self._chosen()

    @property
    def way(self) -> Forward:
        """Return the way to the pod of now."""
        return self._forward

    def choose_again(self, failed: Forward) -> None:
        """Choose a pod anew, for connections that are made from now on; any thread; raises as the beginning does.

        Args:
            failed: ``way`` before the question that failed. Of several that failed on it, the first chooses: another
                choice would end the connections on which the others ask again.
        """
        with self._choosing:
            if self._forward is not failed:
                return
            chosen = self._chosen()
            failed.close()  # before anybody sees the other: what was kept of this one is known to have ended
            self._forward = chosen

    def pool(self, context: ssl.SSLContext, name: str) -> urllib3.HTTPSConnectionPool:
        """Return a pool whose connections go to the pod; TLS is the webhook's own, by the name in its certificate."""
        way = self

        class Connection(HTTPSConnection):
            """One connection, made by the forward."""

            def _new_conn(self):  # type: ignore[no-untyped-def]  # noqa: ANN202  a socket, as the library has it
                try:
                    return way._forward.connect(CONNECT_SECONDS)  # the pod of now
                except KubeError as error:
                    raise NewConnectionError(self, str(error)) from error

        pool = urllib3.HTTPSConnectionPool(
            self.host, maxsize=CONNECTIONS, ssl_context=context, server_hostname=name, assert_hostname=name
        )
        pool.ConnectionCls = Connection
        return pool

    def fault(self) -> str | None:
        """Return what went wrong on the way, in words; None = nothing that anybody told."""
        fault = self._forward.fault
        if isinstance(fault, ApiError) and fault.status == _FORBIDDEN:
            return f"no right to create pods/portforward in namespace {self._namespace}: {fault.message or fault}"
        return None if fault is None else str(fault)

    def close(self) -> None:
        """End all connections."""
        self._forward.close()

    def _chosen(self) -> Forward:
        pod, port = _ready_webhook(self.api, self._namespace)
        return Forward(self._credentials, namespace=self._namespace, pod=pod, port=port)


def _ready_webhook(api: Api, namespace: str) -> tuple[str, int]:
    """Return name and port of a pod that is ready."""
    answer = api.call("GET", f"/api/v1/namespaces/{namespace}/pods", query={"labelSelector": WEBHOOKS})
    is_there = False
    for pod in Reader(answer, "pods").items("items"):
        status = pod.child("status")
        if status.text("phase") in ENDED_PHASES or pod.child("metadata").has("deletionTimestamp"):
            continue
        is_there = True
        conditions = {item.text("type"): item.text("status") for item in status.items("conditions")}
        for container in pod.child("spec").items("containers"):
            for port in container.items("ports"):
                number = port.whole("containerPort")
                if conditions.get("Ready") == "True" and port.text("name") == PORT_NAME and number is not None:
                    return pod.child("metadata").required_text("name"), number
    if is_there:
        raise NoWebhookError(f"no webhook in namespace {namespace} is ready")
    raise NoWebhookError(
        f"no webhook is installed in namespace {namespace} (no pod with {WEBHOOKS}); allowed: --plimsoll-namespace NAME"
    )
