"""What a search found: best points measured again, importance, fronts and pictures."""
