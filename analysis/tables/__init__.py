"""Claims as tables: the rows every format shares, and how each format writes them."""
