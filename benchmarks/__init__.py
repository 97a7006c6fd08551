"""Reports of speed and memory, as ratios; run by hand, never asserted."""
