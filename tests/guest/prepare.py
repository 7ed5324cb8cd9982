"""``python -m tests.guest.prepare``: obtain the guest's kernel now, so that the tests find it."""

from __future__ import annotations

import sys

from tests.guest.kernel import GuestError, ensure


def main() -> int:
    """Prepare and say what is done; 1 when something is missing."""
    try:
        ensure(lambda line: print(line, flush=True))
    except GuestError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
