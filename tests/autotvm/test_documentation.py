"""The examples of the pages for AutoTVM, and for the search without TVM, run as they stand."""

import re
from pathlib import Path

import pytest
import tvm
from compared_networks import time_two_rounds
from instant_measuring import for_real, instant
from tvm import autotvm, relay

from autotvm_opevo.networks import relay as workloads

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how_to"

# A busy machine takes several times as long.
pytestmark = pytest.mark.timeout(1200)


def blocks(page):
    """The Python of a page that is not for MetaSchedule, with a few trials."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    texts = [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]
    others = [text for text in texts if "autotvm_opevo.meta_schedule import" not in text]
    return [re.sub(r"\b(n_trial|trials)=\d+", r"\1=4", text) for text in others]


def test_xgbtuner_is_replaced_and_the_log_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = tvm.target.Target("llvm")
    mod, _ = workloads.operator("nn.dense", [(8, 64), (32, 64)])
    (task, *_) = autotvm.task.extract_from_program(mod["main"], params={}, target=target)
    names = {
        "tvm": tvm,
        "autotvm": autotvm,
        "task": task,
        "measure_option": instant(),
        "callbacks": [autotvm.callback.log_to_file("log.json")],
    }
    replaced, resumed = blocks(HOW_TO / "replace_xgbtuner.md")
    exec(replaced, names)
    exec(resumed, names)
    indices = [measured.config.index for measured, _ in autotvm.record.load_from_file("log.json")]
    assert len(indices) == len(set(indices)) == 8


def test_a_network_is_tuned_and_deployed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    time_two_rounds(monkeypatch)
    mod, params = workloads.operator("nn.dense", [(8, 64), (32, 64)])
    names = {"mod": mod, "params": params, "target": "llvm"}
    (tuned,) = blocks(HOW_TO / "tune_a_network.md")
    exec(tuned, names)
    assert names["result"].trials == 4
    (deployed,) = blocks(HOW_TO / "deploy.md")
    exec(deployed, names)
    assert (tmp_path / "alexnet.so").read_bytes().startswith(b"\x7fELF")


def test_a_layout_is_converted():
    (converted,) = blocks(HOW_TO / "what_is_tuned.md")
    x, weights = (
        relay.var("x", shape=(1, 8, 8, 16)),
        relay.var("weights", shape=(3, 3, 16, 16)),
    )
    conv = relay.nn.conv2d(x, weights, data_layout="NHWC", kernel_layout="HWIO")
    names = {"tvm": tvm, "relay": relay, "mod": tvm.IRModule.from_expr(conv)}
    assert 'data_layout="NHWC"' in str(names["mod"])
    exec(converted, names)
    assert 'data_layout="NHWC"' not in str(names["mod"])


def test_the_builder_and_the_runner_measure():
    names = {}
    (measuring,) = blocks(ROOT / "docs" / "measuring.md")
    exec(measuring, names)
    given = names["measure_option"]
    assert {type(given[part]) for part in given} == {type(for_real()[part]) for part in given}


def test_a_space_is_searched_without_tvm(capsys):
    (searched,) = blocks(HOW_TO / "search_without_tvm.md")
    exec(searched, {"measure": lambda configuration: configuration["tile"][-1]})
    assert capsys.readouterr().out.startswith("({'tile': (1, 1, 1, 512)")
