"""Speed, as ratios within one run: `make bench` runs them all. Nothing here is a test."""
