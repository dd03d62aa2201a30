"""A release draws its tables itself: the counts that are in them, readable by every program that reads SVG."""

import re
from xml.etree import ElementTree as ET

import pytest

import topdown
from topdown.errors import ConfigError


def test_a_picture_has_the_counts_and_intervals_of_the_table(town, tmp_path):
    """A bar that is not the count beside it, or an interval that is left out, misleads whoever looks at it only."""
    topdown.resolve(town.release, tmp_path / "tree", targets="tree", coverage="9/10", name="tree")
    release = topdown.Release(tmp_path / "tree")
    level = release.levels[-1]
    picture, table = release.plot("total", level, most=5), release.table("total", level)
    root = ET.fromstring(picture._repr_svg_())  # noqa: S314 - our own text
    texts = [found.text for found in root.iter() if found.tag.endswith("text")]
    rows = table.head(5)
    assert rows["geocode"].astype(str).tolist() == texts[0::2]
    said = [
        f"{count:,} ({low:,} to {high:,})"
        for count, low, high in zip(rows["count"], rows["low"], rows["high"], strict=True)
    ]
    assert said == texts[1::2]
    assert len(rows) == len([found for found in root.iter() if found.tag.endswith("path")])
    widths = [float(found.attrib["width"]) for found in root.iter() if found.tag.endswith("rect")]
    longest = max(rows["count"].max(), 1)
    assert widths == pytest.approx([max(widths) * count / longest for count in rows["count"]], abs=0.1)


def test_areas_and_answers_are_chosen(town, tmp_path):
    """A state has more areas than a picture has room for."""
    release = topdown.Release(town.release)
    level = release.levels[-1]
    table = release.table("total", level)
    code = str(table["geocode"].iloc[table["count"].argmax()])
    picture = release.plot("sex", level, areas=[code])
    assert code in picture.svg
    assert re.fullmatch(r"Chart\('sex at \w+, \d+ of \d+ counts'\)", repr(picture))
    assert "<script" not in picture.svg
    picture.save(tmp_path / "sex.svg")
    assert (tmp_path / "sex.svg").read_text(encoding="utf-8") == picture._repr_svg_()
    with pytest.raises(ConfigError) as refused:
        picture.save(tmp_path / "sex.svg")
    assert refused.value.code == "C080"
    for wrong in ({"areas": ["nowhere"]}, {"most": 0}):
        with pytest.raises(ConfigError) as refused:
            release.plot("sex", level, **wrong)
        assert refused.value.code == "C005"
