"""Solvers behind one seam: each module adapts one library and is imported only when it is used."""
