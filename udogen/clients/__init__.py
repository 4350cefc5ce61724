"""Programs that use op packages: what each needs, scripts that run them, sessions of them, and what errors mean."""
