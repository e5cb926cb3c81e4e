"""The dashboard: one folder per page, and the parts that pages share. Only this package imports Streamlit."""
