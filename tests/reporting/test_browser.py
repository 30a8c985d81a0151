"""The page in a real browser: charts, navigation, themes, print, and no requests."""

import json
import shutil
import time

import pytest
from synthetic_logs import HOSTILE, autotvm_line

from autotvm_opevo import report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on this machine"
)
# Seconds to wait for the browser on a busy machine; less than half of the limit of a test.
PATIENCE = 120


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=DRIVER)
    )
    driver.set_page_load_timeout(PATIENCE)
    yield driver
    driver.quit()


def open_page(browser, address, width=1200, height=900):
    browser.get_log("browser"), browser.get_log("performance")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(address)
    # a busy browser may return before the page is there
    wait_until(lambda: browser.find_elements("tag name", "footer"))
    return browser


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]


def shown(browser):
    return [
        task.get_attribute("id")
        for task in browser.find_elements("css selector", ".task")
        if task.is_displayed()
    ]


@needs_browser
class TestBrowser:
    def test_charts_have_data(self, browser, page):
        open_page(browser, page.as_uri())
        charts = browser.find_elements("css selector", "#task-1 figure svg")
        assert len(charts) == 2  # best so far over trials and over time
        for chart in charts:
            assert chart.size["width"] > 150
            assert chart.size["height"] > 20
        assert len(browser.find_elements("css selector", "#task-1 .best path")) >= 2
        lengths = browser.execute_script(
            "return [...document.querySelectorAll('#task-1 .best path')].map(path => "
            "path.getTotalLength())"
        )
        assert len(lengths) == 4  # two logs, over trials and over time
        assert all(length > 20 for length in lengths)

    def test_there_are_no_requests_and_no_errors(self, browser, page):
        open_page(browser, page.as_uri())
        assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []
        assert browser.get_log("browser") == []

    def test_text_from_logs_is_escaped(self, browser, page):
        open_page(browser, page.as_uri())
        assert browser.title == f"Night {HOSTILE}"
        assert browser.find_element("tag name", "h1").text == f"Night {HOSTILE}"
        assert browser.find_elements("css selector", "img") == []
        text = browser.find_element("tag name", "body").text
        assert f"no {HOSTILE}" in text
        assert f"{HOSTILE} 1x64" in text

    def test_tasks_can_be_selected(self, browser, page):
        from selenium.webdriver.support.ui import Select

        open_page(browser, page.as_uri())
        # which a script at the end of the page decides
        wait_until(lambda: shown(browser) == ["task-1"])
        Select(browser.find_element("id", "task")).select_by_visible_text("conv2d 1x64")
        wait_until(lambda: shown(browser) == ["task-2"])
        assert (
            browser.execute_script(
                "return document.getElementById('task-2').getBoundingClientRect().top"
            )
            < 100
        )
        browser.find_element("link text", "matmul 8x64 64x64").click()
        wait_until(lambda: shown(browser) == ["task-4"])
        assert browser.find_element("id", "task").get_attribute("value") == "task-4"
        browser.back()
        wait_until(lambda: shown(browser) == ["task-2"])

    def test_operators_are_sorted_by_time(self, browser, page):
        """A dense layer that the network runs three times, two operators that run once, and one
        that takes next to no time.
        """
        open_page(browser, page.as_uri())
        (table, *_) = browser.find_elements("tag name", "table")
        linked = [link.get_attribute("hash") for link in table.find_elements("tag name", "a")]
        assert linked == ["#task-1", "#task-2", "#task-4", "#task-3"]
        rows = [
            [cell.text for cell in row.find_elements("tag name", "td")]
            for row in table.find_elements("tag name", "tr")[1:]
        ]
        assert rows[0][:5] == ["dense 1x64", "opevo.json", "3", "75%", "1.000"]
        assert rows[1][:5] == ["", "xgb.json", "3", "75%", "20.000"]
        assert [row[3] for row in rows[2:]] == ["25%", "25%", "100%", "<1%"]

    def test_the_theme_is_the_browser_s(self, browser, page):
        open_page(browser, page.as_uri())
        colors = """
            const color = (name, what) => getComputedStyle(document.querySelector(name))[what];
            return [
                color("body", "backgroundColor"),
                color(".best path", "stroke"),
                color("svg text", "fill"),
            ]"""
        found = []
        for theme in ("light", "dark"):
            media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            found.append(browser.execute_script(colors))
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        assert all(light != dark for light, dark in zip(*found))

    def test_it_fits_on_a_phone(self, browser, page):
        open_page(browser, page.as_uri(), 390, 844)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390
        assert (
            min(
                chart.size["width"]
                for chart in browser.find_elements("css selector", "#task-1 figure svg")
            )
            > 300
        )

    def test_a_phone_shows_all_columns_of_the_tasks(self, browser, page):
        open_page(browser, page.as_uri(), 390, 844)
        boxes = """
            return [...document.querySelectorAll(".tasks td")]
                .filter(cell => cell.offsetHeight)
                .map(cell => [cell.dataset.label, cell.getBoundingClientRect()])
                .map(([label, {right, height}]) => [label, right, height])"""
        cells = browser.execute_script(boxes)
        assert len({label for label, *_ in cells}) > 6
        assert max(right for _, right, _ in cells) <= 390
        assert max(height for *_, height in cells) < 100

    def test_charts_fill_the_width_of_a_desktop(self, browser, page, tmp_path):
        """Also the two of a single task."""
        alone = tmp_path / "log.json"
        alone.write_text(
            "\n".join(autotvm_line(trial, tile=2 ** (trial % 7)) for trial in range(20))
        )
        for shown_page, charts in (
            (page, "#overview svg"),
            (report(alone, out=tmp_path / "report.html"), "#task-1 .charts svg"),
        ):
            open_page(browser, shown_page.as_uri(), 1280, 900)
            edges = [
                chart.rect["x"] + chart.rect["width"]
                for chart in browser.find_elements("css selector", charts)
            ]
            assert max(edges) > 0.85 * 1280

    def test_print_has_all_tasks(self, browser, page):
        open_page(browser, page.as_uri())
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert shown(browser) == ["task-1", "task-2", "task-4", "task-3"]
        assert not browser.find_element("id", "task").is_displayed()
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_without_scripts_all_tasks_are_shown(self, browser, page):
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        open_page(browser, page.as_uri())
        # without scripts the driver does not wait for the whole page
        wait_until(lambda: len(shown(browser)) == 4)
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
