"""Fast equals of slow code: each has a plain reference beside it and a test that holds them equal."""
