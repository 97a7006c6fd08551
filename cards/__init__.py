"""Turns values of `agent_runner.model` into what people read, and back. Pure: data in, data out."""
