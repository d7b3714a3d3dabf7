"""All rules, in the order in which equals are preferred."""

from __future__ import annotations

from fdarx_core.generation.baseline import (
    patterns_advice,
    patterns_dose,
    patterns_interaction,
    patterns_patient,
    patterns_pharmacology,
    patterns_pk,
    patterns_product,
    patterns_risk,
    patterns_studies,
    patterns_use,
)
from fdarx_core.generation.baseline.engine import Rule

RULES: tuple[Rule, ...] = (
    *patterns_dose.RULES,
    *patterns_product.RULES,
    *patterns_pk.RULES,
    *patterns_pharmacology.RULES,
    *patterns_use.RULES,
    *patterns_risk.RULES,
    *patterns_interaction.RULES,
    *patterns_advice.RULES,
    *patterns_studies.RULES,
    *patterns_patient.RULES,
)
