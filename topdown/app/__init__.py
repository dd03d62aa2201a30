"""Functions of the public API by subject, the commands of both programs and their screens."""

__all__ = []
