"""Each system's names for what it logs, what it means by lag, and where a change is made."""
