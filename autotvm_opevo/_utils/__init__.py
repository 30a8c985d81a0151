"""Helpers that know nothing of tuning: files, imports, text, validation."""
