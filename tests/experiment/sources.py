"""What the operations work on: C units, Python packages, a dump, modules; the same bytes every time."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from typing import Final

PAYLOAD: Final = Path(__file__).with_name("payload")
UNITS, FILES, ROWS, MODULES, FUNCTIONS = 60, 3000, 100_000, 200, 50
"""The most of each; a run takes as many as make up the CPU time wanted."""
MAKEFILE: Final = """\
OBJECTS := $(UNITS:%=$(OUT)/%.o)
$(OUT)/program.o: $(OBJECTS)
\tld -r -o $@ $^
$(OUT)/%.o: $(dir $(lastword $(MAKEFILE_LIST)))%.c
\tgcc -c -o $@ $<
"""
FOLDER: Final = "payload"


def write(directory: Path) -> Path:
    """Write the payload below a folder, before the guest boots, whose cache does not see changes; give its folder."""
    payload = directory / FOLDER
    shutil.copytree(PAYLOAD, payload, ignore=shutil.ignore_patterns("__pycache__"))
    sources = payload / "sources"
    (sources / "modules").mkdir(parents=True)
    (sources / "Makefile").write_text(MAKEFILE)
    for number in range(UNITS):
        (sources / f"unit{number}.c").write_text(c_unit(number))
    for number in range(MODULES):
        (sources / "modules" / f"module{number}.py").write_text(python_module(number, functions=12))
    (sources / "functions.txt").write_text(
        "".join(python_function(number).replace("\n", "\\n") + "\n" for number in range(FUNCTIONS))
    )
    with (sources / "dump.sql").open("w") as dump:
        dump.writelines(
            f"INSERT INTO rows (name, body) VALUES ('{number * 7919 % ROWS}', '{'x' * (40 + number % 90)}');\n"  # noqa: S608
            for number in range(ROWS)
        )
    with tarfile.open(sources / "packages.tar", "w") as tar:
        for number in range(FILES):
            content = python_module(number, functions=3).encode()
            member = tarfile.TarInfo(f"package{number // 50}/module{number}.py")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return payload


def c_unit(number: int) -> str:
    """Return a small C file without headers: under emulation a compiler's start alone takes a second."""
    return "".join(
        f"""
int unit{number}_step{step}(int value, const char *text)
{{
    for (int turn = 0; turn < value; turn++)
        value = (value * {step + 3} + text[turn % 8]) % {number * 30 + step + 101};
    return value;
}}
"""
        for step in range(4)
    )


def python_module(number: int, *, functions: int) -> str:
    """Return a Python module."""
    return "".join(python_function(number * functions + index) for index in range(functions))


def python_function(number: int) -> str:
    """Return a Python function."""
    return f'''def step{number}(values, scale={number}):
    """Fold the values."""
    folded = {{}}
    for place, value in enumerate(values):
        if value % 7 == scale % 7:
            folded[place] = [value * scale, str(value), (place, scale)]
        else:
            folded.setdefault("rest", []).append(value - scale)
    return {{key: folded[key] for key in sorted(folded, key=str)}}
'''
