"""The HTML report of `udogen test`: one file that needs nothing else, made from a `TestRun` alone.

page       the file: facts of the run into templates/report
story      the verdict, what it depends on, every case that is not wrong
failures   what is wrong, by cause
matrix     op and data type by backend, and why some backends did not run
costs      times, packets, bytes; against numpy, the vendor's own op, an earlier run
closeup    one failing output: the slice that is worst, how its errors are spread
pictures   slices and spreads as SVG
palette    colours, in light and dark, and what must be readable on what
words      numbers and names as a person reads them, and what makes them safe in HTML
"""
