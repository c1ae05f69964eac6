"""Other programs that run the same weights: what they read, and how they are asked."""
