"""Values of records that are no labels: bands of whole numbers, codes, blanks; every value is covered or refused."""

from pathlib import Path

import pytest

from tests.helpers.small_release import run_file
from topdown.errors import ConfigError, DataError
from topdown.inputs import ValueLabels, bands_among, bands_from, check_values
from topdown.measure import RecordsForm, load_records
from topdown.plan import prepare

LABELS = ("0-17", "18-64", "65+", "unknown")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (ValueLabels(bands=("0-17", "19+")), "C336"),
        (ValueLabels(bands=("0-17", "17+")), "C336"),
        (ValueLabels(bands=("65+", "0-64")), "C336"),
        (ValueLabels(bands=("0-17", "young")), "C335"),
        (ValueLabels(bands=("0-17", "18+")), "C337"),
        (ValueLabels(labels={"M": "male"}), "C337"),
        (ValueLabels(blank="none"), "C337"),
    ],
)
def test_values_without_a_label_or_with_two_are_refused_beforehand(values, code):
    """A gap between two bands would lose the people in it, or stop a run after its noise."""
    with pytest.raises(ConfigError) as refused:
        check_values(values, "age", LABELS)
    assert refused.value.code == code


def test_every_number_has_the_band_it_lies_in():
    """An end that is off by one moves a year of people to other labels."""
    values = ValueLabels(bands=bands_from([0, 18, 65]), blank="unknown")
    for number in (*range(120), 999_999_999):
        expected = "0-17" if number < 18 else "18-64" if number < 65 else "65+"
        assert expected == values.label_of(str(number)) == values.label_of(f"0{number}"[:9])
    assert [values.label_of(text) for text in ("", "65+", "-3", "1.5", " 7")] == [
        "unknown",
        "65+",
        "-3",
        "1.5",
        " 7",
    ]


def test_labels_that_are_bands_are_seen(tmp_path):
    """Single years are labels themselves, and bands with a gap cannot cover a register."""
    assert bands_among(LABELS) == LABELS[:3]
    assert bands_among(("0", "1", "2")) == ()
    assert bands_among(("0-4", "10-14")) == ()


def test_records_of_codes_are_counted_as_their_labels(tmp_path: Path) -> None:
    """Codes counted under another label, or a blank as none, are a wrong census."""
    (tmp_path / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n123,9,0,0\n")
    (tmp_path / "run.toml").write_text(run_file())
    context = prepare(tmp_path / "run.toml").context
    names = [a.name for a in context.plan.schema.attributes]
    first = {a.name: a.labels[0] for a in context.plan.schema.attributes}
    header = "geocode," + ",".join(names)
    plain, coded = tmp_path / "plain.csv", tmp_path / "coded.csv"
    row = ["123", *first.values()]
    plain.write_text(header + "\n" + ",".join(row) + "\n")
    coded.write_text(header + "\n" + ",".join(["123", "", *["x"] * (len(names) - 1)]) + "\n")
    values = {name: ValueLabels(labels={"x": first[name]}, blank=first[name]) for name in names}
    found = [
        load_records(path, context, RecordsForm(has_count=False, values=of), list_errors=False).open_counts()
        for path, of in ((plain, {}), (coded, values))
    ]
    assert found[0].key.tolist() == found[1].key.tolist()
    with pytest.raises(DataError) as refused:
        load_records(coded, context, RecordsForm(has_count=False), list_errors=False)
    assert refused.value.code == "D031"
