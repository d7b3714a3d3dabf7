"""The first filters of questions: rules, and the removal of duplicates."""

from fdarx_core.filters.duplicates import drop_duplicates as drop_duplicates
from fdarx_core.filters.rules import LabelEvidence as LabelEvidence
from fdarx_core.filters.rules import first_failure as first_failure
