"""What several pages use; imports no page."""
