"""The report: one HTML page that opens anywhere and asks nothing of a network.

`content` says what is in it, as plain data; `page` makes HTML of that.
"""
