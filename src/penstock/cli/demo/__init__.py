"""`penstock demo`, and a broker as a child process, as the demonstration and `penstock bench` need
one."""
