from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.kube.client.credentials import Authorization, Credentials, in_cluster
from agent.kube.client.errors import CredentialsError

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
SECRET = "eyJhbGciOi.secret"  # noqa: S105  of nobody


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "ca.crt").write_text("certificate")
    return tmp_path


def test_in_cluster_takes_the_pods_service_account(account: Path) -> None:
    credentials = in_cluster(POD, account)
    assert credentials is not None
    assert (credentials.server, credentials.token_file, credentials.ca_file) == (
        "https://10.0.0.1:443",
        account / "token",
        account / "ca.crt",
    )
    assert Authorization(credentials).header() == f"Bearer {SECRET}"


def test_in_cluster_puts_an_ipv6_address_into_brackets(account: Path) -> None:
    credentials = in_cluster(POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert credentials is not None
    assert credentials.server == "https://[fd00::1]:443"


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
    credentials = in_cluster(POD, account)
    assert credentials is not None
    authorization = Authorization(credentials)
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


def test_the_way_in_a_pod_does_not_load_the_official_client() -> None:
    code = "import sys, agent.node.cluster.view, agent.kube.client.own_rights; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
