"""The sides of the questions as processes: the router, its yardsticks, and who asks them. Each
function is a `child.Task`.
"""
