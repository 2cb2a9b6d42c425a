"""`router usage`: the usage stream into tables, and reports from the tables."""
