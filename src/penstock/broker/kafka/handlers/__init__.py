"""What each of Kafka's requests does: a function per API, named after it.

They take apart a request and put together its response; the work is done by the parts of the
broker that the handlers of our own protocol use as well.
"""
