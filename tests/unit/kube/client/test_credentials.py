from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from agent.kube.client.credentials import Authorization, Credentials, from_kubeconfig, in_cluster
from agent.kube.client.errors import CredentialsError

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
SECRET = "eyJhbGciOi.secret"  # noqa: S105  of nobody


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "ca.crt").write_text("certificate")
    return tmp_path


def test_in_cluster_takes_the_pods_service_account(account: Path) -> None:
    found = in_cluster(POD, account)
    assert found is not None
    assert (found.server, found.token_file, found.ca_file) == (
        "https://10.0.0.1:443",
        account / "token",
        account / "ca.crt",
    )
    assert Authorization(found).header() == f"Bearer {SECRET}"


def test_in_cluster_puts_an_ipv6_address_into_brackets(account: Path) -> None:
    found = in_cluster(POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert found is not None
    assert found.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("absent", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "token"])
def test_in_cluster_is_none_outside_and_without_a_token(account: Path, absent: str) -> None:
    if absent == "token":
        (account / "token").unlink()
    assert in_cluster({name: value for name, value in POD.items() if name != absent}, account) is None


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"line\nbreak", b"\xff\xfe", b"tab\there"])
def test_in_cluster_refuses_what_is_no_token_without_showing_it(account: Path, content: bytes) -> None:
    (account / "token").write_bytes(content)
    with pytest.raises(CredentialsError) as refused:
        in_cluster(POD, account)
    assert str(refused.value) == f"{account}/token: holds no token (one word of printable characters)"


def test_in_cluster_names_a_missing_authority_and_an_odd_port(account: Path) -> None:
    with pytest.raises(CredentialsError, match=r"KUBERNETES_SERVICE_PORT: 'tcp://10.0.0.1' is not allowed \(a port\)"):
        in_cluster(POD | {"KUBERNETES_SERVICE_PORT": "tcp://10.0.0.1"}, account)
    (account / "ca.crt").unlink()
    with pytest.raises(CredentialsError, match=r"ca\.crt: missing"):
        in_cluster(POD, account)


def test_authorization_reads_a_changed_file_and_keeps_the_token_when_it_is_gone_or_torn(account: Path) -> None:
    found = in_cluster(POD, account)
    assert found is not None
    authorization = Authorization(found)
    new = account / "new"
    new.write_text("renewed")
    new.rename(account / "token")
    assert authorization.header() == "Bearer renewed"
    (account / "token").write_text("")
    assert authorization.header() == "Bearer renewed"
    (account / "token").write_text("once-more")
    assert authorization.header() == "Bearer once-more"
    (account / "token").unlink()
    assert authorization.header() == "Bearer once-more"


def test_authorization_refuses_a_token_that_would_break_out_of_its_header() -> None:
    with pytest.raises(CredentialsError) as refused:
        Authorization(Credentials(server="https://x", origin="tests", token=f"{SECRET}\r\nX: y"))
    assert SECRET not in str(refused.value)


def test_credentials_never_show_their_secrets() -> None:
    shown = repr(Credentials(server="https://x", origin="tests", token=SECRET, proxy="http://user:pw@proxy"))
    assert SECRET not in shown
    assert "pw" not in shown


def kubeconfig(tmp_path: Path, user: str, server: str = "https://127.0.0.1:6443", cluster: str = "") -> Path:
    path = tmp_path / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        f"clusters: [{{name: k, cluster: {{server: '{server}'{cluster}}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
    )
    return path


def test_kubeconfig_with_a_token(tmp_path: Path) -> None:
    found = from_kubeconfig(kubeconfig(tmp_path, f"{{token: {SECRET}}}"))
    assert (found.server, found.is_verified) == ("https://127.0.0.1:6443", True)
    assert Authorization(found).header() == f"Bearer {SECRET}"
    assert SECRET not in repr(found)


def test_kubeconfig_with_certificates_inside(tmp_path: Path) -> None:
    data = base64.b64encode(b"pem").decode()
    user = f"{{client-certificate-data: {data}, client-key-data: {data}}}"
    cluster = f", certificate-authority-data: {data}, tls-server-name: kubernetes"
    found = from_kubeconfig(kubeconfig(tmp_path, user, cluster=cluster))
    for file in (found.ca_file, found.certificate_file, found.key_file):
        assert file is not None
        assert file.read_text() == "pem"
    assert found.server_name == "kubernetes"
    assert Authorization(found).header() is None


def test_kubeconfig_with_an_exec_plugin(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"{SECRET}"}}}}\'\n'
    )
    plugin.chmod(0o755)
    user = f"{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}}}"
    assert Authorization(from_kubeconfig(kubeconfig(tmp_path, user))).header() == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "cannot be used"),
        ("{", "not YAML: line 2: did not find expected node content"),
        ("current-context: x\ncontexts: []\nclusters: []\nusers: []\n", "cannot be used"),
    ],
)
def test_kubeconfig_that_is_none_is_told_on_one_line(tmp_path: Path, content: str | None, cause: str) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError) as refused:
        from_kubeconfig(path)
    assert str(refused.value).startswith(f"kubeconfig {path}: {cause}")
    assert str(refused.value).isprintable()


def test_what_is_wrong_with_a_kubeconfig_is_said_without_the_clients_preface(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "{token: x}")
    path.write_text(path.read_text().replace("current-context: c", "current-context: d"))
    with pytest.raises(CredentialsError) as refused:
        from_kubeconfig(path)
    assert str(refused.value).startswith(f"kubeconfig {path}: cannot be used: Expected object with name d in ")


def test_an_image_without_the_official_client_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)  # as Python marks what cannot be imported
    path = kubeconfig(tmp_path, "{token: x}")
    with pytest.raises(CredentialsError) as refused:
        from_kubeconfig(path)
    assert str(refused.value) == (
        f"kubeconfig {path}: cannot be read: the package kubernetes is not installed "
        "(the container image goes without it)"
    )


def test_kubeconfig_with_an_odd_server_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="server 'ftp://x' is not allowed"):
        from_kubeconfig(kubeconfig(tmp_path, "{token: x}", server="ftp://x"))


def test_the_way_in_a_pod_does_not_load_the_official_client() -> None:
    code = "import sys, agent.node.cluster.view, agent.kube.client.own_rights; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://proxy:3128"}, "http://proxy:3128"),
        ({"http_proxy": "http://proxy:3128"}, None),
        ({"https_proxy": "http://proxy:3128", "no_proxy": "127.0.0.1"}, None),
    ],
)
def test_kubeconfig_goes_through_the_proxy_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], proxy: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert from_kubeconfig(kubeconfig(tmp_path, "{token: x}")).proxy == proxy
