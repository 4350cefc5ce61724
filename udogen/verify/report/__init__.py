"""The HTML report of `udogen test`: one file that needs nothing else, made from a `TestRun` alone.

page       the file: facts of the run into templates/report
story      what is said: verdict, failures, matrix, backends, costs, environment
closeup    one failing output: the slice that is worst, how its errors are spread
pictures   slices and spreads as SVG
palette    colours, in light and dark, and what must be readable on what
"""
