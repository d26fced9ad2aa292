"""From a shape to a better one: ways to move a skin, the way down the gradient, and both ends solved."""
