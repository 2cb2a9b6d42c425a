"""Asking a service over NATS, and hearing it: request-reply with a deadline, and streams. Motion: nothing here knows what is asked.

caller      one question, one answer, within its time
stream      one question, many pieces; leaves when nobody reads on
outlets     the other end: pieces sent to an inbox until the last one, or until nobody listens there
"""
