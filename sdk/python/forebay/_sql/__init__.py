"""The implementation of `forebay.sql`."""
