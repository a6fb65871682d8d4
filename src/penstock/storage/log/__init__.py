"""A partition's log: a chain of segments that grows, is cut, is shortened, and says why something
is gone."""
