"""Fast equals of slow code, each with a plain reference and a test that holds them equal."""
