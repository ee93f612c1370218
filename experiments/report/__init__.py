"""Shared parts of the pages of all kinds: the frame, tables, figures, colours, words for
numbers."""
