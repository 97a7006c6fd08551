"""Japanese."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    # What a card is about
    "title.approval": "依頼 #{number} · {workspace} で{what}",
    "title.plan": "依頼 #{number} · {workspace} の計画",
    "title.question": "依頼 #{number} · エージェントから {who} さんへの質問",
    "what.bash": "コマンドを実行",
    "what.write": "ファイルに書き込み",
    "what.edit": "ファイルを編集",
    "what.step": "作業を実行",
    "what.tool": " {tool} を使用",
    "what.mcp": " {server} の {tool} を使用",
    "summary.approval": "依頼者 {who} · 確認の理由：{rule}",
    "summary.question": "依頼者 {who} · {workspace}",
    "summary.plan": "依頼者 {who} · 決定するまで何も実行されません",
    "rule.none": "自動で許可するルールがありません",
    "replaces": "依頼 #{number} に代わるものです。変更点：",
    "replaces.words": "依頼 #{number} への回答",
    "replaces.same": "依頼 #{number} と同じ内容をもう一度お願いするものです。",
    "more.open": "未決の依頼 {of} 件のうち {at} 件目です。それぞれ個別に決定します。",
    "batch.title": "依頼 {numbers} · {workspace} での同じターンの {n} 手順",
    "batch.summary": "依頼者 {who} · 手順ごとに、またはまとめて決定できます",
    "batch.step": "{mark} · #{number} · {what}",
    "batch.because": "確認の理由：{rule}",
    "batch.waits": "すべての手順が決まると実行します",
    "batch.apart": "このターンの {n} 手順はここでは 1 枚のカードに収まらないため、1 枚ずつに分けています。",
    "batch.announce": "依頼 {numbers}",
    "button.approve_all": "すべて承認（{n}）",
    "button.reject_all": "すべて却下…",
    "submit.reject_all": "すべて却下（{n}）",
    "typed.batch": (
        "{a}1 {a} を承認   {a}2 <変更内容> {a} を変更して承認   {a}3 <理由> {a} を却下   "
        "まとめて：{a}1 {b}3 <理由>   すべて 1 すべて承認   すべて 3 <理由> すべて却下"
    ),
    "typed.batch_last": "{a}1 承認   {a}2 <変更内容> 変更して承認   {a}3 <理由> 却下",
    "reply.decided_together": "{numbers} を記録しました：{what}。",
    "reply.voted_together": "{numbers} を記録しました。ほかの人の承認も必要です。",
    "reply.voted_no_together": "{numbers} を記録しました：却下。ほかの人はまだ承認できます。",
    "reply.left_not_allowed": "あなたが決定できないため未決のまま：{numbers}。",
    "reply.left_changed": "表示後に変わったため未決のまま：{numbers}。",
    "ask_back.which_step": (
        "どの手順ですか？未決は {steps} です。{example} のように前に文字を付けるか、"
        "すべて承認するなら「すべて 1」と書いてください。"
    ),
    "ask_back.step_twice": "手順 {step} が二度あるため、何も決定していません。一度だけ書いてください。",
    "ask_back.no_such_step": "未決の手順 {step} はないため、何も決定していません。未決は {steps} です。",
    "ask_back.no_such_step_choice": "手順に選択肢 {choice} はないため、何も決定していません。",
    "ask_back.step_words": (
        "{piece} に言葉は付けられないため、何も決定していません。言葉を添えるなら {step}2 <変更内容> か "
        "{step}3 <理由> です。"
    ),
    "ask_back.step_change": (
        "どこを変えますか？{step}2 に続けて変更内容を書いてください。何も決定していません。"
    ),
    "ask_back.step_reject": "なぜですか？{step}3 に続けて理由を書いてください。何も決定していません。",
    "ask_back.step_in_words": (
        "{piece} が別の回答なのか文の一部なのか分からないため、何も決定していません。"
        "その手順だけに回答してください：#{number} に続けて回答。"
    ),
    "ask_back.all_why": (
        "なぜですか？「すべて 3」に続けて理由を書いてください。エージェントにそのまま伝わります。"
    ),
    "ask_back.all_alone": (
        "すべて承認するなら「すべて 1」だけを、すべて却下するなら「すべて 3 <理由>」を送ってください。"
        "それ以外は {example} のように手順ごとに書いてください。"
    ),
    "ask_back.why_reject_all": "なぜですか？理由が必要です。エージェントにそのまま伝わります。",
    "feishu.batch_words_hint": "変更や却下のとき、ここに書いてからその手順のボタンを押してください。",
    "error.of_several": "{request}：{error} 回答は一切記録していません。",
    # Labels
    "label.command": "コマンド",
    "label.content": "内容の全文",
    "label.new_content": "新しい内容の全文",
    "label.diff": "ファイルの変更点",
    "label.edit": "置き換える箇所",
    "label.input": "入力の全文",
    "label.file": "ファイル",
    "label.as_written": "エージェントの表記",
    "label.plan": "計画",
    "label.step": "作業",
    "label.action": "実際に行うこと",
    "label.context": "理由とリスク",
    "label.next_steps": "その後",
    "label.agent": "エージェントの説明（参考です。上の内容が実行されます）",
    "label.words": "コメント",
    "label.reason": "理由",
    "label.changed": "変更：{field}",
    "label.output": "出力",
    "label.output_cut": "出力（冒頭のみ。続きは記録にあります）",
    "label.details": "詳細",
    "label.remedy": "対処",
    "label.argument": "{name}",
    "label.attached": "{label}（添付 {filename}、{size} 文字）",
    "label.not_attached": "{label}（{size} 文字あり、ここには入りません。全文が添付されてから決定できます）",
    # Warnings
    "warning.bidi": "読む向きを変える文字が含まれています。⟨U+…⟩ で示しています。",
    "warning.hidden_characters": "通常は見えない文字が含まれています。⟨U+…⟩ で示しています。",
    "warning.look_alikes": "ラテン文字に似せた別の文字が含まれています。⟨U+…⟩ で示しています。",
    "warning.padding": "長い空白が含まれ、続きが画面から外れるおそれがあります。⟨U+…⟩ で示しています。",
    "warning.outside_workspace": "このファイルはワークスペースの外にあります。",
    "warning.unparsed": "このコマンドは分解して確認できませんでした。注意して読んでください。",
    "warning.no_plan": "エージェントは計画の文章を示しませんでした。",
    "warning.other": "よく確認してください：{code}",
    # Who may decide, how many, until when
    "approver.requester": "{who}",
    "approver.anyone": "ここにいる誰でも",
    "approver.nobody": "該当者なし",
    "may_decide": "決定できる人：{who}",
    "may_answer": "回答できる人：{who}",
    "may_not_decide": "この依頼はあなたには決定できません。決定できる人：{who}。",
    "not_requester": "{who} さんは依頼者のため決定できません",
    "quorum": "承認 {got} 人、必要 {needed} 人",
    "vote.approve": "{who} さんが {time} に承認",
    "vote.change": "{who} さんが {time} に変更して承認",
    "vote.reject": "{who} さんが {time} に却下",
    "vote.answer": "{who} さんが {time} に回答",
    "process_waits": (
        "プロセスがこの回答を待っています。{time} までに回答がなければ実行せず、エージェントに伝えます。"
    ),
    # In somebody's place, again, by more people, alone
    "standin": "{who}（{absent} の代理）",
    "acting": "{who}（{absent} の代理）",
    "no_veto": "却下は一票として数えます",
    "reminder.title": "リマインダー",
    "reminder.text": "依頼 #{number} は {since} から {who} さんの判断を待っています（{until} まで）",
    "escalated.title": "承認者を追加しました",
    "escalated.text": (
        "依頼 #{number} は {since} から待っています。{who} さんも判断できるようになりました（{until} まで）"
    ),
    "breakglass.title": "緊急承認",
    "breakglass.text": "{who} さんが {time} に依頼 #{number} を単独で承認しました。通知先：{told}",
    "breakglass.why": "{who} さんが待たなかった理由",
    "outcome.break_glass": "{who} さんが {time} に単独で承認（緊急承認）：{reason}",
    "button.break_glass": "緊急承認…",
    "submit.break_glass": "単独で承認",
    "input.why_alone": "なぜ待てないのですか？本来判断するはずの全員がこれを読みます。",
    "input.confirm_alone": (
        "ほかの人を待たず、依頼 #{number} を単独で承認します。{who} さんに通知され、記録に残ります。"
    ),
    "ask_back.why_alone": "なぜ待てないのですか？本来判断するはずの全員が理由を読みます。",
    "ask_back.confirm_alone": "単独で承認することを確認するチェックを入れてください。",
    "glass.confirm": (
        "ほかの人を待たず、依頼 #{number} を単独で承認することになります。理由とともに {who} さんに通知され、"
        "記録に残ります。続けるには 2 分以内に書いてください：緊急承認 {code}"
    ),
    "glass.why": "なぜ待てないのですか？こう書いてください：緊急承認 <理由>",
    "glass.which": "どれですか？未決は {requests} です。こう書いてください：#{number} 緊急承認 <理由>",
    "glass.nothing_open": "ここにそのような未決の依頼はなく、承認できるものがありません。",
    "glass.question": "これは質問です。単独承認はできません。回答が必要です。",
    "glass.wrong_code": (
        "コードが違うか、期限が切れています。何も決まっていません。最初からどうぞ：緊急承認 <理由>"
    ),
    "error.may_not_break_glass": "単独では承認できません。緊急承認の一覧にある人だけができます。",
    "error.said_already": "その人の分はすでに投票されています。一人分は一票です。",
    "error.said_already.with": "{who} さんがその分をすでに投票しています。一人分は一票です。",
    "reply.voted_no": "依頼 #{number} に記録しました：却下。ほかの人はまだ承認できます。",
    "away.set": "{who} さんは {until} まで不在です。それまで {to} さんが代わりに判断します。",
    "away.back": "{who} さんが戻り、ふたたび自分で判断します。",
    "away.not_away": "{who} さんは不在になっていません。",
    "away.usage": "いつまで不在で、誰が代わるかを書いてください：不在 12/5 18:00まで -> mei",
    "away.not_listed": "代理を頼めるのは [people] に載っている人だけです。管理者に追加を頼んでください。",
    "away.only_self": "自分のことだけ言えます。{who} さんのことは言えません。",
    "away.nobody": "[people] に {who} という人はいません。",
    "away.self": "ほかの人を書いてください。自分の代理にはなれません。",
    "away.circle": "一周してしまいます：{to} さんは {who} さんに頼んでいます。ほかの人を書いてください。",
    "away.when": "{when} がいつか分かりません。日付、時刻、長さで書いてください：12/5、18:00、3日間",
    "away.past": "{until} はもう過ぎています。",
    "away.too_long": "一年を超えています。そこまで長い不在は登録できません。",
    "until": "{time} まで",
    # Buttons and forms
    "button.approve": "承認",
    "button.change": "変更して承認…",
    "button.reject": "却下…",
    "button.always": "このタスク中は常に許可",
    "button.always_rule": "このタスク中は常に許可：{rule}",
    "button.always_until": "{duration}、{workspace} で許可：{rule}",
    "button.plan_edits": "承認し、ファイル編集は確認しない",
    "button.answer": "回答を送信",
    "button.ask_again": "もう一度依頼",
    "button.stop": "停止",
    "button.retry": "再試行",
    "submit.change": "この変更で承認",
    "submit.reject": "却下",
    "input.conditions": "どう変更するか",
    "input.reason": "却下の理由。エージェントにそのまま伝わります。",
    "input.field": "{name}",
    "question.other": "その他（自由記入）",
    "question.single": "1 つ選択",
    "question.multiple": "複数選択可",
    "answers.label": "{question}",
    # How to answer by typing
    "typed.approval": "1 承認   2 変更して承認：2 <変更内容>   3 却下：3 <理由>   4 このタスク中は常に許可",
    "typed.plan": "1 承認   2 変更して承認：2 <変更内容>   3 却下：3 <理由>",
    "typed.plan_edits": "4 承認し、{workspace} のファイル編集は確認しない",
    "typed.always_rule": "5 このタスク中は常に許可：{rule}",
    "typed.always_until": "6 {duration}、{workspace} で許可：{rule}",
    "typed.question": "番号で返信。例：{example}   自由記入は 1: <内容>",
    "typed.questions": "返信の例：{example}   自由記入は 1: <内容>",
    "typed.which": "未決の依頼が複数あります。先頭に #{number} を付けてください。",
    "typed.stop": "「停止」と返信すると終了します。",
    "typed.retry": "「再試行」と返信するとやり直します。",
    # Outcomes
    "outcome.approved": "{who} さんが {time} に承認",
    "outcome.always": "{who} さんが {time} に承認。このタスク中は同じ呼び出しを常に許可",
    "outcome.always_rule": (
        "{who} さんが {time} に承認。このタスク中は {rule} を常に許可（最長 {until} まで）"
    ),
    "outcome.always_until": "{who} さんが {time} に承認。{workspace} で {rule} を {until} まで許可",
    "outcome.plan_edits": (
        "{who} さんが {time} に承認。最長 {until} まで、{workspace} のファイル編集は確認しません"
    ),
    "outcome.changed": "{who} さんが {time} に変更して承認",
    "outcome.conditions": "{who} さんが {time} に差し戻し。実行していません。",
    "outcome.step_conditions": "{who} さんが {time} に条件付きで承認",
    "outcome.limited": "{decided}、{limits}",
    "limit.before": "{time} までに限る",
    "limit.in": "{value} のみ",
    "limit.with": "{value} を含む場合のみ",
    "limit.times.one": "最大 {n} 回",
    "limit.times.other": "最大 {n} 回",
    "limit.separator": "、",
    "input.limits": (
        "次のような条件だけを書くと承認になり、実行時に確認します："
        "18:00 までに限る、./dir のみ、--flag を含む場合のみ、最大 3 回"
    ),
    "verdict.limits": "条件付きで承認（実行時に確認）",
    "run.refused": "止められたため、実行していません",
    "label.refused": "止められた理由",
    "error.condition_over.with": (
        "{value} はもう過ぎているため、このままでは実行できません。もっと後の時刻を書いてください。"
    ),
    "error.condition_never.with": "{value} 回では一度も実行されません。実行させない場合は却下してください。",
    "error.condition_too_often.with": "一度に承認できるのは {value} 回までです。",
    "error.condition_outside.with": (
        "この呼び出しは {value} の外に及ぶため、このままでは実行できません。呼び出しを変更するか、どうす"
        "べきかを別の言葉で書いてください。"
    ),
    "error.condition_untold.with": (
        "この呼び出しが {value} の中だけに収まるかは確認できません。別の言葉で書けば、エージェントが呼び"
        "出しを直します。"
    ),
    "error.condition_absent.with": (
        "この呼び出しには {value} がないため、このままでは実行できません。呼び出しを変更するか、何を加え"
        "るべきかを別の言葉で書いてください。"
    ),
    "error.condition_pattern.with": (
        "{value} は検索できるパターンではありません。文字列を引用符で囲むか、もっと簡単なパターンを書いて"
        "ください。"
    ),
    "error.field_unknown.with": "このツールに {field} という項目はありません。",
    "error.field_missing.with": "項目 {field} は省けません。",
    "error.field_type.with": "項目 {field} の種類は変えられません。",
    "error.field_choice.with": "項目 {field} に指定できるのは次のいずれかです：{allowed}。",
    "error.field_number.with": "項目 {field} の数値が大きすぎます。",
    "outcome.rejected": "{who} さんが {time} に却下。実行していません。",
    "outcome.plan_rejected": "{who} さんが {time} に却下",
    "outcome.answered": "{who} さんが {time} に回答",
    "outcome.expired": "{time} までに回答がありませんでした。何も実行していません。",
    "outcome.asked_again": "依頼 #{number} としてもう一度依頼しました。",
    "outcome.withdrawn": "回答の前にタスクが終了しました。何も実行していません。",
    "outcome.unknown": (
        "実行中にワーカーが停止しました。反映されたかどうか分かりません。自動で再実行はしません。"
        "結果を確認してから、ここで続け方を指示してください。"
    ),
    "run.starting": "開始しています…",
    "run.running": "{time} から実行中",
    "run.ran": "{time} に実行、エラーなし",
    "run.ran_for": "{time} に実行、エラーなし、所要 {duration}",
    "run.failed": "{time} に実行、失敗",
    "run.failed_for": "{time} に実行、{duration}後に失敗",
    "run.to_come": "エージェントにこの呼び出しをやり直すよう伝えました",
    "run.not_run": "未実行：エージェントはこの呼び出しを行いませんでした",
    "run.exit": "終了コード {code}",
    "run.as_changed": "変更後の内容で",
    # The status message
    "status.queued": "{workspace} で空いているワーカーを待っています",
    "status.working": "{workspace} で作業中…",
    "status.stopping": "{who} さんの指示で停止しています…",
    "status.waiting": "{time} から {who} の回答待ち",
    "status.ended": "作業は終了：{what}",
    "status.calm": "待つ間プロセスは動いていません。急ぐ必要はありません。",
    "status.open": "未決：{requests}",
    "status.request": "依頼 #{number}",
    "status.since": "{time} から",
    "status.elapsed": "経過 {duration}",
    "kept.one": "メッセージ 1 件を預かっています。手が空き次第エージェントが読みます。",
    "kept.other": "メッセージ {n} 件を預かっています。手が空き次第エージェントが読みます。",
    "activity.starting": "起動中",
    "activity.thinking": "考え中",
    "activity.tool": "{detail} を使用中",
    "activity.model_retry": "モデルの応答がなく、再試行中",
    "steps.one": "1 ステップ",
    "steps.other": "{n} ステップ",
    # The result
    "result.done": "完了、所要 {duration}",
    "result.done_waiting": "完了、所要 {duration}（うち待ち {waiting}）",
    "result.failed": "失敗、所要 {duration}",
    "result.stopped": "停止、所要 {duration}",
    "result.stopped_by": "{who} さんが停止、所要 {duration}",
    "result.stuck": "行き詰まりました。所要 {duration}、続けるには人の指示が必要です",
    "result.silent": "エージェントは報告を書かずに終了しました。",
    "result.retry_at": "{time} に自動で再試行します。",
    "ended.done": "完了",
    "ended.failed": "失敗",
    "ended.stopped": "停止",
    "ended.stuck": "行き詰まり",
    "calls.one": "モデル呼び出し 1 回",
    "calls.other": "モデル呼び出し {n} 回",
    # Short answers to what a person did
    "reply.decided": "依頼 #{number} を記録しました：{what}。",
    "reply.voted": "依頼 #{number} を記録しました。承認 {got} 人、必要 {needed} 人。",
    "reply.kept": "エージェントは作業中です。メッセージを預かり、次に読みます。",
    "reply.stopping": "停止します。",
    "reply.retrying": "再試行します。",
    "reply.asked_again": "依頼 #{number} としてもう一度依頼しました。",
    "reply.help": (
        "してほしいことを書いてください。未決の依頼には 1 で承認、2 と変更内容、3 と却下の理由、"
        "4 でこのタスク中は常に許可。`停止` で終了、`状況` で進み具合を表示します。"
    ),
    "reply.started": "開始しました。",
    "reply.nothing": "文字がないため、何もしていません。",
    "reply.status": "このタスクは{state}です。",
    "state.queued": "空きワーカー待ち",
    "state.running": "作業中",
    "state.waiting": "回答待ち",
    "state.done": "完了",
    "state.failed": "失敗",
    "state.stopped": "停止",
    "state.stuck": "行き詰まり",
    "verdict.approve": "承認",
    "verdict.change": "変更して承認",
    "verdict.reject": "却下",
    "verdict.answer": "回答",
    # Asking back
    "ask_back.which_request": (
        "どの依頼ですか。未決は {requests} です。#{number} 1 のように番号を付けてください。"
    ),
    "ask_back.which_conflict": "#{quoted} への返信に #{number} と書かれています。どちらですか。",
    "ask_back.no_such_request": "依頼 #{number} はここでは未決ではありません。",
    "ask_back.what_change": "どう変更しますか。2 と変更内容を書いてください。例：2 staging だけで",
    "ask_back.why_reject": "理由は何ですか。3 と理由を書いてください。エージェントにそのまま伝わります。",
    "ask_back.extra_words": (
        "承認は 1 だけを送ってください。変更して承認するときは 2 と変更内容を送ってください。"
    ),
    "ask_back.no_such_choice": "選択肢 {choice} はありません。",
    "ask_back.unclear": (
        "意図がはっきりしないため、何も決定していません。1 承認、2 <変更内容> 変更、3 <理由> 却下です。"
    ),
    "ask_back.unclear_answer": "どの回答かはっきりしないため、送信していません。返信の例：{example}",
    "ask_back.choose_one": "1 つだけ選んでください：{question}",
    "ask_back.choice_and_words": "選択肢か自由記入のどちらか一方にしてください：{question}",
    "ask_back.missing_answers": "まだ回答がありません：{questions}",
    "ask_back.bad_field": "{field} を{kind}として読めません。",
    "ask_back.not_that_verb": "この依頼にはその方法で回答できません。",
    "kind.text": "文字列",
    "kind.number": "数値",
    "kind.boolean": " true / false ",
    "kind.json": " JSON ",
    # Errors
    "error.error": "問題が起きました。状況を確認してから、もう一度試してください。",
    "error.configuration": "設定に誤りがあります。ファイルを直して起動し直してください。",
    "error.invalid": "内容を理解できませんでした。直してもう一度送ってください。",
    "error.too_large": "大きすぎて送れません。長い内容はファイルに入れ、その名前を書いてください。",
    "error.malformed_json": "届いた内容が不完全です。ページを読み込み直して、もう一度送ってください。",
    "error.wrong_method": "このアドレスではその操作はできません。",
    "error.wrong_host": "その名前ではこのページを開けません。起動時に表示されたリンクを使ってください。",
    "error.foreign_site": "別のサイトから届いたため、実行しませんでした。このページで操作してください。",
    "error.not_found": "該当するものがありません。",
    "error.not_allowed": "この操作は許可されていません。",
    "error.not_allowed.with": "この依頼はあなたには決定できません。決定できる人：{approvers}。",
    "error.not_signed_in": "先にトークンでログインしてください。",
    "error.already_decided": "すでに決定済みです。何も変更していません。",
    "error.already_decided.with": "{by} さんがすでに決定しました。何も変更していません。",
    "error.digest_differs": "表示された内容が現在の内容と異なります。もう一度確認してから決定してください。",
    "error.expired": "決定の期限が過ぎました。何も実行していません。もう一度依頼できます。",
    "error.wrong_state": "今はその操作ができません。",
    "error.try_again": "記録できませんでした。保存先が時間内に応答しませんでした。もう一度試してください。",
    "error.lost_lease": "別のワーカーがこの作業を引き継ぎました。",
    "error.engine_failed": "エージェントが予期せず停止しました。済んだ作業を確認してから再試行してください。",
    "error.model_unreachable": "モデルに接続できませんでした。復旧したら再試行してください。",
    "error.model_refused": (
        "モデルのサービスがキーを拒否しました。管理者がキーを確認してから再試行してください。"
    ),
    "error.cli_did_not_start": (
        "エージェントのプログラムが起動しませんでした。管理者は `countersign doctor` で原因を調べられます。"
        "その後、再試行してください。"
    ),
    "error.mcp_server_missing": (
        "ツールサーバーが動いていません。何も失われていません。起動してから再試行してください。"
    ),
    "error.mcp_server_missing.with": (
        "ツールサーバー {server} が動いていません。何も失われていません。起動してから再試行してください。"
    ),
    "error.transcript_missing": (
        "これまでの会話が失われ、続けられません。最初から始めるには依頼を書き直してください。"
    ),
    "error.workspace_missing": "ワークスペースのフォルダーがありません。元に戻してから再試行してください。",
    "error.workspace_missing.with": (
        "ワークスペースのフォルダー {path} がありません。元に戻してから再試行してください。"
    ),
    "error.worker_lost": "途中でワーカーが停止しました。何が済んだかを確認してから再試行してください。",
    "error.outcome_unknown": (
        "承認済みの作業の実行中にワーカーが停止しました。反映されたかどうか分かりません。"
        "結果を確認してから、ここで続け方を指示してください。"
    ),
    "error.watchdog": "エージェントが長い間動かなかったため停止しました。再試行してください。",
    "error.budget": "費用の上限に達しました。管理者が上限を上げてから再試行してください。",
    # 上限
    "title.limit": "依頼 #{number} · {workspace} で上限に達しました",
    "summary.limit": "依頼者 {who} · 決定されるまで何も実行されません",
    "limit.usd": "このタスクは上限 {of}に対して {used}を使いました。さらに {more}分続けますか？",
    "limit.minutes": "このタスクは上限 {of}に対して {used}作業しました。さらに {more}続けますか？",
    "limit.model_turns": (
        "このタスクは上限 {of} 回に対してモデルを {used} 回呼び出しました。さらに {more} 回続けますか？"
    ),
    "limit.day_usd": (
        "{workspace} のタスクは {day}（UTC）に上限 {of}に対して {used}を使いました。"
        "このタスクをさらに {more}分続けますか？"
    ),
    "limit.more.usd": "さらに何ドルまで（最大 {most}）",
    "limit.more.minutes": "さらに何分まで（最大 {most}）",
    "limit.more.model_turns": "モデル呼び出しをさらに何回まで（最大 {most}）",
    "limit.more.day_usd": "このタスクに今日さらに何ドルまで（最大 {most}）",
    "button.limit_approve": "続ける",
    "button.limit_change": "別の量にする…",
    "submit.limit_change": "この量で続ける",
    "input.limit_reason": "続けない理由（タスクは終了します）",
    "typed.limit": "1 続ける   2 別の量：2 <量>   3 終了：3 <理由>",
    "outcome.limit_more": "{who} さんが {time} に続行を承認（追加 {more}）",
    "ask_back.what_amount": (
        "どれだけ追加しますか？1 で示された量、2 と数（最大 {most}）でその量で続けます。"
    ),
    "ask_back.bad_amount": (
        "承認できる量ではないため、何も決定していません。2 と 0 より大きい数（最大 {most}）を送ってください。"
    ),
    "error.limit_usd": "このタスクに許された費用を使い切り、追加は認められませんでした。",
    "error.limit_minutes": "このタスクに許された作業時間を使い切り、追加は認められませんでした。",
    "error.limit_model_turns": "このタスクに許されたモデル呼び出しを使い切り、追加は認められませんでした。",
    "error.limit_day_usd": (
        "このワークスペースの当日の費用を使い切り、このタスクへの追加は認められませんでした。"
    ),
    "error.too_many_model_turns": (
        "エージェントは終わらないままステップを使い切りました。再試行すると続けられます。"
    ),
    # How things are written
    "label.colon": "：",
    "list.separator": "、",
    "number": "{digits}",
    "money": "{amount} ドル",
    "money.less": "{amount} ドル未満",
    "unit.less": "1 秒未満",
    "unit.s": "{n} 秒",
    "unit.min": "{n} 分",
    "unit.h": "{n} 時間",
    "unit.d": "{n} 日",
    "unit.separator": " ",
    "time.date": "{month}{day}日 {clock}",
    "time.year": "{year}年{month}{day}日 {clock}",
    "month.1": "1月",
    "month.2": "2月",
    "month.3": "3月",
    "month.4": "4月",
    "month.5": "5月",
    "month.6": "6月",
    "month.7": "7月",
    "month.8": "8月",
    "month.9": "9月",
    "month.10": "10月",
    "month.11": "11月",
    "month.12": "12月",
    # A message that came while nobody listened
    "button.do_now": "今すぐ実行",
    "button.leave": "実行しない",
    "typed.held": "1 今すぐ実行   2 実行しない",
    "held.title": "{time} に書かれたメッセージです（その間、こちらは停止していました）",
    "held.summary": "{who} さんから · まだ何もしていません",
    "held.label": "{who} さんのメッセージ",
    "held.do_now": "今開始しました。",
    "held.leave": "実行しませんでした。",
    "moved.title": "タスク #{number} はここで続きます",
    "moved.summary": "{who} さんの依頼",
    "moved.text": (
        "元のスレッドには投稿できなくなりました（アーカイブ、削除、またはボットの退出）。こちらで返信してください。"
    ),
    # Slack
    "slack.empty": "（空）",
    "slack.beginning": "先頭部分：",
    "slack.always": "タスクが終わるまで、まったく同じ呼び出しは確認しません",
    "slack.always_rule": "このタスク中、この規則に当てはまる呼び出しは確認しません",
    "slack.always_until": "その間、そこのどのタスクでも、当てはまる呼び出しは確認しません",
    "slack.close": "キャンセル",
    "slack.submit.change": "この変更で承認",
    "slack.not_here": (
        "長すぎるか多すぎるため、ここでは編集できず、そのまま使われます：{fields}。"
        "変えたい点は下に書いてください。"
    ),
    "slack.more": "ほか {n} 件",
    "slack.cut": "ここには全部が入りません。このメッセージだけで判断しないでください。",
    # Chats
    "reply.overheard": "エージェント宛てではありません。",
    "reply.nothing_here": "ここで進行中のタスクはありません。依頼したいことを書いてください。",
    "error.guests_may_not": "ゲストはタスクの開始や承認ができません。管理者に登録を依頼してください。",
    "error.not_yours": "このメッセージを書いた本人だけが決められます。",
    "error.not_yours.with": "{who} さんのメッセージなので、本人だけが決められます。",
    "reply.mine": "あなたの対応待ち：{waiting}。進行中のあなたのタスク：{running}。",
    "reply.none": "なし",
    "home.title": "あなたの対応待ち",
    "home.empty": "対応待ちはありません。",
    "home.running": "進行中のあなたのタスク",
    "home.more": "他 {n} 件",
    "reply.not_recorded": (
        "記録されませんでした。こちらで問題が起きました。もう一度お試しください。二重に実行されることはありません。"
    ),
    "notice.title": "依頼",
    "form.loading": "少々お待ちください …",
    # Words that only Feishu's cards need
    "feishu.state.pending": "未決",
    "feishu.state.approved": "承認済み",
    "feishu.state.changed": "変更あり",
    "feishu.state.rejected": "却下",
    "feishu.state.answered": "回答済み",
    "feishu.state.expired": "期限切れ",
    "feishu.state.withdrawn": "取り下げ",
    "feishu.state.unknown": "結果不明",
    "feishu.state.queued": "順番待ち",
    "feishu.state.working": "作業中",
    "feishu.state.waiting": "返答待ち",
    "feishu.state.done": "完了",
    "feishu.state.failed": "失敗",
    "feishu.state.stopped": "停止",
    "feishu.state.stuck": "進めません",
    "feishu.change": "意見どおりに変更",
    "feishu.words": "意見（変更内容または却下の理由）",
    "feishu.words_hint": "変更・却下のときに記入。承認のときは空欄のままにしてください。",
    "feishu.beginning": "ここまでは冒頭部分だけです。",
    "feishu.empty": "（内容なし）",
    "feishu.everything": "ここに書かれた全文",
    "feishu.reply_instead": "内容が多く、フォームに収まりません。添付を読み、文字で返信してください。",
    "feishu.always.title": "このタスク中は常に許可しますか？",
    "feishu.always.text": (
        "この呼び出しを今実行し、このタスクの残りの間、まったく同じ呼び出しは確認なしで実行します。"
        "少しでも違えば、改めて確認します。"
    ),
    "feishu.always_rule.title": "このタスク中は常に許可しますか？",
    "feishu.always_rule.text": (
        "{label}\nこの呼び出しを今実行します。このタスクの残りの間、"
        "この規則に当てはまる呼び出しは確認なしで実行します。"
    ),
    "feishu.always_until.title": "このワークスペースの全タスクで許可しますか？",
    "feishu.always_until.text": (
        "{label}\nこの呼び出しを今実行します。その間、このワークスペースであなたが判断できるタスクでは、"
        "この規則に当てはまる呼び出しを確認なしで実行します。"
    ),
    "feishu.stop.title": "このタスクを停止しますか？",
    "feishu.stop.text": "エージェントは停止し、未決の依頼は取り下げられます。",
    "chat.link": "ここでは表示できません。ページで開いてください：{url}",
    "chat.form_failed": "フォームを時間内に開けませんでした。もう一度押すか、番号と内容を返信してください。",
    "chat.asked": "{who} さんの依頼",
    "chat.not_here": "このチャンネルに参加していません。先に招待してから、もう一度送ってください。",
    "chat.prompt.status": "状況",
    "chat.greeting": "何をしましょうか？",
    "doctor.press": "クリックがボットに届くかどうかのテストです。ボタンを押してください。",
    "doctor.button": "押す",
    "doctor.arrived": "クリックが届きました。",
    "doctor.over": "テストは終了しました。時間内にクリックが届きませんでした。",
    "announce": "依頼 #{number}",
    "feishu.words_left": (
        "入力欄に内容があります。送るには「変更して承認」を、そのまま承認するには入力を消してください。"
    ),
    "reply.late": (
        "いつもより時間がかかっています。少ししてからカードを確認してください。"
        "二重に実行されることはありません。"
    ),
    "ask_back.not_whole": (
        "依頼 #{number} の全文がまだここに届いていないため、何も決定していません。"
        "ファイルが届いてからもう一度返信してください。"
    ),
}
