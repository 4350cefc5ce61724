"""Single ops in sessions: calls, watches, results."""
