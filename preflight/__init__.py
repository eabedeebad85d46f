"""The suite: what is checked, in the user's words."""
