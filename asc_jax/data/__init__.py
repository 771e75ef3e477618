"""Corpora, their split, and the order in which a run sees them (no jax)."""
