"""The deciding rooms: functions read a message and return an outcome; none of them touches the broker.

decide        a decide request in, a decision out
reports       what workers report: acks, results, heartbeats
extensions    the services that a request passes, and the providers
policy        policies as data, and the choice that a policy makes
measurements  what is learned of providers from results
breakers      circuit breakers: a service that failed too often is not called for a while
"""
