"""The paper's operators, and tuners compared on recorded landscapes; never imported by the
package.
"""

import os

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # keeps TVM from downloading pre-tuned schedules
