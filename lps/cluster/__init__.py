"""Places away from this machine that carry runs out: one file each in `executors`. Imports settings and below."""
