"""The baseline's sorting of questions: by the words they ask with, then by the section they were written from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from fdarx_core.labels.topics import (
    ADVERSE,
    CONTRAINDICATIONS,
    DOSAGE,
    FORMS,
    INDICATIONS,
    INTERACTIONS,
    PHARMACOKINETICS,
    POPULATIONS,
    SAFETY,
    Topic,
    topic_of,
)

NO_TOPIC: Final = "None / Irrelevant"

Relevance = Literal["relevant", "somewhat", "irrelevant"]

_ASKED: tuple[tuple[Topic, str], ...] = (
    (CONTRAINDICATIONS, r"contraindicat|rules? out|must .{0,80}?\bnot|should .{0,80}?\bnot be|who should not|forb"),
    (
        INTERACTIONS,
        r"interact|concomitant|concurrent|co-?administ|combin|together with|taken with|with food|vaccin|inhibitor|"
        r"inducer|wait between|abstain|result of",
    ),
    (
        PHARMACOKINETICS,
        r"half-li|absor|bioavailab|plasma|clearance|eliminat|metaboli[sz]|excret|cmax|auc|tmax|distribut|exposure|"
        r"protein|steady.state|mechanism|pharmaco|concentration|receptor|enzyme|cyp\d|acts?\b|inhibit|removed|"
        r"disposition|kind of drug|body handle",
    ),
    (
        POPULATIONS,
        r"pregnan|lactat|breast|nursing|milk|child|p(?:a|e|ae)diatric|infant|newborn|neonat|geriatric|elderly|older|"
        r"renal|hepatic|kidney|liver|women|fertil|infertil|reproducti|fetal|fetus|labor|population|impairment|"
        r"human data|groups?",
    ),
    (
        ADVERSE,
        r"adverse|undesirable|side effect|reaction|frequen|how (?:common|often)|incidence|percent|report|rate of|"
        r"associated|observed|experience|since approval|postmarketing",
    ),
    (
        FORMS,
        r"strength|form|inactive|ingredient|excipient|contain|suppl|stor(?:e|age)|packag|tablet|capsule|molecul|"
        r"formula|structur|solub|appear|available|composition|describ|purpose|obtained|presentation|chemical|"
        r"physical|free of|made with|colou?r|disposed?\b|disposal",
    ),
    (
        DOSAGE,
        r"dos(?:e|ing|age)|administ|titrat|how (?:much|should)|regimen|infus|inject|take|taken|schedule|overdos|start|"
        r"given|adjust|daily|interval|level|restart|withheld|swallow|course of|begun",
    ),
    (
        INDICATIONS,
        r"indicat|approv|treat|use[ds]?\b|trial|stud(?:y|ies)|efficacy|endpoint|benefit|suited|conditions?|baseline|follow-up",
    ),
    (
        SAFETY,
        r"warn|risk|precaution|monitor|caution|hazard|toxic|danger|harm|serious|advis|advice|abuse|depend|controlled|"
        r"carcino|mutagen|tell|told|counsel|inform|symptom|sign|screen|test|discontinu|stop|avoid|cause|occur|watch|"
        r"check|measure|safe|planned|done|consider|special|step|call(?:s|ed)? for|recommend|effect|happen|emergency|"
        r"deteriorat|worse",
    ),
)
_TOPICS = tuple((topic, re.compile(rf"\b(?:{words})")) for topic, words in _ASKED)
_SAYS = re.compile(r"\b(?:say|state|address|give|list|explain|mention|name)s?\b")
_OUTSIDE = re.compile(
    r"telephone|phone number|toll-free|(?:mailing|street|postal|what|which|company'?s?) address|address of|"
    r"\bweb ?site|trademark|copyright|\bndc\b|manufactured|manufacturer|distributor|distributed by|\brevised\b|"
    r"revision|\bprices?\b|\bcosts?\b|who makes|\bcompany\b|\blogo\b|bar ?code|lot number|expiration date"
)
_WEAK = re.compile(
    r"\bcolou?r\b|imprint|deboss|look like|\bdispose|disposal|throw away|flush(?:ed)? down|sponsor|\bodou?r\b|\bsmell"
)


def relevance(slots: Mapping[str, Any]) -> tuple[Topic | Literal["None / Irrelevant"], Relevance]:
    """The topic of a question and how much it matters.

    Of the topics that its words ask for, that of its sections comes first, then the most particular; a question that
    only wants to know what the label says falls under its section's. None where neither tells.
    """
    asked = str(slots["question"]).lower().replace(str(slots["drug"]).lower(), " ")
    topics = [topic for topic, words in _TOPICS if words.search(asked)]
    written_from = [topic for topic in map(topic_of, slots["section_codes"]) if topic]
    if not topics and _SAYS.search(asked):
        topics = written_from
    if not topics or _OUTSIDE.search(asked):
        return NO_TOPIC, "irrelevant"
    topic = next((topic for topic in written_from if topic in topics), topics[0])
    return topic, "somewhat" if _WEAK.search(asked) else "relevant"
