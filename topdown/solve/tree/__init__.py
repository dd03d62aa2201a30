"""One estimate for the whole tree: generalised least squares over all levels, its variances, its judge."""
