"""What an answer claims, statement by statement."""

from fdarx_core.factuality.claims.claims import Said, claims_of, numbered

__all__ = ["Said", "claims_of", "numbered"]
