"""Sessions of Spark: made, registered with, and the Java that they run on."""
