"""``python limited.py MEBIBYTES ARGUMENTS``: the command, with so much memory after its imports."""

import io
import re
import resource
import sys
from pathlib import Path

import joblib  # noqa: F401
import numpy as np
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

import steinpath.app.cli.fit
import steinpath.study  # noqa: F401
from steinpath.app.cli import main

if __name__ == "__main__":
    # OpenBLAS takes its memory at the first use, and ends the process where there is none
    np.linalg.svd(np.ones((200, 200)) @ np.ones((200, 200)))
    pyarrow.csv.read_csv(io.BytesIO(b"x\n1\n"))  # starts the thread that reads
    taken = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    most = taken + int(sys.argv[1]) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    sys.argv[:] = ["steinpath", *sys.argv[2:]]
    main()
