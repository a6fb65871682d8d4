"""A data folder read without a broker."""
