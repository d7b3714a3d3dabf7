"""Words by what they do in a clause: English auxiliaries, and the verbs that answers on drugs and diseases use."""

from __future__ import annotations


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
