"""What is asked of many runs at once: filter, columns, groups, two side by side, views that are kept. Imports analysis
and below; no Streamlit, no pandas."""
