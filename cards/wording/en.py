"""English."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    # What a card is about
    "title.approval": "Request #{number} · {what} in {workspace}",
    "title.plan": "Request #{number} · a plan in {workspace}",
    "title.question": "Request #{number} · the agent asks {who}",
    "what.bash": "Bash",
    "what.write": "Write a file",
    "what.edit": "Edit a file",
    "what.step": "a step",
    "what.tool": "{tool}",
    "what.mcp": "{tool} of {server}",
    "summary.approval": "for {who} · asked because: {rule}",
    "summary.question": "for {who} · in {workspace}",
    "summary.plan": "for {who} · nothing of it runs before you decide",
    "rule.none": "no rule allows it by itself",
    "replaces": "This replaces request #{number}. What is different:",
    "replaces.words": "Request #{number} was answered with",
    "replaces.same": "This asks again for what request #{number} asked for, unchanged.",
    "more.open": "{at} of {of} requests that are open here; each is decided on its own.",
    "batch.title": "Requests {numbers} · {n} steps of one turn in {workspace}",
    "batch.summary": "for {who} · each step is decided on its own, or all at once",
    "batch.step": "{mark} · #{number} · {what}",
    "batch.because": "asked because: {rule}",
    "batch.waits": "runs when all steps are decided",
    "batch.apart": "The {n} steps of this turn do not fit on one card here, so each has its own.",
    "batch.announce": "Requests {numbers}",
    "button.approve_all": "Approve all ({n})",
    "button.reject_all": "Reject all…",
    "submit.reject_all": "Reject all ({n})",
    "typed.batch": (
        "{a}1 approve {a}   {a}2 <what> approve {a} with changes   {a}3 <why> reject {a}   "
        "several: {a}1 {b}3 <why>   all 1 approve all   all 3 <why> reject all"
    ),
    "typed.batch_last": "{a}1 approve   {a}2 <what> approve with changes   {a}3 <why> reject",
    "reply.decided_together": "Recorded for {numbers}: {what}.",
    "reply.voted_together": "Recorded for {numbers}: more approvals are needed.",
    "reply.voted_no_together": "Recorded for {numbers}: rejected. The others can still approve.",
    "reply.left_not_allowed": "Still open, because you may not decide it: {numbers}.",
    "reply.left_changed": "Still open, because it changed since you saw it: {numbers}.",
    "ask_back.which_step": (
        "Which step? Open are {steps}. Write the letter in front, like {example}, or all 1 to approve all."
    ),
    "ask_back.step_twice": "Step {step} is in it twice, so nothing was decided. Say once what you want.",
    "ask_back.no_such_step": "There is no open step {step} here, so nothing was decided. Open are {steps}.",
    "ask_back.no_such_step_choice": "There is no choice {choice} for a step, so nothing was decided.",
    "ask_back.step_words": (
        "{piece} takes no words, so nothing was decided. With words it is {step}2 <what to change> "
        "or {step}3 <why not>."
    ),
    "ask_back.step_change": "What should be different? Write {step}2 and the change. Nothing was decided.",
    "ask_back.step_reject": "Why not? Write {step}3 and the reason. Nothing was decided.",
    "ask_back.step_in_words": (
        "{piece} may be an answer of its own or a part of your words, so nothing was decided. "
        "Answer that step alone: #{number} and your answer."
    ),
    "ask_back.all_why": "Why not? Write all 3 and the reason; the agent gets your words.",
    "ask_back.all_alone": (
        "To approve all, send all 1 alone. To reject all: all 3 <why>. Everything else is said "
        "step by step, like {example}."
    ),
    "ask_back.why_reject_all": "Why not? A reason is needed; the agent gets your words.",
    "feishu.batch_words_hint": "For a change or a rejection. Write here, then press the button of that step.",
    "error.of_several": "{request}: {error} Nothing of your answer was recorded.",
    # Labels
    "label.command": "Command",
    "label.content": "Whole content",
    "label.new_content": "Whole new content",
    "label.diff": "What changes in the file",
    "label.edit": "What is replaced",
    "label.input": "Whole input",
    "label.file": "File",
    "label.as_written": "As the agent wrote it",
    "label.plan": "The plan",
    "label.step": "Step",
    "label.action": "Exactly what will be done",
    "label.context": "Why, and what could go wrong",
    "label.next_steps": "After that",
    "label.agent": "The agent says (its own words; what counts is the text above)",
    "label.words": "Their words",
    "label.reason": "Reason",
    "label.changed": "Changed: {field}",
    "label.output": "Output",
    "label.output_cut": "Output (the beginning; the record has the rest)",
    "label.details": "Details",
    "label.remedy": "What to do",
    "label.argument": "{name}",
    "label.attached": "{label} (attached as {filename}, {size} characters)",
    "label.not_attached": (
        "{label} ({size} characters: too long for here; it can be decided once it is attached)"
    ),
    # Warnings
    "warning.bidi": "Contains characters that reverse the reading direction. They are shown as ⟨U+…⟩.",
    "warning.hidden_characters": "Contains characters that are normally invisible. They are shown as ⟨U+…⟩.",
    "warning.look_alikes": "Contains letters that only look like Latin letters. They are shown as ⟨U+…⟩.",
    "warning.padding": (
        "Contains long runs of blanks, which can push text out of sight. They are shown as ⟨U+…⟩."
    ),
    "warning.outside_workspace": "This file is outside the workspace folder.",
    "warning.unparsed": "This command could not be taken apart to check its pieces. Read it with care.",
    "warning.no_plan": "The agent gave no text for its plan.",
    "warning.other": "Look twice: {code}",
    # Who may decide, how many, until when
    "approver.requester": "{who}",
    "approver.anyone": "anyone here",
    "approver.nobody": "nobody",
    "may_decide": "{who} may decide",
    "may_answer": "{who} may answer",
    "may_not_decide": "You can't decide this one. These can: {who}.",
    "not_requester": "{who} asked for it and may not decide it",
    "quorum": "{got} of {needed} approvals so far",
    "vote.approve": "Approved by {who} at {time}",
    "vote.change": "Approved with changes by {who} at {time}",
    "vote.reject": "Rejected by {who} at {time}",
    "vote.answer": "Answered by {who} at {time}",
    "process_waits": (
        "A process is waiting for this answer. Without one by {time} it is refused, and the agent is told."
    ),
    # In somebody's place, again, by more people, alone
    "standin": "{who} (for {absent})",
    "acting": "{who} for {absent}",
    "no_veto": "a rejection is one vote of several",
    "reminder.title": "Reminder",
    "reminder.text": "Request #{number} still waits for {who}, since {since}; until {until}",
    "escalated.title": "More people are asked",
    "escalated.text": "Request #{number} waits since {since}. Now {who} may decide as well; until {until}",
    "breakglass.title": "Break-glass",
    "breakglass.text": "{who} approved request #{number} alone at {time}. Told: {told}",
    "breakglass.why": "Why {who} did not wait",
    "outcome.break_glass": "Approved alone by {who} (break-glass) at {time}: {reason}",
    "button.break_glass": "Break glass…",
    "submit.break_glass": "Approve alone",
    "input.why_alone": "Why can it not wait? Everybody who would have had to decide reads this.",
    "input.confirm_alone": (
        "I approve request #{number} alone, without the others. {who} will be told, and it is on record."
    ),
    "ask_back.why_alone": "Why can it not wait? Everybody who would have had to decide reads the reason.",
    "ask_back.confirm_alone": "Tick the box to confirm that you approve this request alone.",
    "glass.confirm": (
        "You would approve request #{number} alone, without the others. {who} will be told, with your "
        "reason, and it is on record. To do it, write within 2 minutes: break glass {code}"
    ),
    "glass.why": "Why can it not wait? Write: break glass <why>",
    "glass.which": "Which one? Open are {requests}. Write: #{number} break glass <why>",
    "glass.nothing_open": "No such request is open here, so there is nothing to approve.",
    "glass.question": "This is a question: it cannot be approved alone, it needs an answer.",
    "glass.wrong_code": (
        "That is not the code, or it is too old. Nothing was decided. Begin again: break glass <why>"
    ),
    "error.may_not_break_glass": "You may not approve alone. Only those listed for break-glass may.",
    "error.said_already": "Somebody has voted in that place already; one place is one vote.",
    "error.said_already.with": "{who} has voted in that place already; one place is one vote.",
    "reply.voted_no": "Recorded for request #{number}: rejected. The others can still approve it.",
    "away.set": "{who} is away until {until}. Until then {to} decides in their place.",
    "away.back": "{who} is back and decides again.",
    "away.not_away": "{who} is not away.",
    "away.usage": "Write until when, and who decides in your place: away until 5 Dec 18:00 -> mei",
    "away.not_listed": "Only people listed under [people] can hand over. Whoever runs the bot can list you.",
    "away.only_self": "You can say that only of yourself, not of {who}.",
    "away.nobody": "Nobody called {who} is listed under [people].",
    "away.self": "Name somebody else: nobody stands in for themselves.",
    "away.circle": "That would be a circle: {to} has handed over to {who}. Name somebody else.",
    "away.when": "Not certain when {when} is. Write a day, a time or a span: 5 Dec, 18:00, 3d",
    "away.past": "{until} is over already.",
    "away.too_long": "That is more than a year; nobody is away for that long.",
    "until": "until {time}",
    # Buttons and forms
    "button.approve": "Approve",
    "button.change": "Approve with changes…",
    "button.reject": "Reject…",
    "button.always": "Always for this task",
    "button.always_rule": "Always in this task: {rule}",
    "button.always_until": "For {duration} in {workspace}: {rule}",
    "button.plan_edits": "Approve, edit files without asking",
    "button.answer": "Send answers",
    "button.ask_again": "Ask again",
    "button.stop": "Stop",
    "button.retry": "Try again",
    "submit.change": "Approve with these changes",
    "submit.reject": "Reject",
    "input.conditions": "What should be different, in your words",
    "input.reason": "Why not? The agent gets these words.",
    "input.field": "{name}",
    "question.other": "Other, in your own words",
    "question.single": "Choose one",
    "question.multiple": "Choose one or more",
    "answers.label": "{question}",
    # How to answer by typing
    "typed.approval": (
        "1 approve   2 approve with changes: 2 <what>   3 reject: 3 <why>   4 always for this task"
    ),
    "typed.plan": "1 approve   2 approve with changes: 2 <what>   3 reject: 3 <why>",
    "typed.plan_edits": "4 approve, and edit files in {workspace} without asking",
    "typed.always_rule": "5 always in this task: {rule}",
    "typed.always_until": "6 for {duration} in {workspace}: {rule}",
    "typed.question": "Reply with a number, for example {example}   or in your own words, 1: <words>",
    "typed.questions": "Reply like {example}   or in your own words, 1: <words>",
    "typed.which": "More than one is open: put #{number} in front.",
    "typed.stop": "Reply stop to end it.",
    "typed.retry": "Reply retry to try again.",
    # Outcomes
    "outcome.approved": "Approved by {who} at {time}",
    "outcome.always": "Approved by {who} at {time}, and for this exact call during the rest of this task",
    "outcome.always_rule": (
        "Approved by {who} at {time}, and {rule} during the rest of this task, until {until} at most"
    ),
    "outcome.always_until": "Approved by {who} at {time}, and {rule} in {workspace} until {until}",
    "outcome.plan_edits": (
        "Approved by {who} at {time}; until {until} at most, files in {workspace} are edited without asking"
    ),
    "outcome.changed": "Changed and approved by {who} at {time}",
    "outcome.conditions": "Sent back by {who} at {time} to be revised. It did not run.",
    "outcome.step_conditions": "Approved with conditions by {who} at {time}",
    "outcome.limited": "{decided}, {limits}",
    "limit.before": "only before {time}",
    "limit.in": "only in {value}",
    "limit.with": "only with {value}",
    "limit.times.one": "at most {n} time",
    "limit.times.other": "at most {n} times",
    "limit.separator": "; ",
    "input.limits": (
        "If only such conditions are written, the call runs, and they are checked then: "
        "only before 18:00, only in ./dir, only with --flag, at most 3 times"
    ),
    "verdict.limits": "approved, under conditions that are checked when it runs",
    "run.refused": "held back, so it did not run",
    "label.refused": "Why it was held back",
    "error.condition_over.with": "{value} is over already, so it could never run. Give a later time.",
    "error.condition_never.with": "{value} times is never. To let it not run at all, reject it.",
    "error.condition_too_often.with": "At most {value} times can be approved at once.",
    "error.condition_outside.with": (
        "This call reaches outside {value}, so it could never run. Change the call, or say in other "
        "words what the agent should do."
    ),
    "error.condition_untold.with": (
        "Whether this call stays inside {value} cannot be checked. Say it in other words; the agent then "
        "revises the call."
    ),
    "error.condition_absent.with": (
        "{value} is not in this call, so it could never run. Change the call, or say in other words what "
        "the agent should add."
    ),
    "error.condition_pattern.with": (
        "{value} is not a pattern that can be searched for. Write the plain text in quotes, or a simpler "
        "pattern."
    ),
    "error.field_unknown.with": "This tool has no field {field}.",
    "error.field_missing.with": "The field {field} cannot be left out.",
    "error.field_type.with": "The field {field} must stay the kind of value that it is.",
    "error.field_choice.with": "The field {field} can only be one of: {allowed}.",
    "error.field_number.with": "The number in the field {field} is too large.",
    "outcome.rejected": "Rejected by {who} at {time}. It did not run.",
    "outcome.plan_rejected": "Rejected by {who} at {time}",
    "outcome.answered": "Answered by {who} at {time}",
    "outcome.expired": "Nobody answered until {time}. Nothing ran.",
    "outcome.asked_again": "Asked again as request #{number}.",
    "outcome.withdrawn": "The task ended before an answer came. Nothing ran.",
    "outcome.unknown": (
        "The worker stopped while this was running. It may or may not have taken effect. "
        "It will not run again by itself: check what was done, then say here how to go on."
    ),
    "run.starting": "starting…",
    "run.running": "running since {time}",
    "run.ran": "ran {time}, no error",
    "run.ran_for": "ran {time}, no error, in {duration}",
    "run.failed": "ran {time} and failed",
    "run.failed_for": "ran {time} and failed after {duration}",
    "run.to_come": "the agent is told to make this call again",
    "run.not_run": "not run: the agent did not make this call",
    "run.exit": "exit {code}",
    "run.as_changed": "as changed",
    # The status message
    "status.queued": "Waiting for a free worker in {workspace}",
    "status.working": "Working in {workspace} …",
    "status.stopping": "Stopping, as {who} asked …",
    "status.waiting": "Waiting for {who} since {time}",
    "status.ended": "No longer working: {what}",
    "status.calm": "No process is kept; take your time.",
    "status.open": "Open: {requests}",
    "status.request": "request #{number}",
    "status.since": "since {time}",
    "status.elapsed": "{duration} so far",
    "kept.one": "1 message is kept for when the agent is free.",
    "kept.other": "{n} messages are kept for when the agent is free.",
    "activity.starting": "starting",
    "activity.thinking": "thinking",
    "activity.tool": "using {detail}",
    "activity.model_retry": "the model does not answer; trying again",
    "steps.one": "1 step",
    "steps.other": "{n} steps",
    # The result
    "result.done": "Done in {duration}",
    "result.done_waiting": "Done in {duration} ({waiting} of it waiting)",
    "result.failed": "Failed after {duration}",
    "result.stopped": "Stopped after {duration}",
    "result.stopped_by": "Stopped by {who} after {duration}",
    "result.stuck": "Stuck after {duration}: it needs a person to go on",
    "result.silent": "The agent ended without a report.",
    "result.retry_at": "It is tried again by itself at {time}.",
    "ended.done": "done",
    "ended.failed": "failed",
    "ended.stopped": "stopped",
    "ended.stuck": "stuck",
    "calls.one": "1 model call",
    "calls.other": "{n} model calls",
    # Short answers to what a person did
    "reply.decided": "Recorded for request #{number}: {what}.",
    "reply.voted": "Recorded for request #{number}. {got} of {needed} approvals so far.",
    "reply.kept": "The agent is busy. Your message is kept and it reads it next.",
    "reply.stopping": "Stopping.",
    "reply.retrying": "Trying again.",
    "reply.asked_again": "Asked again as request #{number}.",
    "reply.help": (
        "Write what you want done. When a request is open, reply 1 to approve, 2 and what to change, "
        "3 and why not, or 4 for always in this task; `stop` ends the task, `status` says how it stands."
    ),
    "reply.started": "Started.",
    "reply.nothing": "There are no words in that to act on.",
    "reply.status": "This task is {state}.",
    "state.queued": "waiting for a free worker",
    "state.running": "being worked on",
    "state.waiting": "waiting for people",
    "state.done": "done",
    "state.failed": "failed",
    "state.stopped": "stopped",
    "state.stuck": "stuck",
    "verdict.approve": "approved",
    "verdict.change": "approved with changes",
    "verdict.reject": "rejected",
    "verdict.answer": "answered",
    # Asking back
    "ask_back.which_request": "Which one? Open are {requests}. Put the number in front, like #{number} 1.",
    "ask_back.which_conflict": "You replied to #{quoted} but wrote #{number}. Which one do you mean?",
    "ask_back.no_such_request": "Request #{number} is not open here.",
    "ask_back.what_change": "What should be different? Write 2 and the change, like: 2 only in staging",
    "ask_back.why_reject": "Why not? Write 3 and the reason; the agent gets your words.",
    "ask_back.extra_words": "To approve, send 1 alone. To approve with changes, send 2 and the change.",
    "ask_back.no_such_choice": "There is no choice {choice} here.",
    "ask_back.unclear": (
        "Not certain what you mean, so nothing was decided. 1 approves, 2 <what> changes, 3 <why> rejects."
    ),
    "ask_back.unclear_answer": "Not certain which answer you mean, so nothing was sent. Reply like {example}",
    "ask_back.choose_one": "Choose only one for: {question}",
    "ask_back.choice_and_words": "Choose an option or write your own words, not both, for: {question}",
    "ask_back.missing_answers": "Still without an answer: {questions}",
    "ask_back.bad_field": "{field} cannot be read as {kind}.",
    "ask_back.not_that_verb": "This request cannot be answered that way.",
    "kind.text": "text",
    "kind.number": "a number",
    "kind.boolean": "true or false",
    "kind.json": "JSON",
    # Errors
    "error.error": "Something went wrong. Look at how it stands, then try again.",
    "error.configuration": "The settings are wrong. Correct the file and start again.",
    "error.invalid": "That could not be understood. Correct it and send it again.",
    "error.too_large": "That is too large to send. Put what is long into a file and name that.",
    "error.malformed_json": "What was sent is not complete. Load the page again and send it once more.",
    "error.wrong_method": "That is not possible at this address.",
    "error.wrong_host": "This page is not reached under that name. Use the link printed at the start.",
    "error.foreign_site": "That came from another site and was not done. Do it on this page.",
    "error.not_found": "There is no such thing here.",
    "error.not_allowed": "You may not do this.",
    "error.not_allowed.with": "You can't decide this one. These can: {approvers}.",
    "error.not_signed_in": "Sign in first, with your token.",
    "error.already_decided": "Already decided. Nothing was changed.",
    "error.already_decided.with": "Already decided by {by}. Nothing was changed.",
    "error.digest_differs": "What you saw is not what is stored now. Look again, then decide.",
    "error.expired": "The time to decide is over. Nothing ran. You can ask again.",
    "error.wrong_state": "That is not possible now.",
    "error.try_again": "Not recorded: the store did not answer in time. Try again.",
    "error.lost_lease": "Another worker took over this task.",
    "error.engine_failed": "The agent stopped unexpectedly. Look at what was done, then try again.",
    "error.model_unreachable": "The model could not be reached. Try again when it answers.",
    "error.model_refused": (
        "The model's service refused the key. Whoever runs this must check it; then try again."
    ),
    "error.cli_did_not_start": (
        "The agent program did not start. Whoever runs this can find out why with `countersign doctor`; "
        "then try again."
    ),
    "error.mcp_server_missing": "A tool server is not running. Nothing is lost: start it, then try again.",
    "error.mcp_server_missing.with": (
        "The tool server {server} is not running. Nothing is lost: start it, then try again."
    ),
    "error.transcript_missing": (
        "The conversation so far is gone, so it cannot go on. Write the task again to start anew."
    ),
    "error.workspace_missing": "The workspace folder is not there. Put it back, then try again.",
    "error.workspace_missing.with": "The workspace folder {path} is not there. Put it back, then try again.",
    "error.worker_lost": "The worker stopped in the middle of this. Look at what was done, then try again.",
    "error.outcome_unknown": (
        "The worker stopped while an approved step was running. It may or may not have taken effect. "
        "Check what was done, then say here how to go on."
    ),
    "error.watchdog": "The agent did nothing for too long and was stopped. Try again.",
    "error.budget": "The task reached its limit of cost. Whoever runs this can raise it; then try again.",
    # Limits
    "title.limit": "Request #{number} · a limit is reached in {workspace}",
    "summary.limit": "for {who} · nothing more runs before you decide",
    "limit.usd": "This task has used {used} of {of}. Go on with {more} more?",
    "limit.minutes": "This task has worked {used} of {of}. Go on for {more} more?",
    "limit.model_turns": "This task has used {used} of {of} model calls. Go on with {more} more?",
    "limit.day_usd": (
        "The tasks in {workspace} have used {used} of {of} on {day} (UTC). "
        "Go on with {more} more for this task?"
    ),
    "limit.more.usd": "How many dollars more (at most {most})",
    "limit.more.minutes": "How many minutes more (at most {most})",
    "limit.more.model_turns": "How many model calls more (at most {most})",
    "limit.more.day_usd": "How many dollars more for this task today (at most {most})",
    "button.limit_approve": "Go on",
    "button.limit_change": "Another amount…",
    "submit.limit_change": "Go on with this much",
    "input.limit_reason": "Why not? The task then ends.",
    "typed.limit": "1 go on   2 another amount: 2 <how much>   3 end it: 3 <why>",
    "outcome.limit_more": "{who} let it go on at {time}: {more} more",
    "ask_back.what_amount": (
        "How much more? 1 goes on with what is asked for, 2 and a number (at most {most}) with that much."
    ),
    "ask_back.bad_amount": (
        "That is no amount that can be allowed, so nothing was decided. Write 2 and a number above 0, "
        "at most {most}."
    ),
    "error.limit_usd": "It had used up the dollars that it may cost, and was not given more.",
    "error.limit_minutes": "It had used up the time that it may work, and was not given more.",
    "error.limit_model_turns": "It had used up the model calls that it may make, and was not given more.",
    "error.limit_day_usd": "The workspace's dollars for the day were used up, and it was not given more.",
    "error.too_many_model_turns": (
        "The agent used up its steps without coming to an end. Try again to let it go on."
    ),
    # How things are written
    "label.colon": ": ",
    "list.separator": ", ",
    "number": "{digits}",
    "money": "${amount}",
    "money.less": "less than ${amount}",
    "unit.less": "less than 1 s",
    "unit.s": "{n} s",
    "unit.min": "{n} min",
    "unit.h": "{n} h",
    "unit.d": "{n} d",
    "unit.separator": " ",
    "time.date": "{day} {month}, {clock}",
    "time.year": "{day} {month} {year}, {clock}",
    "month.1": "January",
    "month.2": "February",
    "month.3": "March",
    "month.4": "April",
    "month.5": "May",
    "month.6": "June",
    "month.7": "July",
    "month.8": "August",
    "month.9": "September",
    "month.10": "October",
    "month.11": "November",
    "month.12": "December",
    # A message that came while nobody listened
    "button.do_now": "Do it now",
    "button.leave": "Leave it",
    "typed.held": "1 do it now   2 leave it",
    "held.title": "This was written at {time}, while nobody was listening here",
    "held.summary": "by {who} · nothing was done with it yet",
    "held.label": "What {who} wrote",
    "held.do_now": "Begun now.",
    "held.leave": "Left undone.",
    "moved.title": "Task #{number} goes on here",
    "moved.summary": "for {who}",
    "moved.text": (
        "Its own thread cannot be written to any more (archived, deleted, or the bot was removed). "
        "Answer here instead."
    ),
    # Slack
    "slack.empty": "(empty)",
    "slack.beginning": "It begins:",
    "slack.always": "This exact call is not asked again until the task ends",
    "slack.always_rule": "What this rule covers is not asked again in this task",
    "slack.always_until": "What it covers is not asked in any task there for that long",
    "slack.close": "Cancel",
    "slack.submit.change": "Approve as changed",
    "slack.not_here": (
        "Too long or too many to be edited here, so they stay as"
        " they are: {fields}. Say below what should be different."
    ),
    "slack.more": "{n} more",
    "slack.cut": "Not all of it fits here, so do not decide from this message alone.",
    # Chats
    "reply.overheard": "Not meant for the agent.",
    "reply.nothing_here": "Nothing is being worked on here. Write what you want done.",
    "error.guests_may_not": (
        "Guests of this chat cannot start jobs or decide. Whoever runs the bot can list you."
    ),
    "error.not_yours": "Only the one who wrote that message can say what becomes of it.",
    "error.not_yours.with": "Only {who} can say that, because it was their message.",
    "reply.mine": "Waiting for you: {waiting}. Your running jobs: {running}.",
    "reply.none": "none",
    "home.title": "What waits for you",
    "home.empty": "Nothing waits for you.",
    "home.running": "Your running tasks",
    "home.more": "and {n} more",
    "reply.not_recorded": "Not recorded: something went wrong here. Try again; nothing is done twice.",
    "notice.title": "Request",
    "form.loading": "One moment …",
    # Words that only Feishu's cards need
    "feishu.state.pending": "Open",
    "feishu.state.approved": "Approved",
    "feishu.state.changed": "Changed",
    "feishu.state.rejected": "Rejected",
    "feishu.state.answered": "Answered",
    "feishu.state.expired": "Expired",
    "feishu.state.withdrawn": "Withdrawn",
    "feishu.state.unknown": "Outcome unknown",
    "feishu.state.queued": "Queued",
    "feishu.state.working": "Working",
    "feishu.state.waiting": "Waiting",
    "feishu.state.done": "Done",
    "feishu.state.failed": "Failed",
    "feishu.state.stopped": "Stopped",
    "feishu.state.stuck": "Stuck",
    "feishu.change": "Change as written here",
    "feishu.words": "What should be different, or why not",
    "feishu.words_hint": "For a change or a rejection. Leave it empty to approve.",
    "feishu.beginning": "This is only the beginning of it.",
    "feishu.empty": "(nothing)",
    "feishu.everything": "All there is to read here",
    "feishu.reply_instead": "There is too much for a form here. Read the attached text, then reply in words.",
    "feishu.always.title": "Always for this task?",
    "feishu.always.text": (
        "Exactly this call runs now and, for the rest of this task, without asking again. "
        "A call that differs in anything is asked about."
    ),
    "feishu.always_rule.title": "Always in this task?",
    "feishu.always_rule.text": (
        "{label}\nThis call runs now. For the rest of this task, calls that this rule "
        "covers run without asking."
    ),
    "feishu.always_until.title": "For every task of this workspace?",
    "feishu.always_until.text": (
        "{label}\nThis call runs now. For that long, calls that this rule covers run "
        "without asking in every task of this workspace whose requests you may decide."
    ),
    "feishu.stop.title": "Stop this task?",
    "feishu.stop.text": "The agent stops, and requests that are still open are withdrawn.",
    "chat.link": "It cannot be shown here. Open it on the page: {url}",
    "chat.form_failed": (
        "The form did not open in time. Press again, or reply with the number and your words."
    ),
    "chat.asked": "{who} asks",
    "chat.not_here": "I am not in this channel. Invite me first, then say it again.",
    "chat.prompt.status": "status",
    "chat.greeting": "What should be done?",
    "doctor.press": "This tests whether clicks reach the bot. Press the button, please.",
    "doctor.button": "I press it",
    "doctor.arrived": "The click arrived.",
    "doctor.over": "This test is over: no click arrived in time.",
    "announce": "Request #{number}",
    "feishu.words_left": (
        "You wrote something too: press Approve with changes to send it, or clear it to approve as it is."
    ),
    "reply.late": "This takes longer than usual. Look at the card in a moment; nothing is done twice.",
    "ask_back.not_whole": (
        "Not all of request #{number} is here yet, so nothing was decided. "
        "Answer again when its file is there."
    ),
}
