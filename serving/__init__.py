"""Ray Serve applications, and what they serve over HTTP."""
