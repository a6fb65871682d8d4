"""What the client's parts wait with: tasks that have an owner, patience, a word on what is waited
for, one turn of the loop, a bound of memory, a loop in a thread. They know nothing of messages."""
