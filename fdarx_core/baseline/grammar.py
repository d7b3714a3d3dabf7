"""Words by what they do in a clause: English auxiliaries, and the verbs that answers on drugs and diseases use."""

from __future__ import annotations

import re
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SINGULAR = _words("is was has does isn't wasn't hasn't doesn't")
PLURAL = _words("are were have do aren't weren't haven't don't")
PAST_AUXILIARIES = _words("did had didn't hadn't")
MODALS = _words("""can could may might must shall should will would cannot can't couldn't shouldn't won't wouldn't""")
AUXILIARIES = SINGULAR | PLURAL | PAST_AUXILIARIES | MODALS
VERBS = _words(
    """absorb accelerate accumulate achieve act activate advise affect aggravate aim allow alter appear arise attach
    attack become begin believe belong bind block break bring call carry cause circulate clear come compete
    complain comprise concern confirm consider consist constitute contain continue contract contribute control
    convert correlate cover create cross damage decline decrease delay deliver depend describe destroy deteriorate
    determine develop diagnose differ diffuse digest dilate diminish disappear display disrupt dissolve disturb
    earn eliminate enable encourage enhance enlarge enter establish evaluate exceed excrete exert exhibit exist
    expand experience explain expose fail feel fight fluctuate follow form function gain get give go grow happen
    help hinder impair improve include increase indicate induce infect inhibit interact interfere invade involve
    irritate keep kill know lack last lead leave lie lose lower maintain make mean measure metabolise metabolize
    migrate mimic modulate multiply necessitate need neutralize occur offer originate overlap persist play pose
    possess potentiate predispose prefer prescribe present prevent proceed produce progress prolong promote
    protect prove provide raise range reach react receive recommend recur reduce refer regulate relate relax
    release relieve rely remain remove repair replace represent require resolve respond restore result reverse
    rise run seem serve show slow speak spread start stay stimulate stop suffer suggest supply suppress take talk
    target tend think transmit treat trigger undergo use vary want weaken widen work worsen yield"""
)
NOUNS_WITH_S = _words(
    """attack block break cause concern control cover cross damage decline decrease delay experience form function
    gain increase measure need present range release result run show slow start stop target trigger use work yield"""
)
"""Verbs whose forms with s are nouns too: verbs only where an object or an adverbial follows."""
NOUNS = NOUNS_WITH_S | _words(
    """act aim fight follow grow help lack last lead leave lie mean play pose reach spread stay treat want"""
)
"""The same of forms without s."""
OBJECT_NEXT = _words(
    """the a an your his her its their this that these those by in on for with as at to from up down out off about
    several many some any no both more less little only directly faster longer quickly well not you patients"""
)
PAST = _words(
    """occurred caused increased decreased reduced showed improved resulted developed produced inhibited prevented
    experienced received demonstrated found became led began appeared remained reported revealed suggested
    contained included required died had"""
)
CONTRACTED = _words(
    """it's that's there's he's she's what's they're you're we're they've you've we've they'll you'll it'll we'll"""
)
COMMANDS = _words(
    """arrange ask be call contact ensure look notify order reassess record refer remember report request see warn
    adjust administer advise apply assess avoid begin check choose clean consider continue counsel decrease dilute
    discard discontinue discuss dissolve do don't drink eat evaluate exercise follow get give increase inform
    infuse initiate inject inspect instruct interrupt keep limit lower maintain make measure mix monitor never
    obtain perform place premedicate prepare prescribe protect read reduce refrigerate remove repeat rest restrict
    rinse rotate save seek shake start stay stop store swab swallow switch take taper tell test titrate treat try
    use wait wash wear withhold"""
)
SUBORDINATORS = _words(
    """that which who whom whose if when whenever while because since unless until till although though whereas where
    wherever whether after before once than what how why so"""
)
NO_SUBJECT = _words(
    """there here what which who that and or but nor not the a an to in on of for with by from at during under as if
    when while because since although unless until after before both either neither"""
)
PREPOSITIONS = _words(
    """of in on at for with from by to during between among under over after before against within without through
    despite per including like such about into upon via following compared according versus"""
)
CONJUNCTIONS = _words("when if unless because once while although though since")
ADVERBS = _words("also then therefore thus usually often generally typically sometimes commonly never always most more")
PERSONS = _words("patients people women men children adults individuals doctors persons babies infants")
PRONOUNS = _words("it they this these that those he she you we i one some many most others such")


def _third(verb: str) -> str:
    if verb.endswith(("s", "x", "sh", "ch", "go", "undergo")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeiou" else f"{verb}s"


_THIRD = {_third(verb): verb for verb in VERBS}
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
_WH = re.compile(
    r"(?:what|who|whose|which|where|why|how)\b(?!,)|when (?:should|can|do|does|is|are|will|to)\b", re.IGNORECASE
)
_FRAME = re.compile(
    r"(?!at (?:most|least)\b)(?:in|for|during|after|before|at|among|when|if|with|without|on|under|following|unless|"
    r"because|due to|once|while|"
    r"although|though|since|as|by|to|like|unlike|despite|upon|prior to|compared)\b[^,;:]{1,140},\s+",
    re.IGNORECASE,
)
_LONGEST_SUBJECT = 9


@dataclass(frozen=True, slots=True)
class ClauseCore:
    """A clause's subject `text[start:verb]`, and its finite verb `word`; `number` is singular, plural or ""."""

    start: int
    verb: int
    verb_end: int
    word: str
    number: str


def spoken(text: str, start: int = 0, end: int | None = None) -> list[re.Match[str]]:
    """The words of `text[start:end]`, with their places in the text."""
    return list(_WORD.finditer(text, start, len(text) if end is None else end))


def plain(word: re.Match[str]) -> str:
    """A word in lower case, with a plain apostrophe."""
    return word[0].lower().replace("’", "'")


def finite(words: list[re.Match[str]], at: int) -> str | None:
    """The number that the word asks of its subject, where it is a finite verb: singular, plural or "" (a modal)."""
    word = plain(words[at])
    if word in MODALS or word in PAST_AUXILIARIES:
        return ""
    if word in SINGULAR:
        return "singular"
    if word in PLURAL:
        return "plural"
    if word in _THIRD:
        return "singular" if _THIRD[word] not in NOUNS_WITH_S or _object_follows(words, at) else None
    if word in VERBS and at and not _to_before(words, at):
        return "plural" if word not in NOUNS or _object_follows(words, at) else None
    return None


def _object_follows(words: list[re.Match[str]], at: int) -> bool:
    following = plain(words[at + 1]) if at + 1 < len(words) else ""
    return following in OBJECT_NEXT or following[:1].isdigit()


def _to_before(words: list[re.Match[str]], at: int) -> bool:
    """An infinitive ("to reduce", "can also reduce"), or a noun after an article."""
    return any(
        plain(word) in MODALS | {"to", "not", "the", "a", "an", "does", "do", "did"}
        for word in words[max(0, at - 2) : at]
    )


def core_of(text: str, start: int = 0, end: int | None = None) -> ClauseCore | None:
    """Subject and verb of the clause that `text[start:end]` begins with; None where they can't be told for certain."""
    words = spoken(text, start, end)
    for at, word in enumerate(words):
        if at > _LONGEST_SUBJECT or (at and plain(word) in SUBORDINATORS):
            return None
        number = finite(words, at)
        if number is None:
            continue
        if not at or plain(words[at - 1]) in NO_SUBJECT:
            if number != "" and at and plain(words[at - 1]) in ("the", "a", "an", "of"):
                continue
            return None
        between = text[words[0].start() : word.start()]
        if "," in between or ";" in between or ":" in between or between.count("(") != between.count(")"):
            return None
        return ClauseCore(words[0].start(), word.start(), word.end(), plain(word), number)
    return None


def frame_end(text: str, start: int = 0) -> int:
    """Where what stands before a subject and a comma ("In children, ") ends; `start` where nothing does."""
    found = _FRAME.match(text, start)
    if not found:
        return start
    words = spoken(text, start, found.end())
    clause = plain(words[0]) in CONJUNCTIONS
    return found.end() if not clause or any(finite(words, at) is not None for at in range(1, len(words))) else start


def has_verb(text: str) -> bool:
    """Whether something is said of something, or commanded."""
    words = spoken(text)
    return any(_says(words, at) for at in range(len(words))) or commands(text) or commands(text[frame_end(text) :])


def _says(words: list[re.Match[str]], at: int) -> bool:
    """A finite verb, or what can be little else: "it's", a word in -s or -ed between a noun and an article."""
    word = plain(words[at])
    if finite(words, at) is not None or word in CONTRACTED or (at > 0 and word in PAST):
        return True
    ending = word.endswith("ed") or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
    return 0 < at < len(words) - 1 and ending and plain(words[at + 1]) in ("the", "a", "an", "that", "why", "how")


def commands(text: str) -> bool:
    """Whether it begins with an imperative ("Do not use …", "Avoid …")."""
    words = spoken(text)
    return len(words) > 1 and plain(words[0]) in COMMANDS


def begins_question(text: str) -> bool:
    """Whether a line without a question mark asks ("What are the side effects"), as headings of model answers do."""
    return bool(_WH.match(text.lstrip("*_ \t")))


def asks(text: str) -> bool:
    """Whether a sentence with a question mark asks."""
    return text.rstrip("*_\"”’')] \t").endswith("?")


def is_adverb(word: str) -> bool:
    """Whether it may stand between a subject and its verb."""
    return word in ADVERBS or (word.endswith("ly") and len(word) > 4)


def is_simple(subject: str) -> bool:
    """A short noun phrase that holds no other noun which a pronoun might mean."""
    words = [plain(word) for word in spoken(subject)]
    return 0 < len(words) <= 5 and not PREPOSITIONS.intersection(words) and not SUBORDINATORS.intersection(words)


def number_of(subject: str, verb_number: str = "") -> str:
    """Singular or plural; the verb tells, else how the subject's noun ends; "" of nothing."""
    words = [plain(word) for word in spoken(subject)]
    if verb_number or not words:
        return verb_number
    head = next((at for at, word in enumerate(words) if word in PREPOSITIONS), len(words))
    noun = words[max(0, head - 1)]
    plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is", "as", "os", "ics"))
    return "plural" if plural or "and" in words[:head] or noun in PERSONS else "singular"


def agree(one: str, other: str) -> bool:
    """Whether two verbs can be of one subject, by the numbers that they ask of it."""
    return not one or not other or one == other


def third_to_base(verb: str) -> str | None:
    """ "treats" gives "treat"; None for what is no verb of the lists."""
    return _THIRD.get(verb)


def is_base(verb: str) -> bool:
    return verb in VERBS


def is_said(text: str) -> bool:
    """Whether it holds a word."""
    return _WORD.search(text) is not None
