"""`python -m tests.softva COMMAND`: runs a command with softva, such as `python -m tests.softva pytest tests/devices`.

Needed where what is preloaded has to be there from the start: Intel's VPL runtime (QSV) reads /sys, see node.c.
"""

from __future__ import annotations

import os
import sys

from tests.softva.build import Unavailable, build, environment


def main() -> None:
    try:
        os.environ |= environment(build())
    except Unavailable as reason:
        sys.exit(str(reason))
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
