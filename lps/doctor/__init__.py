"""Find problems of this machine and say how to fix them. Imports interop and below."""
