"""Every key this program uses in Redis (RQ's own keys begin with `rq:`)."""

from __future__ import annotations

from agent_runner.model import InquiryState, Place, TaskState


class Keys:
    """Keys by what they hold."""

    def __init__(self, prefix: str = "cs:") -> None:
        self.prefix = prefix
        self.schema = f"{prefix}schema"
        self.changes = f"{prefix}changes"
        self.dirty = f"{prefix}dirty"
        self.expiry = f"{prefix}expiry"
        self.retry = f"{prefix}retry"
        self.tasks = f"{prefix}tasks"
        self.inquiries = f"{prefix}inquiries"
        self.audit = f"{prefix}audit"
        self.grants = f"{prefix}grants"
        self.tokens = f"{prefix}tokens"
        self.away = f"{prefix}away"

    def counter(self, name: str) -> str:
        """A counter's key."""
        return f"{self.prefix}counter:{name}"

    def task(self, task_id: str) -> str:
        """The task itself: the one key its transactions watch."""
        return f"{self.prefix}task:{task_id}"

    def part(self, task_id: str, name: str) -> str:
        """A task's `messages`, `inquiries`, `audit`, `grants`, `lease`, `progress` or `posts`."""
        return f"{self.prefix}task:{task_id}:{name}"

    def inquiry(self, inquiry_id: str) -> str:
        """One inquiry."""
        return f"{self.prefix}inquiry:{inquiry_id}"

    def tasks_in(self, state: TaskState) -> str:
        """Index of the tasks in a state, scored by number."""
        return f"{self.tasks}:{state}"

    def inquiries_in(self, state: InquiryState) -> str:
        """Index of the inquiries in a state, scored by number."""
        return f"{self.inquiries}:{state}"

    def grants_in(self, workspace: str) -> str:
        """The grants that hold in a whole workspace, by id."""
        return f"{self.grants}:{workspace}"

    def spent(self, workspace: str, day: str) -> str:
        """What a workspace's tasks cost on a day, in dollars."""
        return f"{self.prefix}spent:{workspace}:{day}"

    def place(self, place: Place) -> str:
        """Which task lives in a thread."""
        return f"{self.prefix}place:{place.platform}:{place.chat}:{place.thread}"

    def chat(self, place: Place) -> str:
        """The newest task of a chat."""
        return f"{self.prefix}chat:{place.platform}:{place.chat}"

    def groups(self, platform: str) -> str:
        """The names of the approver groups that a platform keeps."""
        return f"{self.prefix}groups:{platform}"

    def group(self, platform: str, group: str) -> str:
        """The accounts in one of them."""
        return f"{self.prefix}groups:{platform}:{group}"

    def break_glass(self, who: str) -> str:
        """The break-glass approval of one person that waits to be confirmed."""
        return f"{self.prefix}break-glass:{who}"

    def txn(self, mark: str) -> str:
        """Mark of one transaction, to tell a lost reply from a lost write."""
        return f"{self.prefix}txn:{mark}"
