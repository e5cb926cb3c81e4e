"""The contract of a method; one file a method, the folder listing is the registry. Adding one edits nothing else."""
