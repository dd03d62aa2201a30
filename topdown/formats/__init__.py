"""The form of every file and document that the engine writes, declared once; documents as bytes; caps on reading."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.formats.accuracy_documents import IntervalsHeld
    from topdown.formats.caps import parse_exact, typed_number
    from topdown.formats.common import Count, EstimateOfLevel, LawName, Mechanism, Neighbours, Part, Rational
    from topdown.formats.json_schema import (
        DOCUMENTS,
        document_names,
        document_schema,
        either,
        json_bytes,
        schema_of,
    )
    from topdown.formats.kernels_lists import pack, unpack
    from topdown.formats.packed_lists import filled, list_form, listed
    from topdown.formats.plan_documents import Verdict
    from topdown.formats.release_documents import (
        LISTED_ROWS,
        TABLE_OPTIONS,
        TABLE_VERSIONS,
        Broken,
        CertifiedPrivacy,
        InvariantKindName,
        InvariantRules,
        Plan,
        Repair,
        SchemaOfRecords,
        Solve,
    )
    from topdown.formats.strict_toml import dec_hook, read_toml, toml_text

__getattr__ = lazy_face(__name__, __file__)
