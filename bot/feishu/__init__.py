"""Feishu and Lark: the wire, what comes in, and what is posted."""
