"""Query many runs at once: filter, columns, groups, comparison of two runs, saved views. Imports analysis and below; no
Streamlit, no pandas.
"""
