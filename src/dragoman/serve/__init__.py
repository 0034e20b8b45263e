"""Models over HTTP, and a page that shows what they do."""
