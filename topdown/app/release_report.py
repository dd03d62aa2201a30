"""A report of a release for people, as one HTML file made from its published files alone."""

from __future__ import annotations

from topdown.app.calls import PathText, checked_language, path_of, public_function
from topdown.app.read_release import Release, damaged_release
from topdown.errors import ConfigError
from topdown.formats.caps import read_plain
from topdown.formats.command_documents import ReportChecked, ReportWritten
from topdown.formats.report_parts import LANGUAGES
from topdown.output_paths import write_new
from topdown.plan import load_context
from topdown.publish import report_bytes
from topdown.verify import check_report_file


@public_function
def write_report(
    release: PathText, out: PathText, *, language: str = "en", force: bool = False
) -> ReportWritten:
    """Write a report of a release for people: one HTML file without scripts, made from published files alone.

    Args:
        release: folder of a finished release; verify it first. Equal releases have equal reports, byte for byte.
        out: file to write, outside the release.
        language: one of `LANGUAGES`.
        force: replace a file that is there.

    Raises:
        ConfigError: C088 the folder is no finished release, C005 no such language, or `out` is there.
        CertificateError: V090 a file of the release is missing or damaged.
    """
    target, source = path_of(out, "out"), Release(release)
    checked_language(language)
    try:
        data = report_bytes(source.path, load_context(source.path), language)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise damaged_release(source.path, type(error).__name__) from None
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
    """Compare a report with a release: verify makes it anew, with figures and roundings of its own.

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
    found = check_report_file(source.path, data, str(file))
    language = next((one for one in LANGUAGES if f'<html lang="{one}">'.encode() in data), None)
    return ReportChecked(
        ok=found.ok,
        release=source.plan.release.id,
        language=language if found.ok else None,
        n_numbers=found.n_checked,
        findings=[f"{one.text}; due: {one.expected}; found: {one.found}" for one in found.findings],
    )
