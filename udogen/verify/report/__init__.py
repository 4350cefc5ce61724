"""Reports of a test run, all written from a `TestRun`.

terminal   what failed, the matrix, what did not run, the sum
machine    JSON and JUnit XML
page       the HTML report, with templates/report
problems   failed cases in it, by cause
pictures   one failing output as SVG
text       numbers and names as text
"""
