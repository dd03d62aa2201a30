"""Outlines of areas for the map of a report, from the office's own GeoJSON or TopoJSON: public, as the page is.

Longitudes and latitudes are drawn with the scale of the middle latitude; other coordinates as they are, north up.
Points are rounded to a grid, the coarsest that is needed for a page of a few hundred kilobytes, so that neighbours
keep one border.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import cos, isfinite, radians
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.formats.caps import parse_json, read_plain
from topdown.formats.report_parts import Outline, Outlines

BOUNDARY_BYTES = 64 * 2**20
WIDTH, HEIGHT = 1280, 1600
"""Units of a picture, at most."""
MOST_POINTS = 24_000
_SMALLEST_LABEL = 26
Ring = NDArray[np.float64]
GridRing = NDArray[np.int64]


def read_outlines(path: Path, key: str, codes: Sequence[str]) -> Outlines:
    """Read the outlines of areas.

    Args:
        path: GeoJSON (a FeatureCollection) or TopoJSON; polygons of other areas are left out.
        key: the property that holds the geocode of an area; `id` is also that of the feature itself.
        codes: geocodes of the areas that are drawn.

    Raises:
        ConfigError: D150 the file cannot be read, or its coordinates are no pairs of numbers; D151 areas are missing.
    """
    found: dict[str, list[Ring]] = {}
    try:
        wanted = set(codes)
        for code, rings in _areas(parse_json(read_plain(path, BOUNDARY_BYTES)), key):
            if code in wanted:
                found.setdefault(code, []).extend(rings)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path}: no outlines can be read: {error}",
            code="D150",
            file=str(path),
            fix="give a GeoJSON FeatureCollection or a TopoJSON file of polygons",
        ) from None
    missing = [code for code in codes if not found.get(code)]
    if missing:
        raise ConfigError(
            f"{path}: {len(missing):,} of {len(codes):,} areas have no outline of their {key}, first {missing[0]}",
            code="D151",
            file=str(path),
            fix="name the property that holds the geocodes of this level: --boundary-key",
        )
    size, scaled = _scaled(found)
    step = 1  # the finest grid that keeps paths short
    while True:
        rounded = {code: [_on_grid(ring, step) for ring in rings] for code, rings in scaled.items()}
        if sum(len(ring) for rings in rounded.values() for ring in rings) <= MOST_POINTS or step > WIDTH:
            break
        step *= 2
    return Outlines(
        path.name, size, {code: _outline(rings, scaled[code][0], step) for code, rings in rounded.items()}
    )


def _areas(document: Any, key: str) -> Iterator[tuple[str, list[Ring]]]:
    """Yield the code and the rings of every area of a TopoJSON or GeoJSON document."""
    if document["type"] == "Topology":
        arcs = [_decoded(arc, document.get("transform")) for arc in document["arcs"]]
        for one in document["objects"].values():
            for geometry in one["geometries"] if one["type"] == "GeometryCollection" else [one]:
                rings = _rings(geometry, geometry.get("arcs"))
                yield _code(geometry, key), [_joined(arcs, ring) for ring in rings]
        return
    if document["type"] != "FeatureCollection":
        raise ValueError(f"it is a {document['type']}")
    for feature in document["features"]:
        geometry = feature["geometry"] or {"type": None}
        yield (_code(feature, key), [_points(ring) for ring in _rings(geometry, geometry.get("coordinates"))])


def _code(feature: Any, key: str) -> str:
    properties = feature.get("properties") or {}
    return str(properties.get(key, feature.get("id") if key == "id" else None))


def _rings(geometry: Any, polygons: Any) -> Iterable[Any]:
    """Return the rings of a polygon or of several; what has no surface has none."""
    if geometry["type"] == "Polygon":
        return list(polygons)
    return [ring for polygon in polygons for ring in polygon] if geometry["type"] == "MultiPolygon" else []


def _points(ring: Any) -> Ring:
    points = np.array([point[:2] for point in ring], dtype=np.float64).reshape(-1, 2)
    if not np.isfinite(points).all():
        raise ValueError("a coordinate is no number")
    return points


def _decoded(arc: Any, transform: Any) -> Ring:
    """Return the points of an arc of TopoJSON: with a transform each is the step from the one before."""
    points = _points(arc)
    if transform is None:
        return points
    scale, start = _points([transform["scale"], transform["translate"]])
    absolute: Ring = points.cumsum(axis=0) * scale + start
    return absolute


def _joined(arcs: list[Ring], ring: Any) -> Ring:
    """Return the points of arcs, one after another; ~i is arc i backwards."""
    return np.concatenate([arcs[i] if i >= 0 else arcs[~i][::-1] for i in ring])


def _scaled(found: dict[str, list[Ring]]) -> tuple[tuple[int, int], dict[str, list[Ring]]]:
    """Return the size of the picture, and all rings in its units, north up."""
    everything = np.concatenate([ring for rings in found.values() for ring in rings])
    on_globe = bool((np.abs(everything) <= (180, 90)).all())
    west = on_globe and float(np.ptp(everything[:, 0])) > 180  # areas on both sides of the date line
    middle = float(everything[:, 1].min() + everything[:, 1].max()) / 2
    stretch = cos(radians(middle)) if on_globe else 1.0

    def flat(points: Ring) -> Ring:
        x = np.where(west & (points[:, 0] < 0), points[:, 0] + 360, points[:, 0])
        return np.stack([x * stretch, -points[:, 1]], axis=1)

    shown = flat(everything)
    low, extent = shown.min(axis=0), np.ptp(shown, axis=0)
    scale = min(WIDTH / max(float(extent[0]), 1e-12), HEIGHT / max(float(extent[1]), 1e-12))
    if not isfinite(scale):
        raise ValueError("the areas have no extent")
    size = (int(extent[0] * scale) + 2, int(extent[1] * scale) + 2)
    return size, {code: [(flat(ring) - low) * scale + 1 for ring in rings] for code, rings in found.items()}


def _on_grid(ring: Ring, step: int) -> GridRing:
    """Round the points of a ring to a grid, and leave out those that lie on the line between their neighbours."""
    points = np.rint(ring / step).astype(np.int64) * step
    for _ in range(2):  # what lay between two equal points is found the second time
        points = points[(points != np.roll(points, 1, axis=0)).any(axis=1)]
        before, after = points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points
        points = points[before[:, 0] * after[:, 1] != before[:, 1] * after[:, 0]]
    return points


def _outline(rings: list[GridRing], first: Ring, step: int) -> Outline:
    """Return the path of an area; one too small for the grid is a square of one step."""
    kept = [ring for ring in rings if len(ring) > 2]
    if not kept:
        x, y = (int(at) for at in np.rint(first[0]))
        return Outline(f"M{x} {y}h{step}v{step}h{-step}z", None)
    path = "".join(
        f"M{ring[0, 0]} {ring[0, 1]}l" + " ".join(map(str, np.diff(ring, axis=0).reshape(-1).tolist())) + "z"
        for ring in kept
    )
    largest = max(kept, key=lambda ring: abs(_twice_surface(ring)))
    return Outline(path, _label(largest))


def _twice_surface(ring: GridRing) -> int:
    x, y = ring[:, 0], ring[:, 1]
    return int((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())


def _label(ring: GridRing) -> tuple[int, int] | None:
    """Return the middle of the widest stretch of a ring at half of its height: it lies inside, whatever the shape."""
    low, high = ring.min(axis=0), ring.max(axis=0)
    if high[1] - low[1] < _SMALLEST_LABEL:
        return None
    height = (low[1] + high[1]) / 2 + 1e-6  # through no point of the grid
    one, other = ring, np.roll(ring, -1, axis=0)
    crossed = (one[:, 1] < height) != (other[:, 1] < height)
    a, b = one[crossed], other[crossed]
    at = np.sort(a[:, 0] + (height - a[:, 1]) * (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1]))
    inside = list(zip(at[::2].tolist(), at[1::2].tolist(), strict=True))
    left, right = max(inside, key=lambda ends: ends[1] - ends[0])
    return (round((left + right) / 2), round(float(height))) if right - left >= _SMALLEST_LABEL else None
