"""The CPUs that this process may use; imported with the package, since TVM binds the main thread to
one of them when it runs a kernel.
"""

import os
import sys

# Empty if unknown.
CPUS: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
# Whether TVM may have bound it before.
MAY_BE_BOUND = "tvm" in sys.modules
