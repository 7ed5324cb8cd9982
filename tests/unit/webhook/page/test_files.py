"""The page's files: how they are fenced and kept, how large they are, and that what is vendored is what npm has."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from agent.webhook.page.files import MODULES, STATIC, FileAnswer, PageFiles, joined, page_files

ROOT = Path(__file__).parents[4]
VENDOR = STATIC / "vendor"
KB = 1000
MOST_KB = 60
MOST_OWN_KB = 25


def asked(path: str, *, accept_encoding: str = "", if_none_match: str | None = None) -> FileAnswer:
    return page_files().answer(path, accept_encoding=accept_encoding, if_none_match=if_none_match)


def packed_bytes(path: str) -> int:
    return len(asked(path, accept_encoding="gzip").body)


def test_every_answer_is_fenced() -> None:
    for path in (*page_files().paths, "nowhere"):
        headers = asked(path).headers
        assert headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")


def test_the_page_is_asked_for_anew_and_its_files_are_kept_for_ever() -> None:
    page = asked("")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert page.headers["Cache-Control"] == "no-cache"
    named = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    assert len(named) > 3
    for path in named:
        answer = asked(path)
        assert answer.status == 200, path
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_who_has_it_is_told_so() -> None:
    tag = asked("").headers["ETag"]
    for held in (tag, f'"other", {tag}', f'"other",{tag}'):
        answer = asked("", if_none_match=held)
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["ETag"] == tag
    assert asked("", if_none_match='"other"').status == 200


def test_a_file_is_packed_for_who_takes_that() -> None:
    path = f"{page_files().digest}/app.js"
    plain = asked(path, accept_encoding="br, deflate")
    packed = asked(path, accept_encoding="br, gzip;q=0.8")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("path", ["app.js", "0123456789abcdef/app.js", "../files.py", "vendor/vendor.lock.json", "/"])
def test_what_is_no_file_of_this_release_is_not_there(path: str) -> None:
    assert asked(path).status == 404
    assert asked(f"{page_files().digest}/{path}/x").status == 404


def test_names_change_with_any_file(tmp_path: Path) -> None:
    for path in STATIC.rglob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = PageFiles(tmp_path).digest
    assert before == page_files().digest
    with (tmp_path / "style.css").open("a") as style:
        style.write("/**/")
    assert PageFiles(tmp_path).digest != before


def test_a_package_that_is_not_whole_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("")
    with pytest.raises(FileNotFoundError, match=r"base\.js, figures\.js.* not there"):
        PageFiles(tmp_path)


def test_the_page_is_small() -> None:
    sizes = {path: packed_bytes(path) for path in page_files().paths}
    assert sum(sizes.values()) <= MOST_KB * KB, sizes
    assert sizes[f"{page_files().digest}/app.js"] <= MOST_OWN_KB * KB


def test_modules_are_joined_without_what_they_say_to_each_other() -> None:
    assert joined(
        [
            'import {h} from "./preact.mjs";\n// Why.\nexport const one = 1;\nexport {h};\n',
            'import {one} from "./base.js";\nexport function two() {\n  return one;\n}\n',
        ]
    ) == ('import {h} from "./preact.mjs";\nconst one = 1;\nfunction two() {\nreturn one;\n}\n')


def test_each_module_imports_from_those_before_it_and_what_they_export() -> None:
    """Joined they would work in any order of functions; constants would not, and so nobody has to think of it."""
    exported: dict[str, set[str]] = {}
    names: list[str] = []
    for module in MODULES:
        text = (STATIC / f"{module}.js").read_text()
        for wanted, source in re.findall(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";$', text, re.M):
            assert {name.strip() for name in wanted.split(",")} <= exported[source], (module, source)
        own = re.findall(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", text, re.M)
        names += own
        listed = re.findall(r"^export (?:(?:async )?(?:const|function|class) (\w+)|\{([^}]*)\};$)", text, re.M)
        exported[module] = {name.strip() for pair in listed for name in (pair[0], *pair[1].split(",")) if name.strip()}
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


def test_nothing_comes_from_elsewhere_and_nothing_is_written() -> None:
    for path in (path for path in STATIC.iterdir() if path.is_file()):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//\w+\.\w+/", text), path
        assert not re.search(r"\beval\(|new Function|innerHTML|dangerouslySet|localStorage|sessionStorage", text), path
        assert not re.search(r"\bmethod:|XMLHttpRequest|sendBeacon|\son\w+=\"", text), path


def test_what_is_vendored_is_what_npm_has() -> None:
    lock = json.loads((VENDOR / "vendor.lock.json").read_text())
    there = {path.name for path in VENDOR.iterdir()} - {"vendor.lock.json"}
    locked: dict[str, str] = {}
    for package in lock["packages"]:
        assert package["license"] in ("MIT", "Apache-2.0")
        assert package["source"].endswith(f"/{package['package']}-{package['version']}.tgz")
        assert package["integrity"].startswith("sha512-")
        assert any(file["file"].startswith("LICENSE") for file in package["files"])
        locked |= {file["file"]: file["sha256"] for file in package["files"]}
    assert there == set(locked)
    for name, digest in locked.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_the_bare_import_of_preact_is_made_a_path() -> None:
    hooks = asked(f"{page_files().digest}/hooks.mjs").body
    assert b'from"./preact.mjs"' in hooks
    assert b'from"preact"' not in hooks
    assert f"{page_files().digest}/preact.mjs" in page_files().paths


def test_the_package_takes_all_of_it() -> None:
    """setuptools reads ``**`` as any depth, none included, which fnmatch's star does as well."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["agent"]
    for path in STATIC.rglob("*"):
        if path.is_file():
            inside = path.relative_to(ROOT / "agent").as_posix()
            assert any(fnmatch(inside, pattern.replace("**/", "")) for pattern in patterns), inside
