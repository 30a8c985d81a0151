"""The paper's operators, an arena for tuners, and what tuners cost. Imports the package, never the other way round."""

import os

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would look for pre-tuned schedules on the network
