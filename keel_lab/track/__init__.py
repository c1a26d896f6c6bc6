"""Mirrors of what is in storage: trackers can be rebuilt from it and their absence stops nothing."""
