"""What the rehearsal listens for and says, in English, Chinese and Japanese."""

from __future__ import annotations

import re
from typing import Any, Literal

Language = Literal["en", "zh", "ja"]

PATTERNS = {
    "deploy": r"request approval|\bdeploy|部署|上线|审批|デプロイ|承認",
    "plan": r"\bplan|计划|方案|計画",
    "edit": r"\bedit|编辑|修改|編集|書き換え",
    "question": r"\bquestions?\b|\bask\b|问|質問|聞いて",
}
"""Which words of a job choose which story; the first that matches. Anything else runs a command."""

ANSWERS_MARK = re.compile(r'"([^"]+)"\s*=\s*"([^"]*)"')
"""How the engine writes answers into the result of AskUserQuestion (fact E17)."""

WORDS: dict[str, dict[Language, str]] = {
    "look_first": {
        "en": "I will first look at what is in the workspace; that is free and needs nobody.",
        "zh": "我先看看工作区里有什么；这一步无需审批。",
        "ja": "まず作業場所に何があるかを見ます。これには承認は要りません。",
    },
    "will_run": {
        "en": "Now I would like to run one command that writes a small file. It waits for your decision.",
        "zh": "接下来我想运行一条命令，写一个小文件。它会等您决定。",
        "ja": "次に、小さなファイルを書くコマンドを一つ実行したいです。ご判断をお待ちします。",
    },
    "greeting": {
        "en": "Hello from the rehearsal",
        "zh": "来自演练的问候",
        "ja": "リハーサルからこんにちは",
    },
    "greeting_file": {
        "en": "Write a greeting to {file}",
        "zh": "把问候写入 {file}",
        "ja": "{file} に挨拶を書く",
    },
    "ran": {
        "en": "You approved, and the command ran as I asked. {file} now holds:\n{words}",
        "zh": "您批准了，命令已按我的请求运行。{file} 的内容：\n{words}",
        "ja": "承認をいただき、コマンドはそのまま実行されました。{file} の内容：\n{words}",
    },
    "ran_changed": {
        "en": "It ran, but not as I asked: you changed it. What came back:\n{words}",
        "zh": "命令运行了，但与我的请求不同：您修改过它。返回的内容：\n{words}",
        "ja": "実行されましたが、依頼したとおりではなく、変更が加えられていました。返ってきた内容：\n{words}",
    },
    "will_revise": {
        "en": "I took your words into the command. Here it is again.",
        "zh": "我已把您的要求写进命令，请再看一次。",
        "ja": "いただいた言葉をコマンドに取り入れました。もう一度ご覧ください。",
    },
    "ran_revised": {
        "en": "The command ran as revised with your words. It wrote:\n{words}",
        "zh": "命令已按您的要求修改后运行，写入了：\n{words}",
        "ja": "ご要望どおりに直したコマンドが実行されました。書いた内容：\n{words}",
    },
    "refused": {
        "en": "It did not run. I was told:\n{words}",
        "zh": "它没有运行。我得到的答复是：\n{words}",
        "ja": "実行されませんでした。受け取った言葉：\n{words}",
    },
    "will_ask": {
        "en": "Before I start I have two questions.",
        "zh": "开始之前，我有两个问题。",
        "ja": "始める前に、二つ質問があります。",
    },
    "answered": {
        "en": "Thank you. Your answers reached me:\n{words}",
        "zh": "谢谢。我收到了您的回答：\n{words}",
        "ja": "ありがとうございます。回答を受け取りました：\n{words}",
    },
    "not_answered": {
        "en": "My questions were not answered. I was told:\n{words}",
        "zh": "我的问题没有得到回答。我得到的答复是：\n{words}",
        "ja": "質問への回答はありませんでした。受け取った言葉：\n{words}",
    },
    "will_plan": {
        "en": "I will write down a plan first.",
        "zh": "我先写下计划。",
        "ja": "まず計画を書きます。",
    },
    "plan_ready": {
        "en": "Here is my plan. I start when you approve it.",
        "zh": "这是我的计划，您批准后我再开始。",
        "ja": "計画はこちらです。承認をいただいてから始めます。",
    },
    "plan": {
        "en": "# Plan\n\n1. Write a greeting to `{file}` (this asks you again).\n2. Say what was written.",
        "zh": "# 计划\n\n1. 把问候写入 `{file}`（届时会再次请您决定）。\n2. 报告写了什么。",
        "ja": "# 計画\n\n1. `{file}` に挨拶を書く（その前にもう一度伺います）。\n2. 何を書いたかを報告する。",
    },
    "plan_refused": {
        "en": "The plan was not approved, so nothing was done. I was told:\n{words}",
        "zh": "计划未获批准，什么也没有做。我得到的答复是：\n{words}",
        "ja": "計画は承認されず、何も行っていません。受け取った言葉：\n{words}",
    },
    "no_plan_mode": {
        "en": "I show a plan only when a job is started in plan mode; this one was not.",
        "zh": "只有以计划模式启动的任务才会先展示计划；这个任务不是。",
        "ja": "計画を示すのは、計画モードで始めた仕事だけです。今回は違います。",
    },
    "will_write": {
        "en": "I will write a note, and then edit it. Each of the two waits for you.",
        "zh": "我先写一份笔记，然后修改它。两步都会等您决定。",
        "ja": "メモを書き、そのあと編集します。どちらもご判断をお待ちします。",
    },
    "will_edit": {
        "en": "The note is there. Now the edit.",
        "zh": "笔记已写好，现在修改它。",
        "ja": "メモができました。次は編集です。",
    },
    "draft": {
        "en": "Status: draft",
        "zh": "状态：草稿",
        "ja": "状態：下書き",
    },
    "edited": {
        "en": "Status: reviewed by a person",
        "zh": "状态：已由人工审阅",
        "ja": "状態：人が確認済み",
    },
    "edit_done": {
        "en": "Both steps ran. The last one said:\n{words}",
        "zh": "两步都已运行。最后一步返回：\n{words}",
        "ja": "二つとも実行されました。最後の結果：\n{words}",
    },
    "will_request": {
        "en": "This is more than one tool call, so I ask for your approval in words.",
        "zh": "这不是单个工具调用能完成的，所以我用文字请求批准。",
        "ja": "これは一つのツール呼び出しでは済まないため、言葉で承認をお願いします。",
    },
    "deploy_title": {
        "en": "Deploy the example service",
        "zh": "部署示例服务",
        "ja": "サンプルサービスのデプロイ",
    },
    "deploy_action": {
        "en": "Roll out version 1.2.0 to the pretend cluster, one node at a time.",
        "zh": "把 1.2.0 版本逐个节点地发布到虚拟集群。",
        "ja": "バージョン 1.2.0 を架空のクラスターへ一台ずつ展開します。",
    },
    "deploy_context": {
        "en": "Version 1.1.9 runs there now. Going back takes one minute.",
        "zh": "目前运行的是 1.1.9 版本，回滚需要一分钟。",
        "ja": "現在は 1.1.9 が動いています。戻すのに一分かかります。",
    },
    "deploy_next_steps": {
        "en": "I would watch the error rate for ten minutes and then report.",
        "zh": "之后我会观察错误率十分钟，然后报告。",
        "ja": "その後十分間エラー率を見て、報告します。",
    },
    "deploy_answered": {
        "en": "You answered, and nothing was really deployed. I was told:\n{words}",
        "zh": "您已答复；实际上没有部署任何东西。我得到的答复是：\n{words}",
        "ja": "ご返答をいただきました。実際には何もデプロイしていません。受け取った言葉：\n{words}",
    },
    "deploy_refused": {
        "en": "It was not approved, so I stop here. I was told:\n{words}",
        "zh": "未获批准，我就此停止。我得到的答复是：\n{words}",
        "ja": "承認されなかったため、ここで止めます。受け取った言葉：\n{words}",
    },
    "not_offered": {
        "en": "I would use the tool {tool} here, but it is not offered in this workspace.",
        "zh": "这里我本想使用工具 {tool}，但这个工作区没有提供它。",
        "ja": "ここでツール {tool} を使いたいのですが、この作業場所では提供されていません。",
    },
    "rehearsal": {
        "en": "This is a rehearsal: a scripted model answered, not Claude, and it cost nothing.",
        "zh": "这是一次演练：回答来自脚本模型而不是 Claude，没有产生费用。",
        "ja": "これはリハーサルです。答えたのは Claude ではなく台本どおりのモデルで、費用は発生しません。",
    },
    "try_next": {
        "en": 'Try next: "say hello", "ask me a question", "edit a note", "deploy the service", '
        'or "make a plan" in plan mode.',
        "zh": "接下来可以试试：“打个招呼”、“问我一个问题”、“修改笔记”、“部署服务”，"
        "或在计划模式下“做个计划”。",
        "ja": "次に試せること：「挨拶して」「質問して」「メモを編集して」「デプロイして」、"
        "または計画モードで「計画を立てて」。",
    },
}


def _question(header: str, text: str, options: list[tuple[str, str]], *, several: bool) -> dict[str, Any]:
    return {
        "question": text,
        "header": header,
        "options": [{"label": label, "description": what} for label, what in options],
        "multiSelect": several,
    }


QUESTIONS: dict[Language, list[dict[str, Any]]] = {
    "en": [
        _question(
            "Database",
            "Which database shall the example use?",
            [("PostgreSQL", "Runs as a server"), ("SQLite", "One file, no server")],
            several=False,
        ),
        _question(
            "Extras",
            "Which extras do you want?",
            [
                ("Backups", "A copy every night"),
                ("Metrics", "Numbers for a dashboard"),
                ("Alerts", "A message when it fails"),
            ],
            several=True,
        ),
    ],
    "zh": [
        _question(
            "数据库",
            "示例使用哪个数据库？",
            [("PostgreSQL", "以服务器方式运行"), ("SQLite", "单个文件，无需服务器")],
            several=False,
        ),
        _question(
            "附加功能",
            "需要哪些附加功能？",
            [("备份", "每晚保存一份副本"), ("指标", "供仪表盘使用的数据"), ("告警", "出错时发送消息")],
            several=True,
        ),
    ],
    "ja": [
        _question(
            "データベース",
            "サンプルではどのデータベースを使いますか？",
            [("PostgreSQL", "サーバーとして動く"), ("SQLite", "ファイル一つ、サーバー不要")],
            several=False,
        ),
        _question(
            "追加機能",
            "どの追加機能が必要ですか？",
            [
                ("バックアップ", "毎晩コピーを残す"),
                ("メトリクス", "ダッシュボード用の数値"),
                ("アラート", "失敗時に通知"),
            ],
            several=True,
        ),
    ],
}
