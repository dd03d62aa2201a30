"""Nouns only: frozen values, no input or output."""
