"""Tests of one group run in one worker: they share servers, a browser, an SDK that is slow to import."""

from __future__ import annotations

import pytest

GROUP = "kept-together"


@pytest.mark.xdist_group(GROUP)
def test_groups_are_kept_together(request: pytest.FixtureRequest) -> None:
    """The id names the group, which pytest-xdist goes by: without it, it scatters them and says nothing."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("not run with --dist loadgroup")
    assert request.node.nodeid.endswith(f"@{GROUP}")
