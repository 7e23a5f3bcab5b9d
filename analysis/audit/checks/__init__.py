"""One question a module; each check is a pure function of a log and the limits."""
