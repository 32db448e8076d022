"""What `forebay.sql` is made of."""
