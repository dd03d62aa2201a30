"""Constrained least squares: the problem, its quadratics, one driver of ADMM, one check of optimality, one policy."""
