"""`python -m attache` is the command `attache`."""

import os
import signal
import sys
import tempfile
from typing import NoReturn

from attache import _attache


def main() -> NoReturn:
    """Runs the command with the arguments of the process, and ends it with the command's exit status."""
    # The command is not Python, whose own handler would wait for it to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        # Where it is missing, drivers complain on standard error, although they work.
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    sys.exit(_attache.run_command(["attache", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
