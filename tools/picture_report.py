"""Picture the page of a report as it looks in Chromium, for the documentation.

    python tools/picture_report.py report.html report.png --height 1100
    python tools/picture_report.py report.html phone.png --width 390 --height 1400 --at task-2 \\
        --dark

Needs chromium, chromedriver, and the packages `selenium` and `pillow`. With --dark, a second
picture is beside the first, in dark colours. Those of the documentation are made by:

    for seed in 1 2; do python -m autotvm_opevo tune --network alexnet --trials 100 --seed $seed \\
        --target "llvm -mcpu=core-avx2" --log alexnet-$seed.json; done
    python -m autotvm_opevo report alexnet-1.json alexnet-2.json -o alexnet.html
    python tools/picture_report.py alexnet.html docs/report.png --height 1330

    python -m autotvm_opevo tune --network mlp --batch 16 --trials 300 --seed 0 --log mlp.json
    python -m autotvm_opevo report mlp.json -o mlp.html
    python tools/picture_report.py mlp.html docs/report-phone.png --width 390 --height 1400 \\
        --at task-6 --dark
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image
from selenium import webdriver

GAP = 20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Picture the page of a report.")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1100)
    parser.add_argument(
        "--at", metavar="ID", default="", help="begin at this part of the page: tasks, task-1, ..."
    )
    parser.add_argument("--dark", action="store_true", help="in dark colours, too")
    options = parser.parse_args(arguments)
    themes = ["light", "dark"] if options.dark else ["light"]
    address = f"{options.page.resolve().as_uri()}#{options.at}".rstrip("#")
    pictures = list(screenshots(address, options.width, options.height, themes))
    both = Image.new(
        "RGB",
        (sum(one.width for one in pictures) + GAP * (len(pictures) - 1), options.height),
        "white",
    )
    for i, one in enumerate(pictures):
        both.paste(one, (i * (options.width + GAP), 0))
    # A page has few colours: with a palette, the picture looks the same and is a third as large.
    both.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        options.picture, optimize=True
    )
    print(
        f"{options.picture}: {both.width}x{both.height}, "
        f"{options.picture.stat().st_size // 1024} KiB"
    )


def screenshots(
    address: str, width: int, height: int, themes: Sequence[str]
) -> Iterator[Image.Image]:
    """What a window of this size shows, in each theme."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    browser = webdriver.Chrome(
        options=options,
        service=webdriver.ChromeService(executable_path=shutil.which("chromedriver")),
    )
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for theme in themes:
            media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            # or an address that differs in its fragment only is not loaded again
            browser.get("about:blank")
            browser.get(address)
            yield (
                Image.open(io.BytesIO(browser.get_screenshot_as_png()))
                .convert("RGB")
                .crop((0, 0, width, height))
            )
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
