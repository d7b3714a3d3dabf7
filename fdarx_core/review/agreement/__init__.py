"""How far judges and people agree, and people with each other. Source: FDARxBench §A.1, Tables 3, 4 and 5."""

from fdarx_core.review.agreement.confusion import TIE, UNDECIDED, Confusion
from fdarx_core.review.agreement.figures import AgreementFigure
from fdarx_core.review.agreement.measuring import Agreement, Tally, measure
from fdarx_core.review.agreement.tables import TASK_NAMES, table_3, table_4, table_5
from fdarx_core.review.agreement.votes import Voted, collect, consensus, unanimous

__all__ = [
    "TASK_NAMES",
    "TIE",
    "UNDECIDED",
    "Agreement",
    "AgreementFigure",
    "Confusion",
    "Tally",
    "Voted",
    "collect",
    "consensus",
    "measure",
    "table_3",
    "table_4",
    "table_5",
    "unanimous",
]
