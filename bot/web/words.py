"""The words of the page itself: navigation, labels, empty pages. Cards bring their own.

Each line holds English, Chinese and Japanese side by side; a test proves the places agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from cards import wording
from cards.model import Line, Ours, Theirs

LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "中文", "ja": "日本語"}
"""The languages a reader can choose, each by its own name."""

_T = Mapping[str, tuple[str, str, str]]

SHELL: _T = {
    "skip": ("Skip to the content", "跳到正文", "本文へ移動"),
    "nav": ("Pages", "页面", "ページ"),
    "threads": ("Threads", "会话", "スレッド"),
    "inbox": ("Inbox", "待审批", "承認待ち"),
    "audit": ("Audit", "审计", "監査"),
    "grants": ("Grants", "长期许可", "継続許可"),
    "inbox.count": ("{n} waiting for you", "{n} 个等你决定", "{n} 件があなたの判断待ち"),
    "language": ("Language", "语言", "言語"),
    "sign_out": ("Sign out", "退出", "ログアウト"),
    "signed_in": ("Signed in as {who}", "当前用户 {who}", "{who} としてログイン中"),
    "offline": (
        "Connection lost. Trying again; what you typed stays here.",
        "连接已断开，正在重连。你输入的内容不会丢失。",
        "接続が切れました。再接続中です。入力した内容は残っています。",
    ),
    "no_script": (
        "This page needs JavaScript for its buttons. The terminal works without: countersign ask.",
        "本页面的按钮需要 JavaScript。也可以在终端使用 countersign ask。",
        "このページのボタンには JavaScript が必要です。端末からは countersign ask が使えます。",
    ),
}

THREADS: _T = {
    "list": ("All threads", "全部会话", "すべてのスレッド"),
    "list.empty": ("No threads yet", "还没有会话", "スレッドはまだありません"),
    "list.more": ("Older threads", "更早的会话", "以前のスレッド"),
    "new": ("New", "新建", "新規"),
    "ask.title": ("What should be done?", "想完成什么工作？", "何を任せますか？"),
    "ask.lead": (
        "The agent does the work in your workspace. Before any step that needs a person it stops "
        "and asks, and nothing of it runs until somebody says yes.",
        "智能体会在你的工作区里完成工作。遇到需要人决定的步骤时它会停下来询问，没人同意就什么都不会执行。",
        "エージェントがワークスペースで作業します。人の判断が必要な手順の前では止まって確認し、"
        "誰かが許可するまで実行しません。",
    ),
    "ask.label": ("Ask for a job", "交代一项工作", "仕事を頼む"),
    "ask.placeholder": ("Ask for a job…", "交代一项工作…", "仕事を頼む…"),
    "ask.send": ("Start", "开始", "開始"),
    "ask.keys": ("Ctrl+Enter sends", "Ctrl+Enter 发送", "Ctrl+Enter で送信"),
    "workspace": ("Workspace", "工作区", "ワークスペース"),
    "workspace.none": (
        "No workspace is configured. Add one under [workspaces] in countersign.toml and start again.",
        "还没有配置工作区。请在 countersign.toml 的 [workspaces] 中添加后重新启动。",
        "ワークスペースが設定されていません。countersign.toml の [workspaces] に追加して再起動してください。",
    ),
    "plan": ("Show me a plan first", "先给我看计划", "先に計画を見せる"),
    "example.label": ("For example", "例如", "例えば"),
    "example.1": (
        "Find out why the last build is red, and fix it",
        "查清上次构建为什么失败，并修好",
        "直近のビルドが失敗した原因を調べて直して",
    ),
    "example.2": (
        "Update the changelog for the next release",
        "为下一个版本更新变更日志",
        "次のリリース用に変更履歴を更新して",
    ),
    "example.3": (
        "Which files here are larger than 10 MB?",
        "这里有哪些文件超过 10 MB？",
        "10 MB を超えるファイルはどれ？",
    ),
    "back": ("All threads", "全部会话", "すべてのスレッド"),
    "thread": ("Thread", "会话", "スレッド"),
    "messages": ("Messages", "消息", "メッセージ"),
    "asked": ("{who} asked in {workspace}", "{who} 在 {workspace} 发起", "{who} が {workspace} で依頼"),
    "agent": ("Agent", "智能体", "エージェント"),
    "you": ("you", "你", "あなた"),
    "reply.label": ("Reply", "回复", "返信"),
    "reply.placeholder": ("Reply…", "回复…", "返信…"),
    "reply.answer": (
        "Reply with a number or words…",
        "回复编号或文字…",
        "番号か言葉で返信…",
    ),
    "reply.follow": (
        "Say what to do next…",
        "说说接下来做什么…",
        "次にすることを書く…",
    ),
    "reply.send": ("Send", "发送", "送信"),
    "to_record": ("Audit", "审计", "監査"),
    "age.now": ("now", "刚刚", "たった今"),
    "age": ("{age} ago", "{age}前", "{age}前"),
}

STATES: _T = {
    "state.queued": ("queued", "排队中", "待機中"),
    "state.running": ("working", "进行中", "作業中"),
    "state.waiting": ("needs a decision", "等待决定", "判断待ち"),
    "state.done": ("done", "已完成", "完了"),
    "state.failed": ("failed", "失败", "失敗"),
    "state.stopped": ("stopped", "已停止", "停止"),
    "state.stuck": ("stuck", "卡住了", "行き詰まり"),
}

INBOX: _T = {
    "inbox.mine": ("Waiting for you", "等你决定", "あなたの判断待ち"),
    "inbox.others": ("Waiting for others", "等其他人决定", "ほかの人の判断待ち"),
    "inbox.handled": ("Just decided", "刚刚处理", "たった今決まったもの"),
    "inbox.empty.title": ("Nothing waits for you", "没有等你决定的请求", "判断待ちはありません"),
    "inbox.empty": (
        "When the agent needs a decision, the request appears here by itself.",
        "智能体需要决定时，请求会自动出现在这里。",
        "エージェントが判断を必要とすると、依頼がここに自動で表示されます。",
    ),
    "inbox.thread": ("Open the thread", "打开会话", "スレッドを開く"),
    "inbox.more": (
        "Only the first {n} are shown; the rest follows as these are decided.",
        "这里只显示前 {n} 个，处理后会显示其余的。",
        "最初の {n} 件だけ表示しています。決まると続きが表示されます。",
    ),
}

GRANTS: _T = {
    "grants.lead": (
        "Approvals that outlive one call. What they cover runs without asking; what a rule denies does not.",
        "超出单次调用的批准。它们覆盖的调用不再询问；策略禁止的仍然禁止。",
        "一回の呼び出しを超えて続く承認です。対象の呼び出しは確認なしで実行されます。ポリシーの禁止は変わりません。",
    ),
    "grants.empty": (
        "No approval outlives its call",
        "没有超出单次调用的批准",
        "一回を超えて続く承認はありません",
    ),
    "grants.exact": (
        "Exactly the call of request #{number}",
        "仅限请求 #{number} 的调用本身",
        "依頼 #{number} とまったく同じ呼び出し",
    ),
    "grants.in_task": ("in this thread", "在此会话中", "このスレッド内"),
    "grants.in_workspace": (
        "in every thread of {workspace}",
        "在 {workspace} 的所有会话中",
        "{workspace} のすべてのスレッド内",
    ),
    "grants.by": ("by {who} at {time}", "由 {who} 于 {time} 批准", "{who} さんが {time} に承認"),
    "grants.until": ("until {time}", "到 {time} 为止", "{time} まで"),
    "grants.used": ("{used} of {times} used", "已用 {used}/{times} 次", "{times} 回中 {used} 回使用"),
    "grants.revoke": ("Revoke", "撤销", "取り消す"),
}

LOGIN: _T = {
    "login.title": ("Sign in", "登录", "ログイン"),
    "login.lead": (
        "Open the link that `countersign up` prints, or paste your personal token.",
        "请打开 `countersign up` 打印的链接，或粘贴你的个人令牌。",
        "`countersign up` が表示するリンクを開くか、個人トークンを貼り付けてください。",
    ),
    "login.token": ("Personal token", "个人令牌", "個人トークン"),
    "login.send": ("Sign in", "登录", "ログイン"),
    "login.wrong": (
        "This token is not valid, or no longer. Take the link printed last, or ask whoever runs this.",
        "令牌无效或已失效。请使用最近一次打印的链接，或联系管理员。",
        "このトークンは無効か、期限切れです。最後に表示されたリンクを使うか、管理者に尋ねてください。",
    ),
    "login.missing": ("Paste your token first.", "请先粘贴令牌。", "先にトークンを貼り付けてください。"),
}

PROBLEMS: _T = {
    "problem.not_found": ("Not found", "没有找到", "見つかりません"),
    "problem.not_found.text": (
        "There is nothing at this address. It may have been mistyped.",
        "这个地址没有内容，可能输错了。",
        "このアドレスには何もありません。入力を確かめてください。",
    ),
    "problem.try_again": ("The store does not answer", "存储没有响应", "ストアが応答しません"),
    "problem.try_again.text": (
        "Nothing is lost and nothing was changed. Load the page again in a moment; "
        "`countersign doctor` shows the cause.",
        "没有丢失也没有改动任何内容。请稍后刷新页面；`countersign doctor` 会显示原因。",
        "何も失われず、何も変更されていません。少し待って再読み込みしてください。"
        "原因は `countersign doctor` で分かります。",
    ),
    "problem.error": ("Something went wrong", "出错了", "問題が起きました"),
    "problem.error.text": (
        "The fault is on our side and is in the log. Nothing was approved by it.",
        "这是程序自身的错误，已写入日志，没有因此批准任何操作。",
        "プログラム側の問題で、ログに記録されています。これで承認されたものはありません。",
    ),
    "problem.reload": ("Load again", "重新加载", "再読み込み"),
    "problem.home": ("To the threads", "返回会话", "スレッドへ"),
}

SCRIPT: _T = {
    "js.sending": ("Sending…", "正在发送…", "送信中…"),
    "js.unreachable": (
        "The server cannot be reached, so this was not recorded. Try again.",
        "无法连接服务器，未能记录。请重试。",
        "サーバーに接続できず、記録されませんでした。もう一度お試しください。",
    ),
    "js.draft": (
        "This was settled while you were typing. Your words were not sent:",
        "你输入期间这里已经处理完毕，你的内容没有发送：",
        "入力中にここは決着しました。入力した内容は送信されていません：",
    ),
    "js.edited": (
        "You changed something in the form. Send that, or undo it before approving the request as it is.",
        "你在表单中做了修改。请提交修改，或先撤销再按原样批准。",
        "フォームに変更があります。それを送信するか、元に戻してからそのまま承認してください。",
    ),
    "js.signed_out": (
        "You are signed out. Open the sign-in page in another tab; what you typed stays here.",
        "登录已失效。请在另一个标签页登录，你输入的内容不会丢失。",
        "ログアウトされています。別のタブでログインしてください。入力した内容は残っています。",
    ),
}

RECORD: _T = {
    "record.lead": (
        "Who was asked what, who decided, and what then ran. Each entry is sealed into the next.",
        "谁被问了什么、谁做了决定、随后执行了什么。每条记录都与下一条环环相扣。",
        "誰に何を確認し、誰が決め、その後何が実行されたか。各記録は次の記録につながって封印されます。",
    ),
    "record.task": ("Thread", "会话", "スレッド"),
    "record.person": ("Person", "人员", "人"),
    "record.since": ("From", "从", "開始"),
    "record.until": ("To", "到", "終了"),
    "record.filter": ("Show", "显示", "表示"),
    "record.clear": ("Clear", "清除", "解除"),
    "record.empty": ("Nothing on record matches.", "没有符合的记录。", "該当する記録はありません。"),
    "record.newer": ("Newest", "最新", "最新"),
    "record.older": ("Older", "更早", "以前"),
    "record.intact": ("Record intact: {n} entries", "记录完整：{n} 条", "記録は無傷：{n} 件"),
    "record.broken": (
        "Record altered at entry {n}: it does not follow from the one before",
        "记录在第 {n} 条被改动：与前一条不衔接",
        "記録は {n} 件目で改変されています：前の記録とつながりません",
    ),
    "record.all_intact": (
        "The records of the threads on this page are intact.",
        "本页各会话的记录均完整。",
        "このページのスレッドの記録は無傷です。",
    ),
    "record.agent_says": ("The agent:", "智能体：", "エージェント："),
    "record.hash": ("Entry {seq} · {hash}", "第 {seq} 条 · {hash}", "{seq} 件目 · {hash}"),
    "on.task_asked": ("{who} asked for a job", "{who} 发起了任务", "{who} が仕事を依頼"),
    "on.turn_started": (
        "A worker started turn {turn}",
        "工作进程开始第 {turn} 轮",
        "ワーカーがターン {turn} を開始",
    ),
    "on.inquiry_asked": (
        "Request #{number} was raised: {tool}",
        "提出请求 #{number}：{tool}",
        "依頼 #{number} が発生：{tool}",
    ),
    "on.inquiry_shown": ("Request #{number} was shown", "请求 #{number} 已展示", "依頼 #{number} を表示"),
    "on.voted": (
        "{who} voted on request #{number}: {verdict}",
        "{who} 对请求 #{number} 投票：{verdict}",
        "{who} が依頼 #{number} に投票：{verdict}",
    ),
    "on.decided": (
        "{who} decided request #{number}: {verdict}",
        "{who} 对请求 #{number} 作出决定：{verdict}",
        "{who} が依頼 #{number} を決定：{verdict}",
    ),
    "on.break_glass": (
        "{who} approved request #{number} alone (break-glass)",
        "{who} 独自批准了请求 #{number}（紧急放行）",
        "{who} が依頼 #{number} を単独で承認（緊急承認）",
    ),
    "on.reminded": (
        "Those who may decide request #{number} were reminded",
        "已提醒可审批请求 #{number} 的人",
        "依頼 #{number} を判断できる人に再通知",
    ),
    "on.escalated": (
        "Request #{number} was escalated: more people may decide it",
        "请求 #{number} 已升级：更多人可以审批",
        "依頼 #{number} の承認者を追加",
    ),
    "on.refused_attempt": (
        "{who} tried to decide request #{number} and may not",
        "{who} 试图决定请求 #{number}，但没有权限",
        "{who} が依頼 #{number} を決めようとしましたが、権限がありません",
    ),
    "on.expired": (
        "Request #{number} expired: nobody answered",
        "请求 #{number} 已过期：无人答复",
        "依頼 #{number} は期限切れ：回答なし",
    ),
    "on.withdrawn": (
        "Request #{number} was withdrawn",
        "请求 #{number} 已撤回",
        "依頼 #{number} は取り下げ",
    ),
    "on.dispatched": (
        "The call of request #{number} started",
        "请求 #{number} 的调用开始执行",
        "依頼 #{number} の呼び出しを開始",
    ),
    "on.finished": (
        "The call of request #{number} ended without error",
        "请求 #{number} 的调用执行完毕，没有错误",
        "依頼 #{number} の呼び出しがエラーなしで終了",
    ),
    "on.finished_badly": (
        "The call of request #{number} ended with an error",
        "请求 #{number} 的调用执行出错",
        "依頼 #{number} の呼び出しがエラーで終了",
    ),
    "on.outcome_unknown": (
        "What became of request #{number} is unknown: the worker stopped while it ran",
        "请求 #{number} 结果未知：执行途中工作进程停止",
        "依頼 #{number} の結果は不明：実行中にワーカーが停止",
    ),
    "on.refusal_told": (
        "The agent made the call of request #{number} again and was told that it may not",
        "智能体再次发起请求 #{number} 的调用，已告知不可执行",
        "エージェントが依頼 #{number} の呼び出しを再び行い、実行できないと伝えた",
    ),
    "on.not_run": (
        "Request #{number} was approved, and its call was not made again: it did not run",
        "请求 #{number} 已批准，但智能体没有再发起该调用：未执行",
        "依頼 #{number} は承認されたが、呼び出しは行われず、実行していない",
    ),
    "on.call_denied": ("A call was refused: {tool}", "拒绝了一次调用：{tool}", "呼び出しを拒否：{tool}"),
    "on.grant_given": (
        "{who} approved beside request #{number}: {rule}",
        "{who} 随请求 #{number} 一并批准：{rule}",
        "{who} が依頼 #{number} とあわせて承認：{rule}",
    ),
    "on.grant_given_counted": (
        "{who} approved the exact call of request #{number} for {times} runs",
        "{who} 批准请求 #{number} 的同一调用执行 {times} 次",
        "{who} が依頼 #{number} と同じ呼び出しを {times} 回承認",
    ),
    "on.call_held_back": (
        "The approved call of request #{number} was held back",
        "已批准的请求 #{number} 的调用被拦下",
        "承認済みの依頼 #{number} の呼び出しを停止",
    ),
    "on.grant_used": (
        "An earlier approval was used: {tool}",
        "使用了先前的批准：{tool}",
        "以前の承認を使用：{tool}",
    ),
    "on.grant_revoked": (
        "{who} revoked what was approved with request #{number}",
        "{who} 撤销了随请求 #{number} 批准的许可",
        "{who} が依頼 #{number} での許可を取り消し",
    ),
    "on.alarm": (
        "Alarm: something ran that should not have",
        "警报：执行了不该执行的内容",
        "警報：実行されるべきでないものが実行されました",
    ),
    "on.follow_up": ("{who} wrote to the agent", "{who} 给智能体留言", "{who} がエージェントに連絡"),
    "on.stop_requested": ("{who} asked to stop", "{who} 要求停止", "{who} が停止を要求"),
    "on.retried": ("{who} tried again", "{who} 重试", "{who} が再試行"),
    "on.worker_lost": ("The worker was lost", "工作进程丢失", "ワーカーが失われました"),
    "on.task_ended": ("The job ended: {state}", "任务结束：{state}", "仕事が終了：{state}"),
}

WORDS: Mapping[str, Mapping[str, str]] = {
    lang: {
        key: row[at]
        for table in (SHELL, THREADS, STATES, INBOX, GRANTS, LOGIN, PROBLEMS, SCRIPT, RECORD)
        for key, row in table.items()
    }
    for at, lang in enumerate(LANGUAGES)
}


def text(lang: str, key: str, **places: str | int) -> str:
    """Words of the page as plain text."""
    return WORDS[lang][key].format(**places)


def line(lang: str, key: str, **places: wording.Words) -> Line:
    """Words of the page whose places may hold untrusted text, which stays marked as such."""
    out: list[Ours | Theirs] = []
    for literal, name, _, _ in Formatter().parse(WORDS[lang][key]):
        if literal:
            out.append(Ours(text=literal))
        if name is not None:
            out += wording.as_line(places[name])
    return tuple(out)
