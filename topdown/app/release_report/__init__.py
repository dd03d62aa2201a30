"""A report of a release for people, as one HTML file made from its published files alone."""

from __future__ import annotations

from typing import Any

from topdown.app.calls import PathText, path_of, public_function
from topdown.app.read_release import Release
from topdown.app.release_report.numbers import derived_document, written
from topdown.app.release_report.pages import LANGUAGES, report_html
from topdown.errors import ConfigError
from topdown.formats.caps import read_plain
from topdown.formats.command_documents import ReportChecked, ReportWritten
from topdown.output_paths import write_new
from topdown.verify.report_numbers import count_numbers, false_numbers

__all__ = ["LANGUAGES", "check_report", "write_report", "written"]

DOCUMENTS = ("certificate.json", "plan.json", "solve.json")


def report_bytes(release: Release, language: str = "en") -> bytes:
    """Return the report of a release; equal releases have equal reports, byte for byte.

    Args:
        release: a finished release; verify it first.
        language: one of `LANGUAGES`.

    Raises:
        ConfigError: C005 no such language.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    if language not in LANGUAGES:
        raise ConfigError(
            f"there is no report in the language {language!r}",
            code="C005",
            fix=f"use one of: {', '.join(LANGUAGES)}",
        )
    return report_html(_documents_of(release), language).encode()


def _documents_of(release: Release) -> dict[str, Any]:
    """Return what a report is made from."""
    documents = {name: release.document(name) for name in DOCUMENTS}
    return documents | {"derived": derived_document(release)}


@public_function
def write_report(
    release: PathText, out: PathText, *, language: str = "en", force: bool = False
) -> ReportWritten:
    """Write a report of a release for people: one HTML file without scripts, made from published files alone.

    Args:
        release: folder of a finished release.
        out: file to write, outside the release.
        language: one of `LANGUAGES`.
        force: replace a file that is there.

    Raises:
        ConfigError: C088 the folder is no finished release, C005 no such language, or `out` is there.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    target, source = path_of(out, "out"), Release(release)
    data = report_bytes(source, language)
    write_new(target, data, force=force)
    return ReportWritten(
        release=source.plan.release.id,
        plan_hash=source.plan.plan_hash,
        out=str(target),
        language=language,
        n_bytes=len(data),
        n_numbers=data.count(b"<data "),
    )


@public_function
def check_report(release: PathText, path: PathText) -> ReportChecked:
    """Compare a report with a release: every number with its place, then all bytes with a report made anew.

    Numbers are read and rounded by code of verify's own; what is derived from tables is derived by that of the report.

    Args:
        release: folder of a finished release.
        path: the report.

    Raises:
        ConfigError: C088 the folder is no finished release, C001 there is no such file.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    file, source = path_of(path, "path"), Release(release)
    try:
        data = read_plain(file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} cannot be read",
            code="C001",
            file=str(file),
            fix="give the report that topdown report wrote",
        ) from error
    page, documents = data.decode(errors="replace"), _documents_of(source)
    findings = list(false_numbers(page, documents))
    language = next((one for one in LANGUAGES if report_html(documents, one).encode() == data), None)
    if language is None and not findings:
        findings = ["its words or marks are not those of a report made anew, though its numbers are"]
    return ReportChecked(
        ok=not findings,
        release=source.plan.release.id,
        language=language,
        n_numbers=count_numbers(page),
        findings=findings,
    )
