"""Execution of compiled programs on IREE devices."""
