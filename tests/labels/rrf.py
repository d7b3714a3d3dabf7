"""The two files of RxNorm's prescribable content, with invented drugs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

RXNCONSO = """\
1|ENG||||||1|1|1||RXNORM|IN|1|kestrelol||N|4096|
1|ENG||||||2|2|1||MTHSPL|SU|KESTRELOL ANHYDROUS UNII|KESTRELOL ANHYDROUS||N|4096|
1|ENG||||||3|3|1||MTHSPL|SU|KESTRELOL UNII|KESTRELOL||N|4096|
2|ENG||||||4|4|2||RXNORM|PIN|2|kestrelol besylate||N|4096|
3|ENG||||||5|5|3||RXNORM|BN|3|Kestra||N|4096|
4|ENG||||||6|6|4||RXNORM|BN|4|Kestra Duo||N|4096|
5|ENG||||||7|7|5||RXNORM|IN|5|ortavelin||N|4096|
6|ENG||||||8|8|6||RXNORM|MIN|6|kestrelol / ortavelin||N|4096|
7|ENG||||||9|9|7||RXNORM|BN|7|Oldname||O|4096|
8|ENG||||||10|10|8||RXNORM|SCD|8|kestrelol 5 MG Oral Tablet||N|4096|
9|ENG||||||11|11|9||RXNORM|BN|9|Ortabrand||N|4096|
"""
RXNREL = """\
1||CUI|RN|2||CUI|has_form|1||RXNORM|||||4096|
1||CUI|RN|3||CUI|tradename_of|2||RXNORM|||||4096|
4||CUI|RN|1||CUI|has_tradename|3||RXNORM|||||4096|
5||CUI|RN|4||CUI|tradename_of|4||RXNORM|||||4096|
6||CUI|RN|1||CUI|part_of|5||RXNORM|||||4096|
6||CUI|RN|5||CUI|part_of|6||RXNORM|||||4096|
1||CUI|RN|7||CUI|tradename_of|7||RXNORM|||||4096|
5||CUI|RN|9||CUI|tradename_of|8||RXNORM|||||4096|
damaged
"""


def write_names(folder: Path, brands: Mapping[str, str]) -> None:
    """Write RxNorm's files with ingredients, each with a brand or "", where `fdarx fetch --names` puts them below."""
    place = folder / "fdarx" / "names"
    place.mkdir(parents=True)
    concepts, relations = "", ""
    for at, (ingredient, brand) in enumerate(brands.items()):
        one, other = 2 * at, 2 * at + 1
        concepts += f"{one}|ENG||||||1|1|{one}||RXNORM|IN|{one}|{ingredient}||N|4096|\n"
        if brand:
            concepts += f"{other}|ENG||||||1|1|{other}||RXNORM|BN|{other}|{brand}||N|4096|\n"
            relations += f"{one}||CUI|RN|{other}||CUI|tradename_of|{one}||RXNORM|||||4096|\n"
    (place / "RXNCONSO.RRF").write_text(concepts)
    (place / "RXNREL.RRF").write_text(relations)
