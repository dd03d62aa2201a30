"""Publish: write the files of a release, and prove them right from the files alone."""
