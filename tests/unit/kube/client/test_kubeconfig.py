"""Kubeconfigs: what is plain is read as it is and as the official client reads it; all else is the client's."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from agent.kube.client.credentials import Authorization, Credentials
from agent.kube.client.errors import CredentialsError
from agent.kube.client.kubeconfig import context_namespace, from_kubeconfig

SECRET: Final = "sesame-open"  # noqa: S105  of nobody
DATA: Final = base64.b64encode(b"pem").decode()


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
    credentials = from_kubeconfig(kubeconfig(tmp_path, f"{{token: {SECRET}}}"))
    assert (credentials.server, credentials.is_verified) == ("https://127.0.0.1:6443", True)
    assert Authorization(credentials).header() == f"Bearer {SECRET}"
    assert SECRET not in repr(credentials)


def test_kubeconfig_with_certificates_inside(tmp_path: Path) -> None:
    data = base64.b64encode(b"pem").decode()
    user = f"{{client-certificate-data: {data}, client-key-data: {data}}}"
    cluster = f", certificate-authority-data: {data}, tls-server-name: kubernetes"
    credentials = from_kubeconfig(kubeconfig(tmp_path, user, cluster=cluster))
    for file in (credentials.ca_file, credentials.certificate_file, credentials.key_file):
        assert file is not None
        assert file.read_text() == "pem"
    assert credentials.server_name == "kubernetes"
    assert Authorization(credentials).header() is None


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
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    path = kubeconfig(tmp_path, "{token: x}")
    assert Authorization(from_kubeconfig(path)).header() == "Bearer x"
    path = kubeconfig(tmp_path, "{username: x, password: y}")
    with pytest.raises(CredentialsError, match=r"not installed .the container.*; allowed: one file"):
        from_kubeconfig(path)
    with pytest.raises(CredentialsError, match="the package kubernetes is not installed"):
        context_namespace(path, "none")


def test_kubeconfig_with_an_odd_server_is_told(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="server 'ftp://x' is not allowed"):
        from_kubeconfig(kubeconfig(tmp_path, "{token: x}", server="ftp://x"))


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


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        (f"{{token: {SECRET}}}", ""),
        (f"{{client-certificate-data: {DATA}, client-key-data: {DATA}}}", f", certificate-authority-data: {DATA}"),
        ("{client-certificate: file, client-key: ./file}", ", certificate-authority: ../own/file"),
        (f"{{token: {SECRET}, client-certificate-data: {DATA}, client-certificate: gone, client-key: file}}", ""),
        ("{}", ", insecure-skip-tls-verify: true, tls-server-name: kubernetes, extensions: [{name: minikube}]"),
        (f"{{token: {SECRET}}}", ", insecure-skip-tls-verify: false"),
    ],
)
def test_a_plain_kubeconfig_is_read_as_the_official_client_reads_it(tmp_path: Path, user: str, cluster: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").write_text("of a file")
    path = kubeconfig(tmp_path / "own", user, server="https://127.0.0.1:6443/prefix/", cluster=cluster)
    plain, merged = from_kubeconfig(path), from_kubeconfig(Path(f"{path}:{path}"))
    assert (plain.refreshed, merged.refreshed is None) == (None, False), "one was read by the client"
    assert said(plain) == said(merged)
    assert context_namespace(path) == context_namespace(Path(f"{path}:{path}")) == "default"


def said(credentials: Credentials) -> list[object]:
    """Return what credentials come to, with what is in their files."""
    files = (credentials.ca_file, credentials.certificate_file, credentials.key_file)
    return [
        credentials.server,
        *(None if file is None else file.read_text() for file in files),
        Authorization(credentials).header(),
        credentials.server_name,
        credentials.is_verified,
        credentials.proxy,
    ]


def test_a_context_and_its_namespace_are_found_by_name(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, f"{{token: {SECRET}}}")
    text = path.read_text().replace(
        "contexts: [", "contexts: [{name: other, context: {cluster: l, user: u, namespace: shop}}, "
    )
    path.write_text(text.replace("clusters: [", "clusters: [{name: l, cluster: {server: 'https://other'}}, "))
    assert (from_kubeconfig(path).server, context_namespace(path)) == ("https://127.0.0.1:6443", "default")
    assert (from_kubeconfig(path, "other").server, context_namespace(path, "other")) == ("https://other", "shop")
    with pytest.raises(CredentialsError, match="context none is not there; allowed: c, other"):
        context_namespace(path, "none")


def test_a_plain_kubeconfig_loads_no_client_and_leaves_no_file_behind(tmp_path: Path) -> None:
    """It would take 37 MiB and 0.3 s of CPU of each command, and of each agent outside a cluster."""
    path = kubeconfig(tmp_path, f"{{client-certificate-data: {DATA}, client-key-data: {DATA}}}")
    code = (
        "import sys; from pathlib import Path; from agent.kube.client.kubeconfig import *;"
        f"path = Path({str(path)!r}); found = from_kubeconfig(path); context_namespace(path);"
        "print('kubernetes' in sys.modules, found.key_file, oct(found.key_file.stat().st_mode & 0o777))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, file, mode = done.stdout.split()
    assert (loaded, mode) == ("False", "0o600")
    assert not Path(file).exists()


@pytest.mark.parametrize("token", ["two words", "a\nb"])
def test_a_token_that_would_break_out_of_its_header_is_refused_without_showing_it(tmp_path: Path, token: str) -> None:
    with pytest.raises(CredentialsError, match="holds no token") as refused:
        from_kubeconfig(kubeconfig(tmp_path, f'{{token: "{token}"}}'))
    assert token not in str(refused.value)
