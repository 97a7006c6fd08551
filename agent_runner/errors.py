"""One tree of errors, named for what the caller does next.

Every error carries a `code` (stable, for programs), a `message` (what happened, for a
person) and a `hint` (what that person can do about it). The web API shows exactly these
three; chat renders them through `cards.wording`.
"""

from __future__ import annotations


class CountersignError(Exception):
    """Base of everything this project raises on purpose."""

    code = "error"

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class FixConfiguration(CountersignError):
    """The settings are wrong: correct the file and start again."""

    code = "configuration"


class FixInput(CountersignError):
    """What was sent cannot be understood or is out of bounds: correct it and send it again."""

    code = "invalid"


class Unfit(FixInput):
    """What was sent does not fit the call. Each `why` has a whole sentence in every language."""

    def __init__(self, message: str, *, why: str, hint: str = "", **details: object) -> None:
        super().__init__(message, hint=hint, **details)
        self.why = why


class NotFound(CountersignError):
    """There is no such task, inquiry or workspace."""

    code = "not_found"


class NotAllowed(CountersignError):
    """That person may not do it; the hint says who may."""

    code = "not_allowed"


class GuestsMayNot(NotAllowed):
    """A guest of the chat cannot start jobs: somebody has to list them first."""

    code = "guests_may_not"


class NotSignedIn(CountersignError):
    """The request carries no valid token."""

    code = "not_signed_in"


class AlreadyDecided(CountersignError):
    """Somebody was faster; the details say who and how. Nothing changed."""

    code = "already_decided"


class ShowAgain(CountersignError):
    """What the person saw is not what is stored (digest or revision differs): look again."""

    code = "digest_differs"


class Expired(CountersignError):
    """The time to decide is over. Nothing ran; ask again."""

    code = "expired"


class WrongState(CountersignError):
    """The thing exists but cannot do this now (a finished task cannot be stopped)."""

    code = "wrong_state"


class TryLater(CountersignError):
    """Not recorded: the store or another service did not answer in time. Send it again."""

    code = "try_again"


class LostLease(CountersignError):
    """Another worker owns this session now: drop everything and leave."""

    code = "lost_lease"


class EngineFailed(CountersignError):
    """The agent process could not do the turn; `retry` tells whether trying again can help."""

    code = "engine_failed"

    def __init__(self, message: str, *, hint: str = "", retry: bool = False, **details: object) -> None:
        super().__init__(message, hint=hint, **details)
        self.retry = retry
