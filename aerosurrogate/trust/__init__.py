"""How far to trust an answer: how familiar the shape is, how far off the number may be, whether the order is right."""
