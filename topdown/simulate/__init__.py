"""Simulation: the noise and the solve of a plan, again and again, on made-up or public records. Never a release."""

from topdown.simulate.simulate import DEFAULT_SEED, Replicate, Simulation, open_simulation, simulate

__all__ = ["DEFAULT_SEED", "Replicate", "Simulation", "open_simulation", "simulate"]
