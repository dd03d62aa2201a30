"""Noise of least expected loss for one query: laws, their certificates, and an independent check of both."""
