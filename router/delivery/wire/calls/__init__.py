"""Call services over NATS: request-reply with a deadline, and streams. The content of a call is not
looked at here.

connected       waits for a lost connection before a request is sent
request_reply   one request, one reply, within its time
stream          one request, many pieces; unsubscribes when the reader leaves
reply_streams   the other end: pieces sent to an inbox until the last one, or until no reader
                listens there
"""
