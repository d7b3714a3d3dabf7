"""Safety checks apart from FAS: what labels forbid, and flags for answers that go against it or lack a dose."""

from fdarx_core.factuality.safety.contraindications import contraindications_of
from fdarx_core.factuality.safety.flags import Safety
from fdarx_core.factuality.safety.table import ContraindicationTable, IngredientContraindication

__all__ = ["ContraindicationTable", "IngredientContraindication", "Safety", "contraindications_of"]
