"""Conditions in people's languages: what is data, what stays words, and what is shown reads back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_runner.model import Condition, ConditionKind, before, with_text
from cards import conditions, spoken, text, wording

ZONE = timezone(timedelta(hours=8))
NOW = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
"""14:30 in the zone."""


def a_condition(kind: str, value: str) -> Condition:
    """A condition as data."""
    return Condition(kind=ConditionKind(kind), value=value)


def read(said: str) -> tuple[Condition, ...]:
    """What is read from words at half past two."""
    return conditions.read(said, zone=ZONE, now=NOW)


AT_18 = a_condition("before", "2026-11-30T10:00:00+00:00")
AT_9 = a_condition("before", "2026-12-01T01:00:00+00:00")
STAGING = a_condition("in", "./staging")
DRY = a_condition("with", "--dry-run")
THREE = a_condition("times", "3")

DATA: list[tuple[str, tuple[Condition, ...]]] = [
    ("only before 18:00", (AT_18,)),
    ("Only Before 18:00.", (AT_18,)),
    ("only before 9:00", (AT_9,)),
    ("only before 14:30", (a_condition("before", "2026-12-01T06:30:00+00:00"),)),
    ("only before 2026-12-01 09:00", (AT_9,)),
    ("only before 2026-12-01T01:00:00Z", (AT_9,)),
    ("only before 2026-12-01T03:00:59.5+02:00", (AT_9,)),
    ("only before 01:00Z", (AT_9,)),
    ("only before 1 December 2026, 09:00", (AT_9,)),
    ("only in ./staging", (STAGING,)),
    ("only in staging/eu", (a_condition("in", "staging/eu"),)),
    ("only in ~/ops", (a_condition("in", "~/ops"),)),
    ("only in /srv", (a_condition("in", "/srv"),)),
    ('only in "./a b, c"', (a_condition("in", "./a b, c"),)),
    ("only in ./Staging", (a_condition("in", "./Staging"),)),
    ("only with --dry-run", (DRY,)),
    ("only with --env=Prod", (a_condition("with", "--env=Prod"),)),
    ("only with env=prod", (a_condition("with", "env=prod"),)),
    ('only with "the canary"', (a_condition("with", "the canary"),)),
    ('only with "/srv/"', (with_text("/srv/"),)),
    (r"only with /ns=\w+-staging/", (a_condition("with", r"/ns=\w+-staging/"),)),
    (r"only with /a, b and c/", (a_condition("with", "/a, b and c/"),)),
    (r"only with /a\/b/", (a_condition("with", r"/a\/b/"),)),
    ("at most 3 times", (THREE,)),
    ("at most 03 times.", (THREE,)),
    ("at most 1 time", (a_condition("times", "1"),)),
    ("at most once", (a_condition("times", "1"),)),
    ("at most twice", (a_condition("times", "2"),)),
    ("at most 0 times", (a_condition("times", "0"),)),
    ("only before 18:00, only in ./staging", (AT_18, STAGING)),
    ("only in ./staging; at most 3 times", (STAGING, THREE)),
    ("only in ./staging and only with --dry-run", (STAGING, DRY)),
    ("only in ./staging, and at most 3 times", (STAGING, THREE)),
    ("only in ./staging\nat most 3 times\nonly with --dry-run", (STAGING, THREE, DRY)),
    ("only before 2026-12-01 09:00, at most 3 times", (AT_9, THREE)),
    ("only before 1 December 2026, 09:00, at most 3 times", (AT_9, THREE)),
    ("仅在 18:00 之前", (AT_18,)),
    ("只在18：00前", (AT_18,)),
    ("仅在 2026年12月1日 09:00 之前", (AT_9,)),
    ("仅限 ./staging", (STAGING,)),
    ("仅限./staging，最多3次。", (STAGING, THREE)),
    ("只在 ./staging 中", (STAGING,)),
    ("仅在 ./staging 内", (STAGING,)),
    ("仅限 ./测试", (a_condition("in", "./测试"),)),
    ("仅当包含 --dry-run", (DRY,)),
    ("必须包含 “灰度发布”", (a_condition("with", "灰度发布"),)),
    ("最多 ３ 次", (THREE,)),
    ("仅在 18:00 之前、仅限 ./staging；仅当包含 --dry-run 且最多 3 次", (AT_18, STAGING, DRY, THREE)),
    ("仅限 ./staging 和 最多 3 次", (STAGING, THREE)),
    ("18:00 までに限る", (AT_18,)),
    ("18:00より前に限る", (AT_18,)),
    ("2026年12月1日 09:00 までに限る", (AT_9,)),
    ("./staging のみ", (STAGING,)),
    ("./stagingのみ", (STAGING,)),
    ("./staging 内に限る", (STAGING,)),
    ("--dry-run を含む場合のみ", (DRY,)),
    ("「カナリア」を含む場合に限る", (a_condition("with", "カナリア"),)),
    ("最大 3 回", (THREE,)),
    ("3回まで", (THREE,)),
    ("18:00 までに限る、./staging のみ、--dry-run を含む場合のみ かつ 最大 3 回",
     (AT_18, STAGING, DRY, THREE)),
]  # fmt: skip


@pytest.mark.parametrize(("said", "meant"), DATA)
def test_conditions_are_read(said: str, meant: tuple[Condition, ...]) -> None:
    """In three languages, in their usual punctuation, joined in any of the usual ways."""
    assert read(said) == meant


WORDS = [
    "",
    "only",
    "only in staging",
    "only in 'staging'",
    "only in the staging folder",
    "only with care",
    "only with permission of the oncall",
    "only before noon",
    "only before 6pm",
    "only before 25:00",
    "only before 2026-02-30 10:00",
    "only before 18:00 please",
    "please only before 18:00",
    "only before 18:00?",
    "before 18:00",
    "in ./staging",
    "at most three times",
    "at most 3 pods",
    "at least 3 times",
    "only 3 times",
    "use ./staging, at most 3 times",
    "only in ./staging, use the canary",
    "only in ./staging,",
    ", only in ./staging",
    "only in ./staging only with --dry-run",
    "only in ./staging or only with --dry-run",
    "not only in ./staging",
    "ok but only with --dry-run",
    'only with ""',
    "only with //",
    "only with /a",
    'only with "a\nb"',
    "only in ./" + "a" * 200,
    "只在预发环境",
    "仅限测试环境",
    "最多三次",
    "可以，但是先备份",
    "仅限 ./staging，先备份",
    "ステージングのみ",
    "ドライランを含む場合のみ",
    "18:00 まで",
    "3回",
    "先にバックアップ",
]


@pytest.mark.parametrize("said", WORDS)
def test_everything_else_stays_words(said: str) -> None:
    """One word too many, and the agent reads it all: nothing runs on half of what was said."""
    assert read(said) == ()


@given(st.text(max_size=60))
def test_free_words_are_never_data(said: str) -> None:
    """Text without the words of a condition has none, and nothing makes the reader raise."""
    marks = ("only", "at most", "仅", "只", "必须", "最多", "至多", "のみ", "限る", "最大", "まで")
    folded = spoken.shadow(said)
    assume(not any(mark in folded for mark in marks))
    assert read(said) == ()


SAMPLES = st.sampled_from([said for said, _ in DATA])
FREE = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=12)


@given(
    said=SAMPLES, more=FREE, front=st.booleans(), gap=st.sampled_from([" ", ", ", "; ", "\n", "，", " and "])
)
def test_a_condition_with_words_beside_it_is_words(said: str, more: str, front: bool, gap: str) -> None:
    """Whatever is said beside conditions, all of it stays words."""
    assert read(f"{more}{gap}{said}" if front else f"{said.rstrip('.。')}{gap}{more}") == ()


PATHS = st.builds(
    lambda lead, rest: lead + rest,
    st.sampled_from(["./", "~/", "/", "../", "a/"]),
    st.text(st.sampled_from("ab é测,;、 .和-_'"), max_size=12).map(str.rstrip),
)
VALUES = st.one_of(
    st.integers(0, 2_000_000).map(lambda minutes: before(NOW + timedelta(minutes=minutes))),
    PATHS.map(lambda path: a_condition("in", path)),
    st.text(st.sampled_from('ab-=/.,; 测"é'), min_size=1, max_size=12).map(with_text),
    st.sampled_from([r"/a+\/b/", "/x, y/", "/^a|b$/"]).map(lambda value: a_condition("with", value)),
    st.integers(0, 100).map(lambda n: a_condition("times", str(n))),
)


@given(several=st.lists(VALUES, min_size=1, max_size=4), lang=st.sampled_from(wording.LANGUAGES))
def test_what_is_shown_reads_back(several: list[Condition], lang: str) -> None:
    """A card's line, typed as an answer, means the same conditions."""
    shown = text.raw(conditions.line(lang, several, ZONE))
    assert read(shown) == tuple(several)


@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_the_hint_of_the_form_is_understood(lang: str) -> None:
    """What the form gives as examples is read as the four conditions."""
    examples = wording.text(lang, "input.limits").split(": ", 1)[-1].split("：", 1)[-1]
    assert [condition.kind for condition in read(examples)] == list(ConditionKind)
