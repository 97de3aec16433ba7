"""A folder for everything that the tests of one suite write; it goes when the suite ends."""

import atexit
import pathlib
import shutil
import tempfile

SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="signvote-cli-"))
SCRATCH.chmod(0o755)  # some tests run the program as nobody
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
