"""Bytes on the wire, without sockets: frames, calls and their protobuf envelopes."""
