"""Made-up censuses for demos, tutorials and tests: any schema, any size, nobody real."""

from topdown.practice.synth.write_census import SynthResult, synth

__all__ = ["SynthResult", "synth"]
