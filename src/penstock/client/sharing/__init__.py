"""Reading together with others: messages leased one by one, and what became of them."""
