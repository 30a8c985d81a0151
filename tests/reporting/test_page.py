"""The page in a real browser: everything is there, works, and asks nobody for anything."""

import json
import re
import shutil
import sys
import threading
import time
from urllib.request import urlopen

import pytest
from made_up_logs import autotvm_line, autotvm_log, meta_schedule_folder

from autotvm_opevo import report
from autotvm_opevo.cli.main import main
from autotvm_opevo.reporting.serving import make_server
from autotvm_opevo.tuning.journal import Journal
from autotvm_opevo.tuning.naming import task_key
from autotvm_opevo.tuning.speedup import Speedup

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on this machine")
EVIL = '<img src=x onerror="document.title=1">$x$</script>'


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two tuners' logs of two tasks, one of them with more, and a folder of MetaSchedule's."""
    folder = tmp_path_factory.mktemp("report")
    first, second = autotvm_log(folder / "opevo.json"), autotvm_log(folder / "xgb.json", latency=0.02)
    dense, conv2d = (task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d"))
    journal = Journal(f"{first}.journal")
    journal.write(task=dense, failure="runtime device", message=f"no {EVIL}")
    journal.write(network={"operators": [(3, [dense]), (1, [conv2d])], "before": 0.5, "after": 0.25})
    with open(second, "a") as file:
        file.write(autotvm_line(99, EVIL, latency=1e-6) + '\n{"torn')
    return report(first, second, meta_schedule_folder(folder / "folder"), out=folder / "report.html", title=f"Night {EVIL}")


def opened(browser, address, width=1200, height=900):
    browser.get_log("browser"), browser.get_log("performance")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    )
    browser.get(address)
    return browser


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def shown(browser):
    return [task.get_attribute("id") for task in browser.find_elements("css selector", ".task") if task.is_displayed()]


@needs_browser
class TestInABrowser:
    def test_the_charts_are_there_and_have_data(self, browser, page):
        opened(browser, page.as_uri())
        charts = browser.find_elements("css selector", "#task-1 figure svg")
        assert len(charts) == 2 + 2  # the best so far over trials and time; the knobs that had more than one value
        for chart in charts:
            assert chart.size["width"] > 150
            assert chart.size["height"] > 20
        for curve in ("#task-1 .best path", "#task-1 .vertices use"):
            assert len(browser.find_elements("css selector", curve)) >= 2
        lengths = browser.execute_script(
            "return [...document.querySelectorAll('#task-1 .best path')].map(path => path.getTotalLength())"
        )
        assert len(lengths) == 4  # two logs, over trials and over time
        assert all(length > 20 for length in lengths)

    def test_nothing_is_asked_for_and_nothing_complains(self, browser, page):
        opened(browser, page.as_uri())
        assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []
        assert browser.get_log("browser") == []

    def test_what_a_log_says_stays_text(self, browser, page):
        opened(browser, page.as_uri())
        assert browser.title == f"Night {EVIL}"
        assert browser.find_element("tag name", "h1").text == f"Night {EVIL}"
        assert browser.find_elements("css selector", "img") == []
        text = browser.find_element("tag name", "body").text
        assert f"no {EVIL}" in text
        assert f"{EVIL} 1x64" in text

    def test_tasks_are_switched(self, browser, page):
        from selenium.webdriver.support.ui import Select

        opened(browser, page.as_uri())
        assert shown(browser) == ["task-1"]
        Select(browser.find_element("id", "task")).select_by_visible_text("conv2d 1x64")
        assert shown(browser) == ["task-2"]
        assert browser.execute_script("return document.getElementById('task-2').getBoundingClientRect().top") < 100
        browser.find_element("link text", "matmul 8x64 64x64").click()
        assert shown(browser) == ["task-4"]
        assert browser.find_element("id", "task").get_attribute("value") == "task-4"
        browser.back()
        assert shown(browser) == ["task-2"]

    def test_what_takes_the_most_is_first(self, browser, page):
        """A dense layer that the network runs three times, then what is run once, then what takes next to nothing."""
        opened(browser, page.as_uri())
        (table, *_) = browser.find_elements("tag name", "table")
        linked = [link.get_attribute("hash") for link in table.find_elements("tag name", "a")]
        assert linked == ["#task-1", "#task-2", "#task-4", "#task-3"]
        rows = [[cell.text for cell in row.find_elements("tag name", "td")] for row in table.find_elements("tag name", "tr")[1:]]
        assert rows[0][:5] == ["dense 1x64", "3", "opevo.json", "75%", "1.000"]
        assert rows[1][:5] == ["", "3", "xgb.json", "75%", "20.000"]
        assert [row[3] for row in rows[2:]] == ["25%", "25%", "100%", "<1%"]

    def test_the_theme_is_switched_and_the_charts_with_it(self, browser, page):
        opened(browser, page.as_uri())
        colors = """const color = (element, what) => getComputedStyle(document.querySelector(element))[what];
            return [color("body", "backgroundColor"), color(".best path", "stroke"), color("svg text", "fill")]"""
        before = browser.execute_script(colors)
        browser.find_element("id", "theme").click()
        after = browser.execute_script(colors)
        assert all(a != b for a, b in zip(before, after))
        browser.find_element("id", "theme").click()
        assert browser.execute_script(colors) == before

    def test_the_theme_is_remembered(self, browser, page):
        opened(browser, page.as_uri())
        theme = "return document.documentElement.dataset.theme"
        browser.find_element("id", "theme").click()
        chosen, deadline = browser.execute_script(theme), time.monotonic() + 20
        browser.refresh()
        while browser.execute_script(theme) != chosen:  # the browser stores it when it has time
            assert time.monotonic() < deadline
            browser.find_element("id", "theme").click()
            chosen = browser.execute_script(theme)
            time.sleep(1)
            browser.refresh()

    def test_it_fits_on_a_phone(self, browser, page):
        opened(browser, page.as_uri(), 390, 844)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390
        assert min(chart.size["width"] for chart in browser.find_elements("css selector", "#task-1 figure svg")) > 300

    def test_paper_has_every_task(self, browser, page):
        opened(browser, page.as_uri())
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert shown(browser) == ["task-1", "task-2", "task-4", "task-3"]
        assert not browser.find_element("id", "theme").is_displayed()
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_without_scripts_all_is_there(self, browser, page):
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        opened(browser, page.as_uri())
        deadline = time.monotonic() + 20  # without scripts a browser does not say when it has the whole page
        while len(shown(browser)) < 4:
            assert time.monotonic() < deadline
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

    def test_a_watched_page_grows_with_its_log(self, browser, tmp_path):
        path, text = tmp_path / "log.json", "return document.body.innerText"
        with make_server([path]) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            opened(browser, f"http://127.0.0.1:{server.server_address[1]}/")
            assert "No trial yet." in browser.execute_script(text)
            assert "there is nothing to read yet" in browser.execute_script(text)
            autotvm_log(path, trials=4)
            deadline = time.monotonic() + 60
            while "8 trials of 2 tasks" not in browser.execute_script(text):
                assert time.monotonic() < deadline
                time.sleep(0.2)
            own = (f"http://127.0.0.1:{server.server_address[1]}/", "data:")
            assert [url for url in requests(browser) if not url.startswith(own)] == []
            server.shutdown()
        deadline = time.monotonic() + 60  # of the server's port nothing is left
        while "Nobody answers" not in browser.execute_script(text):
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_the_page_says_what_was_found(page):
    text = page.read_text()
    for words in (
        "the network took 500.000 ms before and 250.000 ms after",
        "1 line torn, left out",
        "tile_x: ?x64; order: loops in the order 0 2 1; vec: vectorized; unroll: 0",
        "Where the time is",
        "the best trial in each log, one run; a network may have more of some",
        "the log does not say",
        "it does not say when all trials ended, so nothing is drawn over time",
    ):
        assert words in text


@pytest.mark.parametrize(
    "values",
    [
        ([["x", "ot", 0]], [["x", "ot", None]]),
        ([["x", "ot", 0]], [["x", "ot", "a"]]),
        ([["x", "ot", 0]], [["x", "ot", float("nan")]]),
        ([["x", "ot", 0]], [["x", "sp", [-1, 2]]]),
        ([["x", "sp", [4, 2]]], [["x", "sp", [2, 2, 2]]]),
        ([["x", "sp", [-1, 2]]], [["x", "sp", [-1, 2, 2]]]),
        ([["x", "sp", [4, 2]]], [["x", "sp", [3, 5]]]),
        ([["x", "re", [0, 1]]], [["x", "re", [0, 1, 2]]]),
        ([["x", "re", [0, 1]]], [["x", "re", [5, 7]]]),
        ([["x", "an", []]], [["x", "an", ["vec"]]]),
    ],
)
def test_a_knob_whose_values_are_of_two_kinds_is_drawn_as_choices(tmp_path, values):
    lines = []
    for trial, entity in enumerate(values):
        said = json.loads(autotvm_line(trial))
        said["config"]["entity"] = entity
        lines.append(json.dumps(said))
    log = tmp_path / "log.json"
    log.write_text("\n".join(lines))
    text = report(log, out=tmp_path / "report.html").read_text()
    assert "that were tried" in text


def test_only_this_machine_is_answered(tmp_path):
    import http.client

    with make_server([autotvm_log(tmp_path / "log.json", trials=4)]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        assert server.server_address[0] == "127.0.0.1"
        for path, host, status in (("/", "127.0.0.1", 200), ("/", "evil.example", 403), ("/../etc/passwd", "localhost", 404)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"Host": f"{host}:{port}"})
            assert connection.getresponse().status == status
            connection.close()
        server.shutdown()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["LOG"], 2, "-o FILE is needed"),
        (["LOG", "-o", "OUT", "--port", "80"], 2, "--port is for --watch alone"),
        (["LOG", "--watch", "-o", "OUT"], 2, "--watch writes no file, --out given"),
        (["LOG", "--watch", "--port", "70000"], 2, "--port must be from 0 to 65535, 70000 given"),
        (["missing.json", "-o", "OUT"], 1, "missing.json: No such file or directory"),
        (["LOG", "LOG", "-o", "OUT"], 2, "is there twice"),
        (["LOG", "-o", "no/folder/OUT"], 1, "out must be in a folder, no/folder is none"),
        (["LOG", "-o", "OUT", "--import", "no_such_module"], 2, "--import no_such_module: ModuleNotFoundError"),
        (["LOG", "-o", "OUT", "--import", "./mine.py"], 2, "--import ./mine.py: "),
        (["LOG", "-o", "OUT", "--import", "./templates"], 2, "must be a module's name or a file that ends in .py"),
        (["LOG", "-o", "OUT", "--import", "json.py"], 2, "there is another module called json: give the file another name"),
        (["LOG", "-o", "OUT", "--import", "leaves.py"], 2, "--import leaves.py: SystemExit: usage"),
        (["LOG", "-o", "LOG"], 2, "out must be another file than the logs, which are only read; LOG given"),
        (["LOG", "-o", "."], 2, "out must be a file, . is none"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    autotvm_log(tmp_path / "LOG", trials=4)
    (tmp_path / "json.py").touch()
    (tmp_path / "leaves.py").write_text("import sys; sys.exit('usage')")
    assert main(["report", *arguments]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotvm_opevo: ")
    assert message in line
    assert not (tmp_path / "OUT").exists()


def test_a_file_of_templates_is_imported_with_its_folder(tmp_path, monkeypatch, capsys):
    """As Python runs a script: what lies beside it is found."""
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.modules", dict(sys.modules))
    (tmp_path / "beside_my_templates.py").write_text("WORD = 'found'")
    (tmp_path / "my_templates.py").write_text("from beside_my_templates import WORD\nprint(WORD)")
    log, out = autotvm_log(tmp_path / "log.json", trials=4), tmp_path / "report.html"
    assert main(["report", str(log), "-o", str(out), "--import", str(tmp_path / "my_templates.py")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "found"


def test_a_port_that_is_taken_is_said(tmp_path, capsys):
    log = autotvm_log(tmp_path / "log.json", trials=4)
    with make_server([log]) as server:
        port = server.server_address[1]
        assert main(["report", str(log), "--watch", "--port", str(port)]) == 1
    assert f"port {port} cannot be had" in capsys.readouterr().err


def test_a_watched_page_waits_for_a_log_that_cannot_be_read(tmp_path):
    import http.client

    log = autotvm_log(tmp_path / "log.json", trials=4)
    with make_server([log]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        log.write_text("rubbish <b>\nand more of it\n")
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 503
        assert 'http-equiv="refresh"' in text
        assert "no line of it is a trial" in text
        server.shutdown()


def test_a_log_that_is_waited_for_is_said(tmp_path, monkeypatch, capsys):
    class Served:
        server_address = ("127.0.0.1", 1)
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731
        serve_forever = staticmethod(lambda: None)

    monkeypatch.setattr("autotvm_opevo.reporting.serving.make_server", lambda *_: Served())
    assert main(["report", str(tmp_path / "mistyped.json"), "--watch"]) == 0
    assert f"nothing to read yet: {tmp_path / 'mistyped.json'}; the page waits" in capsys.readouterr().out


def paged(tmp_path, *lines, name="log.json"):
    """The words of the page of a log."""
    log = tmp_path / name
    log.write_text("\n".join(lines))
    return words(report(log, out=tmp_path / "report.html"))


def words(page):
    """What a page says, without its pictures."""
    text = page.read_text()
    return " ".join(re.sub(r"<svg.*?</svg>|<style.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split())


def test_a_pause_is_left_out_of_times(tmp_path):
    """Twenty trials of a second, then the night, then as many."""
    trials = [*range(20), *range(30_000, 30_020)]
    text = paged(tmp_path, *(autotvm_line(trial, tile=2 ** (trial % 7)) for trial in trials))
    assert "1 pause, 8.3 h in all, left out of times" in text
    assert "38 s spent on it" in text


def test_time_begins_with_the_run_where_its_journal_says_when(tmp_path, monkeypatch):
    for start in (1.795e9 - 60, 1.795e9 + 500):
        monkeypatch.setattr("time.time", lambda start=start: start)
        Journal(tmp_path / "log.json.journal").begin([(1, ["dense"])], "OpEvoTuner surrogate='q-walk', seed 0")
    text = paged(tmp_path, *(autotvm_line(trial) for trial in (0, 20, 510)))
    assert "3 trials of 1 task in 90 s, the first at" in text
    assert "by OpEvoTuner surrogate=&#39;q-walk&#39;, seed 0" in text
    assert "1 pause, 8 min in all, left out of times" in text


def test_a_task_of_which_nothing_works_says_that(tmp_path):
    text = paged(tmp_path, *(autotvm_line(trial, error_no=4) for trial in range(4)))
    assert "none worked of 4 100% failed" in text
    assert "- ms" not in text


def test_of_few_trials_nothing_is_foretold(tmp_path):
    assert "too few trials to say" in paged(tmp_path, *(autotvm_line(trial) for trial in range(15)))
    latencies = [4e-3] * 12 + [2e-3] * 4
    assert "100.0% faster by the last quarter" in paged(
        tmp_path, *(autotvm_line(trial, latency=latency) for trial, latency in enumerate(latencies))
    )


def test_the_best_trials_alone_are_no_run(tmp_path):
    text = paged(tmp_path, autotvm_line(0), name="alexnet.best.json")
    assert "the whole run is in alexnet.json" in text


def test_two_ways_to_compute_an_operator_are_said_to_be_that(tmp_path):
    names = [task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense_nopack", "dense_pack")]
    Journal(tmp_path / "log.json.journal").write(network={"operators": [(2, names)], "before": 0.5, "after": 0.25})
    text = paged(tmp_path, autotvm_line(1, "dense_nopack", latency=4e-3), autotvm_line(0, "dense_pack", latency=1e-3))
    assert "dense_pack 1x64 2 100%" in text
    assert "dense_nopack 1x64 slower than another way 2 4.000" in text
    assert "Another way to compute the same operator: dense_nopack 1x64 , 4.000 ms; the network takes the fastest" in text
    assert "share is of all operators" in text


def test_logs_are_compared_by_how_soon_they_are_near_the_best(tmp_path):
    """One finds 1 ms as its fourth trial, the other 1.04 ms as its second, which is near, the third nothing of the kind."""
    for name, found in (("a", [4, 3, 2, 1]), ("b", [4, 1.04, 4, 4]), ("c", [4, 3, 2, 2])):
        lines = [autotvm_line(trial, latency=ms * 1e-3) for trial, ms in enumerate(found)]
        (tmp_path / f"{name}.json").write_text("\n".join(lines))
    text = words(report(*sorted(tmp_path.glob("*.json")), out=tmp_path / "report.html"))
    assert "best, ms 1.000 1.040 2.000" in text
    assert "within 5% of the best of all logs at trial 4 2 never" in text
    assert "time until then 3.0 s 1.0 s -" in text


def test_of_logs_in_which_nothing_works_none_is_near_the_best(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(autotvm_line(0, error_no=4))
    text = words(report(*tmp_path.glob("*.json"), out=tmp_path / "report.html"))
    assert "within 5% of the best of all logs at trial never never" in text


def test_a_way_of_which_nothing_worked_is_not_called_slower(tmp_path):
    names = [task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense_pack", "dense_nopack")]
    Journal(tmp_path / "log.json.journal").begin([(1, names)], "OpEvoTuner")
    text = paged(tmp_path, autotvm_line(0, "dense_pack", error_no=4), autotvm_line(1, "dense_nopack"))
    assert "dense_pack 1x64 , of which nothing worked" in text
    assert "slower than another way" not in text


def test_a_task_that_two_journals_count_otherwise_is_there_once(tmp_path):
    dense = task_key("llvm", "dense", [["TENSOR", [1, 64], "float32"]])
    for name, count in (("a", 2), ("b", 4)):
        autotvm_log(tmp_path / f"{name}.json", trials=4)
        Journal(tmp_path / f"{name}.json.journal").begin([(count, [dense])], "OpEvoTuner")
    text = report(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html").read_text()
    assert text.count('id="task-1"') == text.count('id="task-2"') == 1
    assert "how often a network runs them the logs do not all say" in text  # of the other task


def test_every_log_has_the_counts_of_its_own_journal(tmp_path):
    """8 ms for dense and as much for conv2d, the one of which the second network runs three times."""
    dense, conv2d = (task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d"))
    for name, count in (("a", 1), ("b", 3)):
        autotvm_log(tmp_path / f"{name}.json", trials=4)
        Journal(tmp_path / f"{name}.json.journal").begin([(count, [dense]), (1, [conv2d])], "OpEvoTuner")
    text = words(report(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html"))
    assert "all operators take 16.000 ms" in text
    assert "all operators take 32.000 ms" in text
    assert "dense 1x64 1 a.json 50%" in text
    assert "3 b.json 75%" in text
    assert "as often as the network runs it" in text


@pytest.mark.parametrize("logs", [("a", "b"), ("b", "a")])
def test_journals_that_know_different_ways_of_an_operator_are_taken_together(tmp_path, logs):
    pack, nopack = (task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense_pack", "dense_nopack"))
    for name, implementations in (("a", [nopack]), ("b", [nopack, pack])):
        lines = [
            autotvm_line(0, "dense_nopack", latency=4e-3),
            *([autotvm_line(1, "dense_pack", latency=1e-3)] * (pack in implementations)),
        ]
        (tmp_path / f"{name}.json").write_text("\n".join(lines))
        Journal(tmp_path / f"{name}.json.journal").begin([(2, implementations)], "OpEvoTuner")
    text = words(report(*(tmp_path / f"{name}.json" for name in logs), out=tmp_path / "report.html"))
    assert "dense_nopack 1x64 slower than another way" in text
    assert "2 b.json 100% 1.000" in text


def test_tasks_that_no_journal_names_are_no_ways_of_one_operator(tmp_path):
    for name, target in (("a", "llvm"), ("b", "cuda")):
        folder = meta_schedule_folder(tmp_path / name)
        records = folder / "database_tuning_record.json"
        records.write_text(records.read_text().replace('"llvm"', f'"{target}"'))
    text = words(report(tmp_path / "a", tmp_path / "b", out=tmp_path / "report.html"))
    assert "matmul 8x64 64x64 for llvm" in text
    assert "matmul 8x64 64x64 for cuda" in text
    assert "another way" not in text


def test_a_journal_begins_again_with_every_run(tmp_path):
    """By another tuner, then of another network, and last a run that had nothing more to do."""
    log, dense = tmp_path / "log.json", [(1, [task_key("llvm", "dense", [["TENSOR", [1, 64], "float32"]])])]
    journal = Journal(f"{log}.journal")
    journal.begin(dense, "XGBTuner")
    journal.comparison(Speedup([0.4], [0.2], 0.0, True))
    journal.begin(dense, "OpEvoTuner")
    text = paged(tmp_path, autotvm_line(0))
    assert "by XGBTuner, then OpEvoTuner" in text
    assert "the network took 400.000 ms before" in text
    assert "pause" not in text
    journal.begin([(1, ["another"])], "OpEvoTuner")
    text = paged(tmp_path, autotvm_line(0))
    assert "by XGBTuner, then OpEvoTuner;" not in text
    assert "the network took" not in text


@pytest.mark.parametrize("time", ["1e18", "-Infinity", "NaN", "-1"])
def test_times_that_are_none_cost_the_curves_over_time_alone(tmp_path, time):
    text = paged(tmp_path, autotvm_line(0), autotvm_line(1).replace("1795000001.0", time))
    assert "2 trials of 1 task" in text
    assert "nothing is drawn over time" in text


def test_a_log_in_this_folder_has_its_folders_name(tmp_path, monkeypatch):
    folder = meta_schedule_folder(tmp_path / "alexnet")
    monkeypatch.chdir(folder)
    assert "alexnet : 8 trials" in words(report(".", out=tmp_path / "report.html"))


def test_the_records_of_a_folder_have_its_journal(tmp_path):
    folder = meta_schedule_folder(tmp_path / "alexnet")
    Journal(folder / "journal").begin([(3, ["1234"])], "OpEvo")
    assert "by OpEvo" in words(report(folder / "database_tuning_record.json", out=tmp_path / "report.html"))


def test_fifty_logs_are_drawn(tmp_path):
    logs = [autotvm_log(tmp_path / f"{i}.json", trials=2) for i in range(50)]
    assert report(*logs, out=tmp_path / "report.html").exists()


@pytest.mark.parametrize("option", ["png", "csv"])
def test_a_file_is_no_folder_for_pictures_and_tables(tmp_path, option):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"{option} must be a folder"):
        report(autotvm_log(tmp_path / "log.json"), out=tmp_path / "report.html", **{option: tmp_path / "file"})
    assert not (tmp_path / "report.html").exists()


def test_a_watched_page_is_not_made_anew_for_every_line(tmp_path, monkeypatch):
    """Making it rests nine times as long as it took: here for ever."""
    from autotvm_opevo.reporting import serving

    made = []
    monkeypatch.setattr(serving, "render", lambda *_: made.append(1) or f"page {len(made)}")
    monkeypatch.setattr(serving, "_REST", 1e9)
    log = autotvm_log(tmp_path / "log.json", trials=4)
    with make_server([log]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for trials in (5, 6, 7):
            with urlopen(f"http://127.0.0.1:{server.server_address[1]}/", timeout=60) as answer:
                assert answer.read() == b"page 1"
            autotvm_log(log, trials)
        server.shutdown()


def test_a_log_without_one_of_the_operators_has_no_sum(tmp_path):
    autotvm_log(tmp_path / "a.json", trials=4)
    (tmp_path / "b.json").write_text(autotvm_line(0))
    text = words(report(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html"))
    assert "a.json : 8 trials of 2 tasks in 3.0 s, the first at 2026-11-18 11:06 UTC; all operators take 16.000 ms" in text
    assert text.count("all operators take") == 1
    assert "The logs do not have the same operators" in text


def test_operators_that_were_not_tried_yet_are_missed(tmp_path):
    """The journal names four, of which one has a trial that works, one has none, and two were not begun."""
    names = [task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d", "pool", "softmax")]
    Journal(tmp_path / "log.json.journal").begin([(1, [name]) for name in names], "OpEvoTuner")
    text = paged(tmp_path, autotvm_line(0), autotvm_line(1, "conv2d", error_no=4))
    assert "3 operators have no trial that works: sums and shares are of the others" in text
    assert "all operators take" not in text
    assert "All operators together" not in text


def test_a_tile_whose_template_is_not_known_is_explained(tmp_path):
    assert "? is the outermost part of a tile" in paged(tmp_path, autotvm_line(0))
    assert "A report that is made where the template is known" in paged(tmp_path, autotvm_line(0))


def test_the_command_makes_a_page(tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(autotvm_log(tmp_path / "log.json", trials=4)), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert out.read_text().count("<section") == 2
