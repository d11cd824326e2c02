"""Penalty and iterate, chosen together by their estimated risk."""
