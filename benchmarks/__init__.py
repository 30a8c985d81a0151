"""The paper's operators, tuners compared on recorded landscapes, and their overhead; never imported
by the package.
"""

import os

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # keeps TVM from downloading pre-tuned schedules
