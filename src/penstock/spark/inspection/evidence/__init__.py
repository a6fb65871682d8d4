"""What a Spark job finds out about a topic, before anything is concluded from it."""
