"""Check whether all of a snapshot is there and can be read, and which user classes it mentions.

May import: model and the packages below it. A snapshot is passed as its operators; nothing here opens one.
"""
