"""Analysis of runs: scores, groups, effects, clusters, names, maps. Imports scores, store and below; no Streamlit."""
