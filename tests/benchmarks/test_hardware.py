"""The paper's tables on this machine with few trials, and publishing of results."""

import json
from shlex import split

import pytest
import tvm
from instant_measuring import instant

from benchmarks import hardware, publish

ARGUMENTS = split(
    "--target 'llvm -mcpu=core-avx2' --operators BMM1 --tuners OpEvo-published G-BFS library "
    "--trials 3"
)


def test_a_cpu_s_repetitions_are_shorter_than_a_gpu_s():
    shortest = [
        hardware._measure_option(tvm.target.Target(target))["runner"].min_repeat_ms
        for target in ("llvm", "cuda -arch=sm_90")
    ]
    assert shortest == [50, 150]


def test_runs_are_stored_and_resumed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hardware, "_measure_option", lambda _: instant())
    file = tmp_path / "runs.jsonl"
    for repeats in ("1", "2"):
        hardware.main([*ARGUMENTS, "--repeats", repeats, "--out", str(file)])
    runs = list(map(json.loads, file.read_text().splitlines()))
    assert [(run["tuner"], run["seed"]) for run in runs[:3]] == [
        ("OpEvo-published", 0),
        ("G-BFS", 0),
        ("library", 0),
    ]
    assert len(runs) == 6
    opevo = [run for run in runs if run["tuner"] == "OpEvo-published"]
    assert all(run["tflops"] > 0 and 0 < run["tuner_seconds"] < run["seconds"] for run in opevo)
    assert all(run["tvm"] == tvm.__version__ and run["device"] for run in runs)
    # the operators for a CPU have a reorder
    assert all(run.get("unsupported") for run in runs if run["tuner"] == "G-BFS")
    table = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| BMM1"))
    assert "5.46 ± 0.02" in table


def run(tuner, tflops, **others):
    about = {
        "operator": "MM1",
        "seed": 0,
        "trials": 500,
        "target": "cuda -arch=sm_90",
        "device": "a GPU",
        "tvm": "0.17",
    }
    return {
        **about,
        "tuner": tuner,
        "tflops": tflops,
        "measured": 500,
        "failures": 50,
        "seconds": 100.0,
        "tuner_seconds": 25.0,
        **others,
    }


def test_tables_show_results_beside_the_paper_s():
    text = hardware.tables(
        [
            run("OpEvo-published", 7.0),
            run("OpEvo-published", 9.0),
            run("XGB", 5.0),
            run("library", 12.0),
        ]
    )
    assert (
        "| MM1 | 5.0 | 8.0 ± 1.4 | 12.0 | 7.22 ± 0.04 | 6.39 ± 0.61 | 4.86 ± 0.18 | 6.89 ± 0.58 |"
        in text
    )
    assert "| OpEvo-published | 100 ± 0 | 25.00% | 10% |" in text
    assert "| MM1 | 0.0432 | 7.22" in hardware.tables([run("OpEvo-published", 0.04321)])


class TestDocument:
    @pytest.fixture(autouse=True)
    def page(self, tmp_path, monkeypatch):
        page = tmp_path / "docs" / "results" / "operators.md"
        page.parent.mkdir(parents=True)
        (page.parent / "another.md").write_text("[each seed](tables/q.md)\n")
        page.write_text(
            "before [each](tables/cpu.md)\n<!-- cpu -->\nold\n<!-- end of cpu -->\nafter\n"
        )
        monkeypatch.setattr(publish, "PAGES", page.parent)
        return page

    def test_tables_are_a_file_with_its_command_and_the_page_has_a_summary(self, page):
        others = page.parent / "another.md"
        before = others.read_text()
        for _ in range(2):
            publish.publish("cpu", "| a table |\n", "compare", ["--tuners", "G A"], "| short |")
        command = "    python -m benchmarks.compare --tuners 'G A'"
        assert page.read_text() == (
            "before [each](tables/cpu.md)\n<!-- cpu -->\n\n"
            f"{command}\n\n| short |\n\n<!-- end of cpu -->\nafter\n"
        )
        assert (page.parent / "tables" / "cpu.md").read_text() == (
            f"---\norphan: true\n---\n\n# cpu\n\n{command}\n\n| a table |\n"
        )
        assert others.read_text() == before

    def test_a_page_without_markers_has_the_link_only(self, page):
        before = page.read_text()
        publish.publish("q", "| a table |", "sensitivity q", [])
        assert (
            "python -m benchmarks.sensitivity q\n" in (page.parent / "tables" / "q.md").read_text()
        )
        assert page.read_text() == before

    def test_lines_of_a_page_are_at_most_100_long(self, page):
        text = f"{'word ' * 40}\nword\n\n| {'wide ' * 40}|"
        arguments = ["--landscapes", *["benchmarks/landscapes/C1.npz"] * 9]
        publish.publish("cpu", text, "compare", arguments)
        lines = page.read_text().splitlines()
        assert max(len(line) for line in lines if not line.startswith("|")) in range(80, 101)
        command = [line for line in lines if line.startswith("    ")]
        assert len(command) > 1
        assert all(line.endswith(" \\") for line in command[:-1])
        words = " ".join(line.rstrip("\\").strip() for line in command)
        assert words == f"python -m benchmarks.compare {' '.join(arguments)}"

    def test_a_section_without_a_link_is_refused_before_anything_runs(self, capsys):
        with pytest.raises(SystemExit):
            hardware.main(["--publish", "gpu"])
        assert "links to the section gpu" in capsys.readouterr().err
