"""Speed, side by side with peers in one run. Read README.md first."""
