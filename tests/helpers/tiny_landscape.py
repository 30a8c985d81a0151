"""A tiny landscape with failures and missing configurations."""

import numpy as np

from benchmarks.landscape import Landscape


def landscape(gaps=True):
    """Three knobs, 4 x 3 x 2, best at their last values; every fifth row failed, every seventh
    configuration is missing.
    """
    values = {"a": [1, 2, 4, 8], "b": [16, 32, 64], "switch": [False, True]}
    points = [(i, j, k) for k in range(2) for j in range(3) for i in range(4)]
    rows = [point for index, point in enumerate(points) if not gaps or index % 7 != 3]
    time = np.array([10.0 - i - j - k for i, j, k in rows], dtype=np.float32)
    error = np.zeros(len(rows), dtype=np.uint8)
    error[2::5] = 2 + np.arange(len(error[2::5])) % 3
    time[error > 0] = np.nan
    metadata = {"device": "none", "problem": "none"}
    return Landscape("tiny", values, np.array(rows), time, error, metadata)
