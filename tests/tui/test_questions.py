"""The page of questions: one text in each language, which help searches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from rkllm_chat.core.i18n import list_languages, load
from rkllm_chat.tui import question_search
from rkllm_chat.tui.question_search import complete_page, find_answer, format_found, read_page
from stage import Run

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r" +# .*$", re.MULTILINE)
FOUND = [
    ("en", "stop asking every time", "How do I stop it asking about every call?"),
    ("en", "never ask again", "How do I stop it asking about every call?"),
    ("en", "company proxy", "There is a proxy, or our own certificate authority."),
    ("en", "why is it so slow", "Why is the first answer slow?"),
    ("en", "answer is cut off", "The answer was cut off. How do I get a longer one?"),
    ("en", "ollama", "How do I use the models of Ollama?"),
    ("en", "uninstall", "Where are my files, and how do I remove everything?"),
    ("en", "mcp servers from claude desktop", "How do I use the servers of Claude Desktop, VS Code or Cursor?"),
    ("en", "how do I stop a reply", "How do I stop a reply?"),
    ("en", "interrupt the model", "How do I stop a reply?"),
    ("en", "exit the program", "How do I quit or exit the program?"),
    ("en", "multi line input", "How do I type several lines, paste text or use an editor?"),
    ("en", "ask the same question again", "How do I undo, repeat or edit a question?"),
    ("en", "keyboard shortcuts", "Which keys and shortcuts are there?"),
    ("ja", "確認", "毎回の確認をやめるには"),
    ("ja", "答えが途中で切れる", "答えが途中で切れる。長くするには"),
    ("ja", "proxy", "プロキシや社内の認証局がある"),
    ("ja", "中断", "返答を止めるには"),
    ("ja", "元に戻す", "元に戻す、やり直す、質問を直すには"),
    ("zh", "换行", "怎样换行输入多行，或粘贴文字？"),
    ("zh", "怎么停止回答", "怎样停止回答？"),
    ("zh", "回答 截断", "回答被截断了，怎样更长？"),
    ("zh", "默认模型", "怎样设置默认模型？"),
    ("en", "temperature", "How do I make the answers less random?"),
    ("en", "oauth", "A server requires a login."),
    ("en", "log of a server", "Where is the log?"),
    ("en", "revoke approval", "How do I take back an approval?"),
    ("en", "top_k", "[generation]: top_k (docs/settings.md)"),
    ("ja", "温度を下げたい", "答えのばらつきを減らすには"),
    ("ja", "ログはどこ", "ログはどこにあるか"),  # ログ is no part of ログイン here
    ("zh", "系统提示", "怎样一直保持某个角色？"),
    ("en", "use a different model", "How do I switch to another model?"),  # words that mean the same
    ("en", "it crashed", "A server fails, crashes or does not connect."),
    ("en", "what does ! do", "What do the signs /, ! and @ mean?"),  # a sign is a word
    ("en", "forget what I said earlier", "It forgets the beginning. How do I get a larger context?"),
    (
        "en",
        "bigger context window please",
        "It forgets the beginning. How do I get a larger context?",
    ),  # one is unknown
    ("ja", "接続できない", "サーバーが落ちる、失敗する、つながらない"),
    ("ja", "モデルが遅い", "最初の答えが遅いのはなぜか"),  # one character beside a common word
    ("zh", "服务器崩溃", "服务器出错、崩溃或连不上"),  # no word of its own spans the two
    ("zh", "换一个模型", "怎样切换到别的模型？"),
    ("zh", "镜像", "下载很慢或被屏蔽，有镜像吗？"),
]
FOUND += [
    ("en", "how do I take back a queued message", "How do I take back or cancel a queued message?"),
    ("en", "cancel what I typed while it was working", "How do I take back or cancel a queued message?"),
    ("en", "how do I refuse a call with a reason", "How do I refuse a call, and say why?"),
    ("ja", "キューのメッセージを戻したい", "送信待ちのメッセージを取り消すには"),
    ("ja", "実行中に書いたメッセージを取り消したい", "送信待ちのメッセージを取り消すには"),
    ("ja", "ツールを断る理由を伝えたい", "呼び出しを断り、理由を伝えるには"),
    ("zh", "怎么撤回排队的消息", "怎样撤回或取消排队的消息？"),
    ("zh", "取消它工作时我输入的内容", "怎样撤回或取消排队的消息？"),
    ("zh", "拒绝工具并告诉它原因", "怎样拒绝调用并说明原因？"),
    ("en", "forget what I told you", "How do I start over, or clear the screen?"),
    ("en", "turn off a server for now", "How do I add or remove an MCP server?"),
    ("ja", "途中でやめたい", "返答を止めるには"),
]
ASKED = [  # in words that stand in no title
    ("en", "how do i get out of this", "How do I quit or exit the program?"),
    ("en", "nothing happens when I press enter", "Nothing happens. What is it doing?"),
    ("en", "it invents things that aren't true", "The answers are wrong or invented."),
    ("en", "does it need internet", "Does it work offline, without internet?"),
    ("en", "use my phone to talk to this model", "How do I use it from another computer or a phone?"),
    ("en", "read my email", "How do I let it search the web, read mail or use a database?"),
    ("en", "revoke premission", "How do I take back an approval?"),  # a typing error
    ("ja", "終わり方がわからない", "終了するには"),
    ("ja", "文字が化ける", "文字化けする、画面が乱れる"),
    ("ja", "ネットにつながっていなくても使える？", "オフラインで使えるか"),
    ("ja", "offline", "オフラインで使えるか"),  # English words are searched in each language
    ("zh", "回答太长了", "怎样让回答更短？"),
    ("zh", "不要每次都问我同不同意", "怎样不再每次都询问？"),
    ("zh", "配置文件放在哪里", "配置文件在哪里，怎样改设置？"),
    ("en", "where is the history stored", "Where are my files, and how do I remove everything?"),
    ("ja", "パスワードを求められる", "サーバーにログインするには"),
    ("zh", "给别的程序当接口用 openai", "怎样开机时作为 API 运行？"),
    ("en", "why does nothing appear after i press enter", "Nothing happens. What is it doing?"),
    ("zh", "断网也能运行吗", "不联网能用吗？"),
]
NEAR = [  # several fit about as well: none is opened
    ("en", "add my own tool", "How do I write a tool or a server of my own?"),
    ("ja", "モデル", "本物のモデルを使うには"),
    ("zh", "模型", "怎样使用真正的模型？"),
]


@pytest.mark.parametrize(("language", "text", "title"), [*FOUND, *ASKED])
def test_words_find_their_question(language: str, text: str, title: str) -> None:
    assert find_answer(text, load(language)).text.splitlines()[0] == title


@pytest.mark.parametrize(("language", "text", "title"), NEAR)
def test_words_that_fit_several_topics_open_none(language: str, text: str, title: str) -> None:
    answer = find_answer(text, load(language))
    assert answer.text == "" and title in answer.near and len(answer.near) <= 3


def test_only_the_pages_of_the_users_language_are_searched() -> None:
    assert find_answer("確認をやめる", load("en")).text.startswith("How do I stop it asking about every call?\n")
    assert format_found(find_answer("你好世界", load("en")), load("en")) == ""


def test_phrasings_belong_to_topics_that_are_there() -> None:
    questions = {section.partition("\n")[0] for section in read_page("en").split("\n## ")[1:]}
    for code in list_languages():
        text = (Path(question_search.__file__).parent / "questions" / f"{code}.txt").read_text(encoding="utf-8")
        titles = re.findall("^# (.+)$", text, re.MULTILINE)
        assert len(set(titles)) == len(titles) and questions <= set(titles), code
        for title in set(titles) - questions:
            assert find_answer(title, load("en")).text.startswith(title), "a row or a section of docs/"


def test_a_question_that_a_language_lacks_is_shown_in_english() -> None:
    english = "# Q\n\n## One?\n\n1\n\n## Two?\n\n2\n"
    own = "# 質問\n\n## 二\n\n<!-- Two? -->\n\n2\n\n## 古い\n\n<!-- Old? -->\n\n3\n"
    assert complete_page(own, english) == "# 質問\n\n## One?\n\n1\n\n## 二\n\n2\n\n## 古い\n\n3\n"


def test_the_pages_have_the_same_questions_with_the_same_commands() -> None:
    pages = {code: read_page(code).split("\n## ")[1:] for code in list_languages()}
    blocks = {code: [BLOCK.findall(COMMENT.sub("", section)) for section in page] for code, page in pages.items()}
    for code in pages:
        same = [[block for block in found if "system = " not in block[1]] for found in blocks[code]]
        assert same == [[block for block in found if "system = " not in block[1]] for found in blocks["en"]]
    assert all(found for found in blocks["en"])  # each answer has something to type


def test_the_command_answers_in_the_users_language(in_process: Run, environment: dict[str, str]) -> None:
    shown = in_process("help", "stop", "asking").stdout
    assert shown.startswith("How do I stop it asking about every call?\n\nAt the question, `u` allows")
    assert '\n    rkllm-chat -p "What time is it in Tokyo?" --allow get_time\n' in shown
    environment["LC_ALL"] = "ja_JP.UTF-8"
    assert in_process("help", "proxy").stdout.startswith("プロキシや社内の認証局がある\n")
    assert 'No topic matches "xyzzy"' in in_process("help", "xyzzy", code=2).stderr


def test_a_command_with_more_words_is_a_question(in_process: Run) -> None:
    assert in_process("help", "mcp", "login").stdout.startswith("A server requires a login.\n")
    assert in_process("help", "mcp", "list").stdout.startswith("usage: rkllm-chat mcp list")


@pytest.mark.parametrize("language", list_languages())
def test_answers_fit_a_small_terminal(language: str) -> None:
    titles = [section.partition("\n")[0] for section in read_page(language).split("\n## ")[1:]]
    answers = [find_answer(title, load(language)).text for title in titles]
    assert [answer.partition("\n")[0] for answer in answers] == titles, "each question finds itself"
    assert [line for answer in answers for line in answer.splitlines() if cell_len(line) > 80] == []


def test_an_answer_fits_the_terminal_and_code_stays_recognizable(program: Run, environment: dict[str, str]) -> None:
    environment["COLUMNS"] = "42"
    lines = program("help", "undo").stdout.splitlines()
    at = lines.index("    /undo     # take back the last turn")
    assert lines[at : at + 5] == [
        "    /undo     # take back the last turn",
        "    /retry",
        "      # send the same question once",
        "        more, regenerate the answer",
        "    /edit",
    ], "a comment that does not fit is below its command"
    assert "(rkllm-chat help TITLE shows one)" in " ".join(program("help", "add my own tool", code=2).stderr.split())
    rows = program("help", "where are my files").stdout.splitlines()
    at = rows.index("`~/.config/rkllm-chat`")
    assert rows[at + 1] == "    configuration, commands of your own," and max(map(cell_len, rows)) <= 42
