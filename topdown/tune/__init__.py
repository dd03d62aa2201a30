"""Shares of a budget that suit the whole-tree estimate: from a plan and public facts alone."""
