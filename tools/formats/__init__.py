"""Checkpoint formats in plain numpy: containers and number formats, each written from its published rule. No other dependency."""
