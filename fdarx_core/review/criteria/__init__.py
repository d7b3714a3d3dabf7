"""What people remark becomes a change to the judges' criteria, measured before a person accepts it."""
