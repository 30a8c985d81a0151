"""Formatting of knob values."""

import pytest

from autotvm_opevo.reporting.formatting import format_value


@pytest.mark.parametrize("text", ['["none", "vec', '["' + "[" * 200_000])
def test_text_that_only_looks_like_an_annotation_is_kept(text):
    assert format_value(text) == text
