"""A model of PyTorch, as the tutorial imports it. Skipped where PyTorch, which is no dependency, is
not installed.
"""

import numpy as np
import pytest
from quick_network_tuning import tune_module
from quick_tuning import outputs
from unoptimized import cpu

from autotvm_opevo.meta_schedule import compile_network

torch = pytest.importorskip("torch")


def test_a_model_of_pytorch_is_tuned_and_computes_the_same(tmp_path):
    from tvm.relax.frontend.torch import from_exported_program

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.BatchNorm2d(32),
        torch.nn.GELU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 10),
    ).eval()
    example = (torch.randn(1, 3, 32, 32),)
    mod = from_exported_program(torch.export.export(model, example))
    result = tune_module(mod, None, tmp_path, 24)
    assert result.comparison.outputs_match
    ((output,),) = outputs(
        [compile_network(mod, None, cpu(), result.best_file)], [example[0].numpy()]
    )
    with torch.no_grad():
        np.testing.assert_allclose(output, model(*example).numpy(), rtol=1e-3, atol=1e-4)
