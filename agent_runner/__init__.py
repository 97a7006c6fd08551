"""Runs agent turns behind a gate. Knows no chat product and never imports `cards` or `bot`."""
