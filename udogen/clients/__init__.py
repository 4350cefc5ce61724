"""Programs that use op packages: requirements, scripts, sessions, meanings of their errors."""
