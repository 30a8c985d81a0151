"""Relay networks with two or three tasks."""

import numpy as np
import tvm
from tvm import relay

TARGET = tvm.target.Target("llvm")


def two_layers(batch=1, width=48):
    """Two equal conv2d and a dense layer: three tasks, since dense has two templates on a CPU."""
    x = relay.var("x", shape=(batch, 16, 8, 8))
    for i in range(2):
        x = relay.nn.relu(
            relay.nn.conv2d(
                x,
                relay.const(np.full((16, 16, 3, 3), 0.01 * (i + 1), "float32")),
                channels=16,
                kernel_size=(3, 3),
                padding=(1, 1),
            )
        )
    x = relay.nn.batch_flatten(x)
    x = relay.nn.dense(x, relay.const(np.full((width, 1024), 0.001, "float32")))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))


def one_layer():
    """A dense layer, whose two tasks have some hundreds of configurations each."""
    x = relay.var("x", shape=(4, 256))
    return tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.dense(x, relay.const(np.full((96, 256), 0.1, "float32"))))
    )
