"""What an error number or a line of a log means, and what to try: rows, and those who look them up."""
