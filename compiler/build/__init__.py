"""The driver: from a user's request to a build, its folder, its figures, its runs.

Must not know click, nor any one target.
"""
