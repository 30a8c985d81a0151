"""AlexNet's layers, with one column of channels (Krizhevsky 2014). Imports no TVM."""

from __future__ import annotations

from typing import NamedTuple


class Convolution(NamedTuple):
    """A square convolution, followed by a ReLU and, if `pooled`, by a max-pooling of 3 x 3 with
    stride 2.
    """

    channels: int
    kernel: int
    stride: int
    padding: int
    pooled: bool


# Of an image, channels x height x width.
INPUT = (3, 224, 224)
CONVOLUTIONS = (
    Convolution(64, 11, 4, 2, True),
    Convolution(192, 5, 1, 2, True),
    Convolution(384, 3, 1, 1, False),
    Convolution(256, 3, 1, 1, False),
    Convolution(256, 3, 1, 1, True),
)
# Elements of the last feature map, and outputs of the dense layers; a ReLU follows all but the
# last, which has a softmax.
FEATURES = 256 * 6 * 6
DENSE = (4096, 4096, 1000)
