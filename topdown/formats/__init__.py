"""The form of every file and document that the engine writes, declared once; documents as bytes; caps on reading."""

from topdown.formats.json_schema import DOCUMENTS, document_names, document_schema, json_bytes

__all__ = ["DOCUMENTS", "document_names", "document_schema", "json_bytes"]
