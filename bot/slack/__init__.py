"""The Slack platform: its wire, its payloads, its API."""
