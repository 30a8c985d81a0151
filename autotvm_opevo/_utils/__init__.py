"""Helpers that have nothing to do with tuning: files, imports, text."""
