"""The program that the server starts for each Python worker."""
