"""What is wrong on this machine, and how to mend it. Imports interop and below."""
