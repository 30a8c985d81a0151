"""Pictures of reports."""

import runpy
import shutil
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "picture_report.py"


@pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="no chromium and chromedriver",
)
def test_a_picture_has_both_themes_beside_each_other_from_the_part_that_was_asked_for(tmp_path):
    from PIL import Image

    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><style>:root { color-scheme: light dark } body { margin: 0; "
        "background: light-dark(white, black) }"
        "div { height: 1000px } #part { background: light-dark(red, blue) "
        "}</style><div></div><div id=part></div>"
    )
    main = runpy.run_path(str(TOOL))["main"]
    size = ["--width", "600", "--height", "300"]
    main([str(page), str(tmp_path / "whole.png"), *size])
    main([str(page), str(tmp_path / "part.png"), *size, "--at", "part", "--dark"])
    whole, part = (Image.open(tmp_path / name).convert("RGB") for name in ("whole.png", "part.png"))
    assert (whole.size, part.size) == ((600, 300), (1220, 300))
    assert whole.getpixel((10, 10)) == (255, 255, 255)
    assert (part.getpixel((10, 10)), part.getpixel((610, 10)), part.getpixel((630, 10))) == (
        (255, 0, 0),
        (255,) * 3,
        (0, 0, 255),
    )
