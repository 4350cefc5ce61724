"""Model -> tree of files: plan (data), render (templates), write (effects)."""
