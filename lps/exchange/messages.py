"""The name of `lps.interop.notifications` up to version 0.3.0."""

import runpy

if __name__ == "__main__":
    runpy.run_module("lps.interop.notifications", run_name="__main__")
