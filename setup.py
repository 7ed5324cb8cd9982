"""Builds the C sampler; everything else about the package stands in pyproject.toml."""

from __future__ import annotations

import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ADVICE = """
================================================================================
Plimsoll: the C sampler was NOT built: {reason}
Plimsoll still works, with the slower plain-Python sampler. For the fast one install a
C compiler and Python's headers (Debian, Ubuntu: apt-get install gcc python3-dev) and
install again.
================================================================================
"""


class BuildSampler(build_ext):  # type: ignore[misc] # setuptools comes without types here
    """Builds the extension where it can be built, and says loudly where it cannot."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link; without a compiler or Python.h, go on without it."""
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError) as error:  # pip hides what is printed unless asked; the agent's log and
            print(ADVICE.format(reason=error), file=sys.stderr)  # noqa: T201 - `plimsoll doctor` say it again


setup(
    cffi_modules=["native/build_sampler.py:ffibuilder"],
    cmdclass={"build_ext": BuildSampler},
    # cffi asks for the limited API by itself; this puts it into the wheel's name. 3.11 is pyproject's oldest.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
