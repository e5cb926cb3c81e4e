"""Networks: backbone and classifier, their start weights, and data-parallel processes. Imports settings and below."""
