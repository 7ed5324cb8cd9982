"""Compiles the image's modules: ``python3.11 bytecode.py ROOT FOLDER``, run by the image's own interpreter.

Docstrings of others' modules are left out: nobody reads them there, and an agent would hold some 2 MB of them in
memory. Those of our own are kept, as the OpenAPI document is made of them. Assertions stay.

The root file system is read-only and owned by root, so that Python could never write what it compiles, and each start
would compile all anew. A compiled module carries no time but a checksum of its source, which nobody compares: the file
cannot change. What is marshalled depends on who else holds an object (a constant string, say) in the same process:
hence once to bytes and back before it is written, so that the same source gives the same file.
"""

from __future__ import annotations

import ast
import marshal
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

OWN_PACKAGE = "agent"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
UNCHECKED_HASH = (0b01).to_bytes(4, "little")
"""PEP 552: the checksum of the source follows, and is not compared."""


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Take out all docstrings; a body that had nothing else passes."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            said = node.body.pop(0)
            if not node.body and not isinstance(node, ast.Module):
                node.body.append(ast.copy_location(ast.Pass(), said))
    return tree


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
        try:
            tree = ast.parse(text, name)
            if OWN_PACKAGE not in source.relative_to(folder).parts:
                tree = without_docstrings(tree)
            code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
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
