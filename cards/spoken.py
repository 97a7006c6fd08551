"""Typed words about an approval: numbers, and plain yes and no in English, Chinese, Japanese.

Everything here errs on the side of asking back. The tables are data; `hear` is the one reader.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

Command = Literal["stop", "status", "help", "retry"]

_COMMANDS: dict[str, Command] = {
    **dict.fromkeys(("stop", "/stop", "停止", "停", "停下", "停下来", "中止", "ストップ", "止めて"), "stop"),
    **dict.fromkeys(("status", "/status", "状态", "进展", "進捗", "状況"), "status"),
    **dict.fromkeys(("help", "/help", "帮助", "ヘルプ"), "help"),
    **dict.fromkeys(("retry", "/retry", "try again", "重试", "再试一次", "再試行", "やり直して"), "retry"),
}

_APPROVE = frozenset(
    {"y", "yes", "yes please", "yep", "yeah", "ok", "okay", "ok thanks", "approve", "approved", "approve it"}
    | {"i approve", "lgtm", "go", "go ahead", "yes go ahead", "ok go ahead", "do it", "ship it", "please do"}
    | {"sounds good", "looks good", "looks good to me"}
    | {
        "批准",
        "同意",
        "可以",
        "可以的",
        "好",
        "好的",
        "行",
        "准",
        "通过",
        "批准了",
        "同意了",
        "我同意",
        "我批准",
    }
    | {"执行吧", "可以执行", "好的 可以"}
    | {
        "承認",
        "承認します",
        "はい",
        "okです",
        "了解",
        "了解です",
        "お願いします",
        "はい お願いします",
        "許可",
    }
    | {"許可します"}
)
"""Approves if it is the whole message. None holds a word of negation (`没问题` is not here)."""
_ALWAYS = frozenset(
    {"always", "always for this task", "always allow", "一直允许", "总是允许", "本任务内一直允许"}
    | {"常に許可", "このタスク中は常に許可"}
)
_SURE = re.compile(r"[\s.!,。！，、~～]+")
"""What may stand around and between the words of a plain yes. No question mark."""

_YES = re.compile(
    r"(?:yes|yep|yeah|ok(?:ay)?|approved?|go ahead|fine|sure|lgtm|sounds good|批准|同意|可以|好的?|行|通过"
    r"|承認|はい|了解)(?![a-z])"
)
_CONDITION = re.compile(
    r"[\s,.;:!，、。；：！—–-]*+(?:(?:but|only|except|unless|if|as long as|provided|on condition)\b"
    r"|但是?|不过|只|仅|先|除了|如果|前提|条件|必须|ただし|ただ|でも|だけ|のみ|ですが|けど|条件)"
)
"""What turns a yes into a yes with a condition, directly after it."""
_ONLY = re.compile(r"(?:\bonly|だけで?|のみ)[\s.!。！]*$")
_DOUBT = re.compile(
    r"\b(?:no|not|never|wait|hold|later|think|decide|stop)\b|n't\b|\bdont\b|[?不别勿没等暂停待]|ない|ません|やめ|まだ"
)
"""In the rest of such a yes: perhaps it is none."""
_NO = re.compile(
    r"(?:no|nope|nah|never)(?=$|\s*[.,!:;，。！：；、\-–—\n])"
    r"|(?:no way|no thanks|no thank you|no (?=don't|do not|never|please))"
    r"|(?:please )?(?:don't|dont|do not)\b(?! (?:worry|know|mind|care|think|forget|understand|see|have))"
    r"|not (?:ok|okay|approved?|allowed|good|acceptable|this|like)\b"
    r"|(?:reject|rejected|deny|denied|decline|declined|refuse|refused|disapproved?|veto|disallow)\b"
    r"|不\s*(?:行|可以|可|同意|批准|批|允许|许|准|要|通过|执行)|别(?![的人处])|拒绝|驳回|否决|禁止"
    r"|[不否](?=$|\s*[.,!:;，。！：；、\n])"
    r"|いいえ|却下|だめ|ダメ|駄目|拒否|やめて|しないで|不可|承認しない|承認できません|許可しない|許可できません"
)
_NEAR = re.compile(
    r"\b(?:approv\w*|lgtm|go ahead|reject\w*)\b|批准|同意|驳回|拒绝|承認|却下|許可"
    r"|^(?:no|not|yes|ok(?:ay)?)\b"
    r"|^不(?![过知如是])|^没问题|^可以|^好的?(?![\w])|^行(?![\w])|^はい|^いいえ|問題(?:ない|ありません)"
)
_NUMBERED = re.compile(r"([0-9]+)(?P<gap>[\s.)、,:;，。：；）]*+)(?P<words>.*)", re.DOTALL)
COUNTED = re.compile(r"[个個次点點分天号號台条條件つ回時时秒小年月日人]")
"""Counters: `3个pod挂了` is about three pods, not an answer."""

_MENTIONS = re.compile(
    r"(?:\s*+(?:<at\b[^<>]*+>[^<>]*+</at>|<@[^<>\s]++>|@_user_\d++|@_all|@[^\s@,，:：、]++)[\s,，:：、]*+)++"
)
_PLACEHOLDER_AT_END = re.compile(r"(?:<@[^<>\s]{1,80}>|@_user_[0-9]{1,9})$")
_MOST_AT_END = 5
_REQUEST = re.compile(
    r"\s*(?:request|请求|請求|依頼)?\s*[#＃]\s*([0-9０-９]{1,9})(?![0-9０-９A-Za-z_])[\s:：,，、]*",
    re.IGNORECASE,
)


class Heard(NamedTuple):
    """What words about an approval mean; `words` is what they say, as typed.

    `change` was asked for by its number; `conditional` is a yes with a condition, in words.
    """

    kind: Literal[
        "approve",
        "always",
        "always_rule",
        "always_until",
        "change",
        "conditional",
        "reject",
        "words",
        "extra_words",
        "no_such_choice",
        "unclear",
    ]
    words: str = ""


def shadow(text: str) -> str:
    """The text in plain small letters and digits, character for character as long as it was.

    Full-width forms and circled digits read as plain ones, so that positions in the shadow are
    positions in what was typed.
    """
    return "".join(map(_plain, text))


def _plain(char: str) -> str:
    if char in "’‘":
        return "'"
    folded = unicodedata.normalize("NFKC", char).lower()
    return folded if len(folded) == 1 else char


def without_mentions(text: str) -> str:
    """What was said, without the names it is addressed to."""
    match = _MENTIONS.match(text)
    said = (text[match.end() :] if match else text).strip()
    for _ in range(_MOST_AT_END):
        at_end = _PLACEHOLDER_AT_END.search(said)
        if at_end is None:
            break
        said = said[: at_end.start()].rstrip()
    return said


def split_number(said: str) -> tuple[int | None, str]:
    """`#7 1` -> (7, `1`); without a request number (None, all of it)."""
    match = _REQUEST.match(said)
    if match is None:
        return None, said
    return int(shadow(match[1])), said[match.end() :]


_PLAN = re.compile(
    r"(?:plan(?: first)?|(?:先|先做|先给我看)?计划|(?:まず|先に)?計画)\s*[:：]\s*(?=\S)", re.IGNORECASE
)
"""How a job begins that wants a plan before anything is done."""


def plan_first(said: str) -> tuple[bool, str]:
    """`plan: restart` -> (True, `restart`): whether a plan is to be shown before anything is done."""
    match = _PLAN.match(said)
    return (True, said[match.end() :]) if match else (False, said)


def command(said: str) -> Command | None:
    """A command, if the whole message is one."""
    return _COMMANDS.get(_SURE.sub(" ", shadow(said)).strip())


def hear(said: str, *, offered: int = 4) -> Heard:
    """What a message means as an answer to an approval or a plan with this many numbered choices.

    The first four numbers are known without being offered, so that what they ask for can be refused.
    """
    plain = shadow(said.strip())
    numbered = _NUMBERED.match(plain)
    if numbered:
        return _numbered(said.strip(), numbered, max(4, offered))
    sure = _SURE.sub(" ", plain).strip()
    if sure in _APPROVE:
        return Heard("approve")
    if sure in _ALWAYS:
        return Heard("always")
    if _NO.match(plain):
        return Heard("reject", said)
    yes = _YES.match(plain)
    if yes:
        rest = plain[yes.end() :]
        limit = _CONDITION.match(rest)
        if limit or _ONLY.search(rest):
            sure_of_it = not _DOUBT.search(rest, limit.end() if limit else 0)
            return Heard("conditional", said) if sure_of_it else Heard("unclear")
        if not rest[:1].isalpha():
            return Heard("unclear")
    return Heard("unclear" if _NEAR.search(plain) else "words")


_ALONE: dict[str, Literal["approve", "always", "always_rule", "always_until"]] = {
    "1": "approve",
    "4": "always",
    "5": "always_rule",
    "6": "always_until",
}
"""Numbers that take no words."""


def _numbered(said: str, match: re.Match[str], offered: int) -> Heard:
    """`1`, `2 <what>`, `3 <why>`, `4`; `5` and `6` where they are offered."""
    number, gap = match[1], match["gap"]
    words = said[match.start("words") :]
    if words and not gap and (words[0].isascii() or COUNTED.match(words)):
        return Heard("words" if len(words) > 1 and match["words"][0].isalpha() else "unclear")
    if words and match["words"][0].isdigit() and not re.search(r"\s", gap):  # 1,3  2.5 hours  2:00
        return Heard("words" if re.search(r"[^\W\d_]", words) else "no_such_choice")
    if len(number) > 1 or not 1 <= int(number) <= offered:
        return Heard("words") if words else Heard("no_such_choice")
    if number in _ALONE:
        return Heard("extra_words") if words else Heard(_ALONE[number])
    return Heard("change" if number == "2" else "reject", words)
