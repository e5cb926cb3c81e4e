"""What is wrong on this machine, and how to mend it. Imports exchange and below."""
