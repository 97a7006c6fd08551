"""What each of Feishu's error codes means for a message, in one table.

Sources, all below open.feishu.cn/document/server-docs: im-v1/message/{create,reply,get},
im-v1/message-card/{patch,delay-update-message-card}, im-v1/file/create, im-v1/chat/get,
contact-v3/user/{get,find_by_department}, api-call-guide/{generic-error-code,frequency-control};
for the long connection lark-oapi 1.7.5, ws/const.py, and its Go and Node siblings (1000040345).
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_runner.errors import CountersignError, FixConfiguration, FixInput, NotFound, TryLater
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown


class TokenSpent(Exception):
    """A click's right to change its card is over (30 min, 2 uses): patch the message instead."""


class NoThreads(Exception):
    """There are no threads in that chat or below that message: reply without one."""


TOKEN_REFUSED = frozenset((99991661, 99991663, 99991665))
"""The tenant token is missing, expired or unknown: a new one is fetched, once."""

CONNECTIONS_EXCEEDED = 1000040350

OUTCOMES: Mapping[int, type[Exception]] = {
    # Too much, or not to Feishu's taste: a simpler form of the same.
    **dict.fromkeys(
        (
            230001,  # a parameter is not valid; with the ids right, that is the content
            230022,  # sensitive words
            230025,  # too long: 30 KB for cards, 150 KB for text
            230028,  # data-leak audit: telephone numbers or mail addresses in the text
            230054,  # no such message type in this group
            230055,  # the file is of another type than the message
            230099,  # the card cannot be made; the sub-code is in the words
            # Sub-codes of 230099; on some ways they come alone.
            11246,  # content cannot be made
            11310,  # more than 200 elements
            100290,  # names a person who is not there
            200380,
            200381,
            200530,  # an empty or doubled name in a form
            200550,
            200570,  # names a picture that is not there
            200621,  # not a card, or a property that is not known
            200732,
            200830,  # from 2.0 back to 1.0
            200861,  # a tag that 2.0 does not have
            200914,
            200915,
            # Delayed update: not a card, or too large.
            10002,
            11311,
            100000,
            100030,
            300090,
        ),
        CardRefused,
    ),
    # This message is out of reach, its chat is not.
    **dict.fromkeys(
        (
            230011,  # recalled
            230012,  # sent by somebody else
            230019,  # the topic is not there
            230031,  # older than 14 days
            230050,  # cannot be seen by the bot
            230110,  # deleted
            230111,  # deletes itself soon: nothing can be put below it
            200000,  # delayed update: recalled
            200310,  # delayed update: sent by another app
            99992354,  # no such message
        ),
        MessageGone,
    ),
    # Nothing can be posted there any more.
    **dict.fromkeys(
        (
            230002,  # the bot is not in the group
            230013,  # that person is outside the app's range, or has left
            230018,  # the group's settings forbid it
            230029,  # that person has left
            230034,  # no such chat
            230035,  # muted, or blocked
            230036,  # the tenant's key was deleted
            230038,  # a private chat with another tenant
            230053,  # that person stopped the bot
            230075,  # an encrypted chat
            232006,  # no such chat
            232009,  # dissolved
            232011,  # the bot is not in the group
            99992355,
            99992356,  # no such chat
        ),
        PlaceGone,
    ),
    **dict.fromkeys((230071, 230072), NoThreads),
    **dict.fromkeys((300020, 300030, 300040), TokenSpent),
    # It passes by itself, soon.
    **dict.fromkeys(
        (230020, 230049, 11232, 11233, 11247, 18121, 1000004, 1000005, 99991400),
        SlowDown,
    ),
    # It passes by itself.
    **dict.fromkeys(
        (1, 1500, 1503, 1642, 1663, 1668, 2200, 5000, 10101, 10500, 232096, 1000003, 1000040343),
        TryLater,
    ),
    **dict.fromkeys((234001, 234006, 234010), FixInput),
    **dict.fromkeys((41012, 41050, 99992351, 99992352, 99992353, 99992361), NotFound),
}

_CREDENTIALS = (
    "Check FEISHU_APP_ID and FEISHU_APP_SECRET, and that [feishu] domain is the app's own: "
    "https://open.feishu.cn or https://open.larksuite.com."
)
_SCOPES = (
    "`countersign feishu permissions` lists the scopes; add the missing one in the developer console "
    "and publish a version of the app."
)
_AVAILABLE = (
    "In the developer console publish a version of the app; in the admin console see that it is enabled."
)
_BOT = "Turn on the app's bot ability in the developer console and publish a version."
_RANGE = (
    "Widen the app's contact range in the developer console (permissions, data permissions) "
    "and publish a version."
)
_DEPARTMENT = "Correct the department's id in [feishu.groups]."

REMEDIES: Mapping[int, str] = {
    **dict.fromkeys(
        # Long connection: refused, no or wrong id and secret. Then the same for the API.
        (514, 1000040344, 1000040345, 10003, 10005, 10012, 10013, 10014, 10015, 20002, 99991543),
        _CREDENTIALS,
    ),
    **dict.fromkeys((99991661, 99991663, 99991664, 99991665, 99991671), _CREDENTIALS),
    **dict.fromkeys((403, 99991662, 99991673, 11207, 11210, 212100), _AVAILABLE),
    **dict.fromkeys((99991672, 99991676, 99991679, 230027), _SCOPES),
    **dict.fromkeys((230006, 234007, 11205, 11240), _BOT),
    **dict.fromkeys((40003, 40004), _RANGE),
    **dict.fromkeys((99992357, 99992358, 99992379, 99992380), _DEPARTMENT),
    CONNECTIONS_EXCEEDED: (
        "50 long connections of this app are open already. End other bots that use its app id, "
        "or give each of them an app of its own."
    ),
    99991401: (
        "Add this machine's address to the app's IP list in the developer console, or switch the list off."
    ),
    99991403: "The tenant's API calls of this month are used up: ask its administrator for more.",
}
"""Codes about which whoever runs the bot has to do something, and what."""

_BY_WORDS: Mapping[int, tuple[tuple[str, type[Exception]], ...]] = {
    # create, sub-code 11310: the card is being used at this moment and cannot be changed.
    230099: (("card action is lock", SlowDown),),
    11310: (("card action is lock", SlowDown),),
    11311: (("card action is lock", SlowDown),),
    230001: (("message_id", MessageGone),),
}
"""Codes that mean several things, told apart by their words."""

CHAT_WAIT = 0.3
"""Seconds to wait at a limit of 5 messages a second and chat, or updates a second and message."""

WAIT = 1.0
"""Seconds to wait at any other limit that does not say for how long."""

LONGEST_WAIT = 60.0
"""A limit is counted per minute at the longest; a header that asks for more is not believed."""

_RESET = "x-ogw-ratelimit-reset"
_MOST_WORDS = 300


def outcome(
    code: int, words: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Exception:
    """The exception for one refused call: code and words (`msg`) of the answer, HTTP status and headers.

    A code of no table is a plain `CountersignError` that carries it; without a code, the status decides.
    """
    told = words.lower()
    kind = next((kind for part, kind in _BY_WORDS.get(code, ()) if part in told), OUTCOMES.get(code))
    said = f"Feishu said {code}: {words[:_MOST_WORDS]}" if words else f"Feishu said {code or status}."
    if code in REMEDIES:
        return FixConfiguration(said, hint=REMEDIES[code], code=code)
    if kind is SlowDown or (kind is None and status == 429):
        return SlowDown(_seconds(code, headers or {}))
    if kind is None:
        kind = TryLater if status >= 500 or not code else CountersignError
    if issubclass(kind, CountersignError):
        return kind(said, code=code)
    return kind(said)


def _seconds(code: int, headers: Mapping[str, str]) -> float:
    default = CHAT_WAIT if code == 230020 else WAIT
    told = next((value for name, value in headers.items() if name.lower() == _RESET), "")
    try:
        return min(LONGEST_WAIT, max(default, float(told)))
    except ValueError:
        return default
