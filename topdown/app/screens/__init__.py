"""What people see: text, tables, errors and progress, at any width, with or without colour and Unicode."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.app.screens.console import Painter, Screen
    from topdown.app.screens.error_screen import caret_span, show_error
    from topdown.app.screens.figures import decimal, loss
    from topdown.app.screens.noise_screen import continuous_document, counts_of, dependent_document, rules_of
    from topdown.app.screens.progress_bars import Progress
    from topdown.app.screens.text_layout import (
        OK,
        WARN,
        Column,
        Span,
        StreamLook,
        detect_look,
        line_width,
        table_lines,
        text_width,
        wrap,
    )

__getattr__ = lazy_face(__name__, __file__)
