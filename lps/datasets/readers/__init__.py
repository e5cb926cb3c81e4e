"""Reading pictures and arrays from files in parts, and keeping them decoded: what several data sets share."""
