"""From event logs to tables, from tables to verdicts, from both to pictures.

Reads recorded runs only; nothing here can tell a simulated run from a real one but its header.
"""
