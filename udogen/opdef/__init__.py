"""What an op is: the model, and the languages it is written in."""
