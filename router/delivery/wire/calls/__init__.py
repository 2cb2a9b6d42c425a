"""Call services over NATS: request-reply with a deadline, and streams. The content of a call is not
looked at here.

request_reply   one request, one reply, within its time, once a lost connection is back
request_server  each request answered once, and counted
stream          one request, many pieces; the sending end, which goes on until the last one, or
                until no reader listens there
"""
