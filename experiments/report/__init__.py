"""What the pages of all kinds share: the frame, tables, figures, colours, words for numbers."""
