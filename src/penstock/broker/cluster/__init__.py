"""What a broker does for its cluster: copies where they should be, preferred leaders, what nobody
else would finish."""
