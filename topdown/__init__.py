"""Private, consistent census releases: generate, enforce, audit."""

__version__ = "0.1.0"
