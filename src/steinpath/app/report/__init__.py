"""The report: one self-contained HTML page that loads nothing from a network.

`build` collects the content of a fit as plain data (`content`); `page` renders it with jinja2.
"""
