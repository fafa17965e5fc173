"""`triolet demo`: an agent answers a question about a folder, with tools that really read it."""
