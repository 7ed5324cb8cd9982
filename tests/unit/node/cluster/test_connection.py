from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.kube.client import credentials
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import CredentialsError
from agent.kube.watch.reflector import pace_within
from agent.node.cluster import connection as connecting
from agent.node.cluster.connection import connect, credentials_of
from agent.settings import ApiChoice, KubernetesSettings, Settings

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: it, user: {token: secret}}]
"""
POD = Credentials(server="https://10.0.0.1:443", origin="service account", token="x")  # noqa: S106  of nobody


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return path


def settings(
    api: ApiChoice = ApiChoice.AUTO, *, kubeconfig: Path | None = None, pods_file: Path | None = None
) -> Settings:
    return replace(Settings(), kubernetes=KubernetesSettings(api=api, kubeconfig=kubeconfig), pods_file=pods_file)


@pytest.mark.parametrize("is_in_pod", [True, False])
@pytest.mark.parametrize("has_kubeconfig", [True, False])
@pytest.mark.parametrize("has_pods_file", [True, False])
@pytest.mark.parametrize("api", list(ApiChoice))
def test_who_is_asked(
    api: ApiChoice,
    has_pods_file: bool,
    has_kubeconfig: bool,
    is_in_pod: bool,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "in_cluster", lambda: POD if is_in_pod else None)
    chosen = settings(
        api,
        kubeconfig=kubeconfig if has_kubeconfig else None,
        pods_file=Path("pods.json") if has_pods_file else None,
    )
    if api is ApiChoice.OFF or (api is ApiChoice.AUTO and has_pods_file):
        assert credentials_of(chosen) is None
    elif has_kubeconfig:  # it wins over the pod's own
        api_credentials = credentials_of(chosen)
        assert api_credentials is not None
        assert api_credentials.server == "https://127.0.0.1:6443"
    elif is_in_pod:
        assert credentials_of(chosen) is POD
    elif api is ApiChoice.ON:
        with pytest.raises(CredentialsError, match="no pod's service account here and no kubeconfig"):
            credentials_of(chosen)
    else:
        assert credentials_of(chosen) is None


def test_outside_a_cluster_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(credentials.HOST_VARIABLE, raising=False)
    assert connect(settings(), "worker-7") is None


def test_kubeconfig_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"kubeconfig .*absent: cannot be read"):
        connect(settings(kubeconfig=tmp_path / "absent"), "worker-7")


def test_view_is_of_this_node_and_nothing_is_asked_yet(kubeconfig: Path) -> None:
    connected = connect(settings(kubeconfig=kubeconfig), "worker-7")
    assert connected is not None
    api, view = connected
    assert api.server == "https://127.0.0.1:6443"
    assert view.node_name == "worker-7"
    assert view.pace == pace_within(180.0)
    assert not view.state().is_complete


def test_agent_without_an_api_server_loads_nothing_that_speaks_to_one() -> None:
    code = (
        "import sys; from agent.settings import Settings; from agent.node.cluster.connection import connect;"
        "assert connect(Settings(), 'n') is None;"
        "unwanted = {'urllib3', 'kubernetes', 'agent.kube.client.api', 'agent.node.cluster.view'};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n"
