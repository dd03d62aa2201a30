"""Private choices from confidential records: which sites, in which order, which combinations.

One-sided mechanisms on a Poisson sample (PROOF.md). Callers hand in public structure and private incidence; what comes
back is the choice and a privacy event, nothing else.
"""
