"""Claims as pictures, drawn without a display and with the same bytes for the same results."""
