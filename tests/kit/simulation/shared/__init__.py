"""Shared groups: leases and settlements, with members who behave well or badly."""
