"""Publish: write the files of a release, and sheets for ordinary programs."""

__all__ = []
