"""Write, read and lock files atomically. Imports only `lps.errors`."""
