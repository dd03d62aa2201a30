"""The form of every file and document that the engine writes, declared once; documents as bytes; caps on reading."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.formats.json_schema import DOCUMENTS, document_names, document_schema, json_bytes

__all__ = ["DOCUMENTS", "document_names", "document_schema", "json_bytes"]

__getattr__ = lazy_face(__name__, __file__)
