"""Attribution of a kernel summary: no timeline, only how often each kernel ran and how long.

rows (CSV in) -> passes (what the counts have in common) -> parts (which phase each row is) ->
result (the same document as for a trace; what needs a timeline is withheld).
"""
