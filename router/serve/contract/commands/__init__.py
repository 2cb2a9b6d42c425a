"""`router contract`: what every subject, header and message is, for programs in any language;
messages checked against it; who broke it.
"""
