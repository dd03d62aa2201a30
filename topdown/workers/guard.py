"""Values that no worker is given."""

from __future__ import annotations

from collections.abc import Iterable

MARK = "stays_in_its_process"  # an attribute of classes of confidential values


def refuse_confidential(value: object) -> None:
    """Refuse a confidential value, or one that holds one directly: as attribute, or in a tuple, list or dict.

    It looks no deeper, so that it costs nothing to speak of; what is pickled on its way refuses at any depth.

    Raises:
        TypeError: the value is confidential.
    """
    if hasattr(type(value), MARK) or any(hasattr(type(one), MARK) for one in _inside(value)):
        raise TypeError("confidential records are given to no worker")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (tuple, list)):
        return value
    return getattr(value, "__dict__", {}).values()
