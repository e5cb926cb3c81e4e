"""The name of `lps.interop` up to version 0.3.0: runners that were started by it still call one module of it."""
