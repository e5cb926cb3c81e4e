"""How the dashboard is served: access rules, start, menu, uploads and downloads, toasts. Imports no page."""
