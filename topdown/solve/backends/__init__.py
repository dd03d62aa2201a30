"""Solvers behind one seam: a module adapts one library, and only it imports that."""
