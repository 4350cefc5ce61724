"""Reports of a test run, all written from a `TestRun`.

terminal   what failed, the matrix, what did not run, the totals
machine    JSON and JUnit XML
merge      the JSON of several parts or machines as one
page       the HTML report, made with templates/report
problems   the failed cases in the HTML report, by cause, with their errors by size
text       numbers and names as text
"""
