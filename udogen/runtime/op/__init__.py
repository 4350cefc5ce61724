"""One op in a session of its own: what is asked, what is watched, what comes back."""
