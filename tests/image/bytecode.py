"""Compiles the image's modules: ``python3.11 bytecode.py ROOT FOLDER``, run by the image's own interpreter.

Others' modules are compiled as ``python -OO`` would: nobody reads their docstrings there, and an agent would hold some
2 MB of them in memory. Their assertions go with them, as libraries know one without the other from nobody: without
docstrings alone ``numpy.ma`` asserts that they are there, and cannot be imported. Our own modules keep both, as the
OpenAPI document is made of docstrings.

The root file system is read-only and owned by root, so that Python could never write what it compiles, and each start
would compile all anew. A compiled module carries no time but a checksum of its source, which nobody compares: the file
cannot change. What is marshalled depends on who else holds an object (a constant string, say) in the same process:
hence once to bytes and back before it is written, so that the same source gives the same file.
"""

from __future__ import annotations

import marshal
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

OWN_PACKAGE = "agent"
AS_WRITTEN, WITHOUT_DOCSTRINGS = 0, 2
"""Levels of ``compile``."""
UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""PEP 552: the checksum of the source follows, and is not compared."""


def compile_below(root: Path, folder: Path) -> int:
    """Compile every module below ``folder``; give how many.

    Args:
        root: Of the image: tracebacks name files as they are seen from inside.
        folder: Below ``root``.
    """
    count = 0
    for source in sorted(folder.rglob("*.py")):
        text = source.read_bytes()
        name = f"/{source.relative_to(root)}"
        level = AS_WRITTEN if OWN_PACKAGE in source.relative_to(folder).parts else WITHOUT_DOCSTRINGS
        try:
            code = compile(text, name, "exec", dont_inherit=True, optimize=level)
        except SyntaxError:  # a template, or for another Python: imported by nobody
            continue
        again = marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302 - our own bytes
        content = MAGIC_NUMBER + UNCHECKED_HASH + source_hash(text) + again
        target = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        count += 1
    return count


if __name__ == "__main__":
    print(compile_below(Path(sys.argv[1]), Path(sys.argv[2])))
