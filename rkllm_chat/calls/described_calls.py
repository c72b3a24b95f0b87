"""Find calls that a reply without calls shows, and the tools that it only names or says it cannot reach.

Such a reply is no answer: models describe a call in prose, in the form of another language, or apologize. What may be
done with it is decided elsewhere.
"""

from __future__ import annotations

import itertools
import json
import mimetypes
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ..core.events import CallDescribed, CallFound, CallUnreadable
from ..core.messages import Tool
from .formats import ParsedCalls, ReadContext
from .formats.common import NAME_KEYS, parse_json_calls
from .formats.python_calls import parse_python_calls
from .formats.unmarked import read_shown_json
from .incremental_reader import EndOfTextError, Reader, TooLongError, run
from .json_repair import parse_lenient_json
from .schema.resolve import properties_of
from .tool_names import find_by_parameters

_NEAR = r"[\[\]［］【】<>*_`\\(){}|/ -]"
_NEAR_MARKER = re.compile(
    rf"(?:^|\n){_NEAR}*[\[［【<*(]{_NEAR}*(?:functions?|tools?){_NEAR}*(?:calls?)?{_NEAR}*\s*$", re.I
)
_NEAR_END = re.compile(rf"\s*(?:{_NEAR}*(?:end)?{_NEAR}*(?:functions?|tools?){_NEAR}*(?:calls?)?{_NEAR}*)?\s*", re.I)
"""What looks like the markers of a call, but is written differently."""

_FENCE = re.compile(r"```\w*")
_MAX_LINE_LENGTH = 256
_SHOWN_CALL = re.compile(rf"""\{{\s*(?:["'](?:{"|".join(NAME_KEYS)})["']|(?:{"|".join(NAME_KEYS)}))\s*:""")
_SHOWN_PYTHON = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_][\w.]*)\((?=\s*[A-Za-z_]\w*\s*=(?!=))")
_MAX_DESCRIBED, _MAX_SHOWN_CALLS = 3, 16
"""How many described calls are reported, and how many are looked at."""
_MAX_CALL_LENGTH = 4096
"""Maximum length of a call that JSON does not hold, in characters."""
_CODE_NAME = re.compile(r"\w*(?:[_.:/-]|\d|[a-z][A-Z])[\w.:/-]*", re.ASCII)
"""A name that is no word of a sentence."""
_MAX_NAMED = 2
"""How many tools an announcement names; a reply with more tells what there is."""
_TOOL_NOUN = r"(?:tools?|functions?|APIs?|ツール|関数|工具|函数)"
_REFUSAL = re.compile(
    r"\b(?:can(?:no|['’]?)t|(?:don|doesn)['’]?t have|do not have|unable to|not able to|would need"
    r"|need (?:to )?(?:access|more information))\b|できません|できない|ありません|アクセス|無法|无法|不能|没有|抱歉",
    re.IGNORECASE,
)
_NO_LIVE_INFORMATION = re.compile(
    r"\b(?:real[- ]?time|up[- ]to[- ]date|live|current) (?:\w+ )?"
    r"(?:access|data|forecasts?|information|news|prices?|weather)"
    r"|リアルタイム|最新の?(?:情報|データ)|实时|即時|最新的?(?:信息|数据|資訊)",
    re.IGNORECASE,
)
_NEEDS_LOOK_UP = re.compile(
    r"\b(?:would|will|I) need (?:to )?(?:access|check|connect|consult|look|query|read|retrieve|search|see)\b"
    r"|必要があります|需要(?:先)?(?:查|访问|搜索|读取|連接|连接)|\bmüsste ich\b|\bich müsste\b",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"\W*(?:thank(?:s| you)\b|(?:vielen )?dank\w*\b|ありがと|感謝|感谢|谢谢|謝謝)[^.!?。！？\n]*(?:[.!?。！？]+\s*|\Z)"
    r"(?:(?:(?:is|if) there|how (?:can|may)|what (?:else|can)|let me|if you|feel free|(?:他に)?何か|(?:请问)?还有|如果)"
    r"[^.!?。！？\n]*(?:[.!?。！？]+\s*|\Z))*",  # each ends in a mark, so that a reply that loops is read once
    re.IGNORECASE,
)
"""One sentence of thanks, and offers of more help."""
_NO_INFORMATION = re.compile(
    r"\b(?:don['’]?t|do not) have (?:any |enough |specific |personal )*(?:information|details|knowledge|data)"
    r" (?:about|on|regarding)\b|に関する情報|についての情報|(?:没有|沒有).{0,6}(?:关于|有关).{1,30}(?:信息|資料|资料)",
    re.IGNORECASE,
)
_APOLOGY = re.compile(
    r"\W*(?:I(?:['’]m| am) (?:very )?sorry|(?:I )?apologi[sz]|sorry\b|unfortunately"
    r"|I (?:can(?:no|['’]?)t|do(?: not|n['’]?t) have)\b"
    r"|申し訳|すみません|ごめん|残念|很?抱歉|对不起|對不起|很遗憾|很遺憾)",
    re.IGNORECASE,
)
_TELLS_HOW = re.compile(
    r"\W*to [a-z]+\b[^!?\n]*,\s+(?:you (?:can|could|may|must|need|should|will|would)|(?:please )?(?:follow|run|use))\b",
    re.IGNORECASE,
)
"""How an answer begins that leaves to the user what is to be done."""
_LACK = re.compile(
    r"\baccess(?:ing)?(?: to)? (?:any |an? |the |your )?(?P<en>[\w -]{3,40}?)"
    r"(?= (?:that|which|or|and|to|in|on)\b|[.,;:\n]|$)"
    r"|(?P<ja>\w+?)(?:へ|に(?:直接)?)の?アクセス|(?:访问|存取)(?P<zh>\w{2,8})",
    re.IGNORECASE,
)
"""What a reply says that it has no access to."""
_CJK_CHANGES = (
    "保存|追加|作成|削除|変更|更新|移動|登録|予約|送信|記録|コピー|添加|创建|新建|写入|删除|修改|移动|重命名|预订|预约|发送|记录|设置|设定"
    "|复制|取消|改名|改成|改为|移到|挪到"
)
_GERMAN_CHANGES = (
    "bestell|buch|entfern|ergänz|erinner|erstell|füg|lösch|merk|notier|reservier|schick|schreib|send|setz"
    "|speicher|stell|stornier|trag|verschieb|änder"
)
_BEFORE_REQUEST = r"(?:^|[.,;:!?\n]\s*|\b(?:please|pls|plz|and|then|also|to|you|me)\s+|\.\w{1,5}\s+)"
"""What stands before the verb of a request."""
_SUM = r"\s*\d|\s+up\b|\s+\w+(?:\s+two)?\s+(?:amounts|numbers|prices|up|together)\b(?!\s+to\b)"
"""What comes behind "add" where it asks for a sum."""
_CHANGE_REQUEST = re.compile(
    rf"{_BEFORE_REQUEST}(?:add(?!{_SUM})|append|book|cancel|change|copy|correct|create"
    r"|delete|edit|empty|enter|erase|fix|insert|make|mark|move|note|order|overwrite|put|record|register|remember|remind"
    r"|remove|rename|replace|rewrite|save|schedule|send|set|store|update|write"
    r"|get rid|jot|(?:cross|take|tick)\b[^.?!\n]*\boff|(?:pop|stick|throw)\b[^.?!\n]*\b(?:on|onto|in|into))\b"
    rf"|(?:{_CJK_CHANGES})(?!了|し(?:まし)?た|され|[がはの])"
    r"|(?:(?:書い|作っ|消し|送っ|変え|覚え|入れ|足し|加え)(?:て|とい?て)|書き込んで)(?!あ|い[るま])"
    r"|记住|记下|写到|写进|(?<!\d)加(?:到|进|上|一?[个条行]|[^，。？?]{1,8}[到进])|放[到进]"
    r"|\b(?:mach|nimm|pack|tu|wirf)e?\b[^.?!\n]*\b(?:auf|aus|in|von)\s+(?:dem|den|der|die|das|mein\w*)\s"
    rf"|设(?:一?[个下]|好)|提醒我|(?:^|[.,;:!?\n]\s*|\b(?:bitte|und|dann)\s+)(?:{_GERMAN_CHANGES})e?\b",
    re.IGNORECASE,
)
"""A question that asks for a change."""
_REMEMBER_REQUEST = re.compile(
    r"(?:^|[.,;:!?\n]\s*|\b(?:please|pls|plz|and|then|also|to|you)\s+)(?:remember|memori[sz]e|note)\b"
    r"|\bkeep (?:(?:it|that|this) )?in mind\b|\bdo(?:n['’]?t| not) forget (?!to\b)"
    r"|\bmerke? dir\b|\bvergiss nicht\b|忘れない(?:で|ように)|(?:别|不要)忘"
    r"|覚え(?:て(?:おいて|ください|下さい|[。、]|$)|といて)|メモ(?:して|っといて)"
    r"|[记記](?:住|下|一下|着|好)",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"(?:^|[.!;:,]\s*|\b(?:and|but|btw|by the way|fyi|oh|ok|okay|so|well|und|aber)\s+)"
    r"(?:i|im|i['’](?:m|ve)|my|we|we['’](?:re|ve)|our|ich|meine?|wir|unsere?)\b|です|ます|でした|ました|我|你好",
    re.IGNORECASE,
)
"""What somebody says who tells of themselves."""
_ASKS = re.compile(
    r"[?？]|\b(?:what(?:['’]?s)?(?! an?\b)|when|where|which|who|whose|why|how|need|want|wish|wonder|would|could|can"
    r"|please|help|tell|show|look|find|check|read|list|get|let|(?<!you )know"
    r"|wie|wann|wo|wer|wem|wessen|welche[mnrs]?|warum|brauche|möchte|bitte|zeige?|sage?|suche?|finde|gib|hilf)\b"
    r"|(?:^|[.,;:!?\n]\s*|\b(?:and|but|then|also|so|ok|hey)\s+)(?:am|are|did|do|does|has|is|should|was|were|will)\s"
    r"(?:a|an|any|he|i|it|my|one|our|she|that|the|there|these|they|this|those|we|you|your)\b"
    r"|かな?(?:[。\s]|$)|ください|下さい|教えて|たい|ほしい|欲しい|お願い|何|いつ|どこ|誰|いくら|いくつ|どの|どう"
    r"|吗|呢|什么|几|多少|哪|谁|怎|咋|请|帮|想|要|告诉|查|没[?？。]?\s*$",
    re.IGNORECASE,
)
"""What a message has that asks for something."""
_FOLLOW_UP = re.compile(
    r"^(?:\w+(?: \w+)?[,.!]+ )?(?:(?:and|und|what about|how about|was ist mit)\s+"
    r"(?:(?:in|for|at|on|of|the|my|our|im|am|für|der|die|das|dem|den)\s+)*"
    r"((?!(?:what|when|where|which|who|how|was|wann|wo|wer|wie|welche)\b)\w[\w' -]{1,30}?)\s*\?"
    r"|(?:(?:and|what about|how about)\s+(?:in|for|at|on)|what about|how about)\s+(?:the\s+|my\s+|our\s+)?"
    r"(\w[\w'-]*(?: [\w'-]+)?)\s*$)",
    re.IGNORECASE,
)
"""How a short question goes on with the one before, and what it names in its place."""
_JOINED = re.compile(
    r"(?:\w+[,.!]+ )?(?:and|or|und|oder|what about|how about|was ist mit|wie ist es mit)\b"
    r"(?! (?:thanks|thank|i|we|then)\b)",
    re.IGNORECASE,
)
"""How a message begins that goes on with the one before, with or without a question mark."""
_IT = re.compile(r"\b(?:it|its|they|them|their)\b|それ|它|他们|她们", re.IGNORECASE)
"""What refers to a thing that the sentence before names."""
_BACK = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|hers)\b|それ|そこ|その|彼|[它他她]|那里|那边|那儿",
    re.IGNORECASE,
)
"""What refers to a thing, a person or a place of the turn before."""
_CJK_FOLLOW_UP = re.compile(r"^(?:じゃあ?|では|それでは|それなら|那么?)|(?:呢|は)[?？]?$")
"""How a short question in Japanese or Chinese goes on with the one before."""
_QUESTION = re.compile(
    r"[?？]|(?:^|[.!;,]\s*|\band\s+)(?:what|when|where|which|who|whose|why|how)\b|か。?\s*$|[吗呢][。]?\s*$",
    re.IGNORECASE,
)
"""What a question has, in its form or at its end."""
_REQUEST = re.compile(
    r"\b(?:please|pls|plz|(?:can|could|would|will) (?:you|u|we)|want|need|like)\b"
    r"|ください|下さい|くれ|もら[いえ]|いただけ|お願い|ほしい|欲しい|[请請帮幫想]|能不能|可以|要",
    re.IGNORECASE,
)
"""What a question has that is a request: "Could you send it?"."""
_CHANGE_CLAIM = re.compile(
    r"\b(?:I(?:['’]ve| have)?|(?:has|have) been|was|were|is now|are now|successfully)\b.{0,60}?\b(?:added|appended"
    r"|booked|cancell?ed|changed|copied|created|deleted|edited|inserted|moved|recorded|registered|removed|renamed|saved"
    r"|scheduled|sent|stored|updated|written)\b"
    rf"|(?:(?:{_CJK_CHANGES})(?:を)?(?:し|され)|(?:書き(?:込み|足し)?|作り|消し|送り|変え|足し|加え|入れ|書い|作っ|送っ))(?:ておき)?(?:まし)?た"
    rf"|(?:已经?|成功).{{0,30}}?(?:{_CJK_CHANGES}|[加写放][到进上入])|(?:{_CJK_CHANGES}|[加写放](?:到|进|上|入))(?:成功|完成|好)?了",
    re.IGNORECASE,
)
"""An answer that says that a change was made."""
_AGAIN = re.compile(
    r"\b(?:again|once more|retry|redo|repeat)\b|もう(?:一度|1度|一回)|再度|やり直|再[试試做来來]|重[试試做新]|再一次",
    re.IGNORECASE,
)
"""What a message has that asks for the same once more."""
_NOW = re.compile(r"\b(?:now|still|yet)\b|今|まだ|现在|還|还", re.IGNORECASE)
"""What a message has that asks for what may have changed since."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_ASKS_WHAT_WAS_SAID = re.compile(
    r"\b(?:did|have|had) i (?:\w+ )?(?:say|said|tell|told|mention)|\bi (?:\w+ )?(?:said|told|mentioned)\b"
    r"|\b(?:do|did) you (?:still )?(?:remember|recall)\b|\bwhat(?:['’]s| is| was) my name\b"
    r"|(?:と|って)(?:言|話|伝え)(?:い|っ|し)|覚えて(?:い)?(?:る|ます)|私の名前(?:は|って)|[说說告訴诉提]过|记得|我叫什么"
)
"""What a question has that asks for what the user said before."""
_CONTENT = re.compile(r":\s+\S|：|\S\s*\n\s*\S|```")
"""What a reply has that is itself what was asked for: "I have made a list: ...", a poem."""
_NEGATION = re.compile(
    r"\b(?:not?|never|cannot|unable|without)\b|n['’]t\b|ません|ない|未|没|無法|无法|不能", re.IGNORECASE
)
_FAILURE = re.compile(r"fail|error|invalid|wrong|失敗|失败|エラー|错误|無効|无效", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:\.\w[^.!?。！？\n]*)*")
_MIN_QUESTION_LENGTH = 6
_ASKED_BACK = re.compile(r"(?:[?？]|かな?。?|[吗呢]。?)\s*$")
_ASKED_WORD = re.compile(r"[\u3040-\u9fff]|[^\W_\u3040-\u9fff]+")
_MIN_REPEATED = 0.8
"""Share of the words, or Japanese and Chinese characters, that a question asked back has of the question."""
_APOLOGY_LENGTH = 24
"""Characters of a reply in which an apology has begun."""
_LATEX_TEXT = re.compile(r"\\text\{[^{}]*\}")
_WORKED_OUT = re.compile(
    r"\\frac\{[^{}]*\d[^{}]*\}\{[^{}]*\d"
    r"|\d(?:\s?[^\W\d_]{1,12})?(?:\s*(?:[*×÷]|\\times|\\div|\\cdot)\s*|\s[-+/−]\s)[^\w\s]{0,2}\d"
)
"""Two numbers, with their units, and what is done with them: "21.1 km × 5.8", "129.00 EUR * 0.10"."""
_CODE_ANSWER = re.compile(r"```|\A\s*(?:SELECT|INSERT|UPDATE|DELETE|curl|cat)\b")
"""Code in place of what it would give."""
_FOLDER_WORDS = frozenset(("directory", "directories", "dir", "disk", "folder", "folders", "list", "tree"))
"""Words of the name of a tool that takes folders; the free space is of a folder, too."""
_MEDIA_WORDS = frozenset(("audio", "image", "images", "media", "photo", "picture", "pictures", "video"))
"""Words of the name of a tool that takes files of media."""
_FILE_NAME = re.compile(r"(?:.*[\\/])?[^\\/]*\w\.[A-Za-z][A-Za-z0-9]{0,4}")
_FILE_PARAMETERS = r"(?!repo|dir|folder)(?:(?:file|path|document)\w*|source|destination|\w*(?:file|path)s?(?:_?name)?)"
"""Names of parameters that take a file, as a regular expression."""
_MAX_PLACE_LENGTH, _MAX_QUESTION_LENGTH = 400, 2000
"""Characters of a value, and of a question, in which files, addresses and dates are looked for."""
_TEXT_PARAMETERS = (
    r"q|query|sql|statement|command|code|expression|keywords?|search\w*|\w*text|pattern|content\w*|message|body|title"
)
"""Names of parameters that take any text."""
_CJK_FILE = re.compile(
    r"(?:^|[\s「『\"'“（(、。，,:：?？!！])((?=[^.\s]{0,40}[\u3005-\u9fff])[^.\s「」『』\"'“”（）()、。，,:：?？!！]{1,40}"
    r"\.[A-Za-z][A-Za-z0-9]{0,4})(?![A-Za-z0-9])"
)
"""The name of a file in Japanese or Chinese, with what may stand before it."""
_CJK_LEAD = re.compile(
    r".*(?:を|写到|写进|写入|存到|加到|记到|改名为|改成|改为|移到|移动到|复制到)"
    r"|^(?:[请請]|帮我|幫我|看一?[下看]|读一?[下读]?|打开|查一?[下看]?|把|在|从|往|给我?|到"
    r"|删[除掉]|移动|复制|重命名|修改|我的|[这那再]个?)+"
    r"|^(?:ちゃんと|もう一[度回]|じゃあ?|では|次[にの]|あと|それ(?:から|と|なら)|そして|[こそあ]の|[私僕俺]の|わたしの)+"
)
"""Words in front of such a name that are no part of it."""
_FORMS_OF_PLACES: Mapping[str, re.Pattern[str]] = {
    r"ur[il]s?|address|link|website": re.compile(r"https?://[^\s、。，）」』]*[\w/]"),
    _FILE_PARAMETERS: re.compile(
        r"(?a:(?<![\w@/.])(?:[\w~./-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,4}\b(?!\.\w)|[~.]?/[\w./-]*\w))"
    ),
}
_FORMS = {
    **_FORMS_OF_PLACES,
    r"\w*(?:date|day|timestamp)|since|until|start|end|from|to": re.compile(r"\b\d{4}-\d{2}-\d{2}\b"),
}
"""Names of parameters -> the form of the values that they take."""


def describe_calls(text: str, context: ReadContext) -> list[CallDescribed | CallUnreadable]:
    """Return the calls that a text shows as JSON of known tools.

    Args:
        text: The text of a reply, or its end.
        context: Tells which tools are known.

    Returns:
        The described calls, at most three; or one unreadable call, if the text ends in a call that follows something
        like a marker.
    """
    found: list[CallDescribed | CallUnreadable] = []
    for match in itertools.islice(_find_shown(text), _MAX_SHOWN_CALLS):
        if text[: match.start()].rstrip().endswith(context.openers):  # a marked call that did not count is quoted
            continue
        described = _read_described(text[match.start() :], context) or _read_loosely(text, match, context)
        if described and _is_nearly_marked(text, match.start(), match.start() + len(described.raw)):
            detail = "The call does not stand between the markers of the format."
            return [CallUnreadable("bad_json", detail, described.raw)]
        if described and described not in found:
            found.append(described)
    return found[:_MAX_DESCRIBED]


def _read_described(text: str, context: ReadContext) -> CallDescribed | None:
    """Return the call that a text begins with, if it is whole and of a known tool."""
    reader = Reader()
    reader.feed(text)
    reader.end()
    reader.start_recording()
    parsed: ParsedCalls = None
    with suppress(EndOfTextError, TooLongError):
        parsed = run(read_shown_json(reader, context))
    if not parsed or not isinstance(parsed[0], CallFound):
        return None
    return CallDescribed(parsed[0].call, reader.recorded())


def _is_nearly_marked(text: str, start: int, end: int) -> bool:
    """Return whether the call at the end of the text follows something like a marker, which has a line of its own."""
    if not _NEAR_END.fullmatch(text, end) or text.count("```", 0, start) % 2:
        return False
    return bool(_NEAR_MARKER.search(text, max(0, start - _MAX_LINE_LENGTH), start))


def _find_shown(text: str) -> list[re.Match[str]]:
    """Return what may begin a call, in the order of the text."""
    matches = itertools.chain(_SHOWN_CALL.finditer(text), _SHOWN_PYTHON.finditer(text))
    return sorted(matches, key=re.Match.start)


def _read_loosely(text: str, match: re.Match[str], context: ReadContext) -> CallDescribed | None:
    """Return the call that begins at a match as JSON with bare keys or single quotes, or as Python."""
    written = _cut_at_bracket(text[match.start() : match.start() + _MAX_CALL_LENGTH])
    parsed: ParsedCalls = None
    if "name" in match.groupdict():
        parsed = parse_python_calls(written) if context.is_known(match["name"]) else None
    else:
        with suppress(ValueError):
            parsed = parse_json_calls(written, (), False, context, is_bare=True)
    first = parsed[0] if parsed else None
    if not isinstance(first, CallFound) or not context.is_known(first.call.name):
        return None
    return CallDescribed(first.call, written)


def _cut_at_bracket(text: str) -> str:
    """Return a text up to the bracket that closes its first one, strings aside; all of it if there is none."""
    depth, quote = 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[at - 1] != "\\" else quote
        elif char in "\"'" and depth:
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if not depth:
                return text[: at + 1]
    return text


def find_named_tools(reply: str, shown: Mapping[str, Tool]) -> list[Tool]:
    """Return the one or two tools that a reply without calls names, or whose parameters an object in it has.

    Args:
        reply: The reply; one that names more tells what there is, and is an answer.
        shown: The offered tools by the names that the model sees.
    """
    named = [tool for name, tool in shown.items() if _names(reply, name)] or _find_by_object(reply, shown.values())
    return named if len(named) <= _MAX_NAMED else []


def works_out(reply: str) -> bool:
    """Return whether a reply calculates, in which small models err."""
    return bool(_WORKED_OUT.search(_LATEX_TEXT.sub("", reply)))


def repeats_question(reply: str, question: str) -> bool:
    """Return whether a reply ends in the question again, whatever it says before, or asks it in other words.

    A greeting may be one.

    >>> repeats_question("有人捡到你的黑色钱包了吗？", "我掉了个黑色钱包，有人捡到吗")
    True
    """
    said, asked = ("".join(re.findall(r"[^\W_]", text)).casefold() for text in (reply, question))
    if not (asks(question) and len(asked) >= _MIN_QUESTION_LENGTH):
        return False
    words, known = ([*map(str.casefold, _ASKED_WORD.findall(text))] for text in (reply, question))
    is_asked = _ASKED_BACK.search(reply) is not None and len(words) >= _MIN_QUESTION_LENGTH
    return said.endswith(asked) or (is_asked and sum(map(known.__contains__, words)) >= _MIN_REPEATED * len(words))


def is_refusal(reply: str) -> bool:
    """Return whether a reply says that the model cannot, or shows code in place of what it would give."""
    return bool(_REFUSAL.search(reply) or _CODE_ANSWER.search(reply))


def lacks_information(reply: str) -> bool:
    """Return whether a reply says that the model knows nothing of something, which is an answer.

    >>> lacks_information("I'm sorry, but I don't have any information about Ana."), lacks_information("I can't help.")
    (True, False)
    """
    return bool(_NO_INFORMATION.search(reply))


def lacks_live_information(reply: str) -> bool:
    """Return whether a refusal says that the model does not know what is going on now, which is true.

    >>> [*map(lacks_live_information, ("I don't have real-time weather information.", "I can't help."))]
    [True, False]
    """
    return is_refusal(reply) and bool(_NO_LIVE_INFORMATION.search(reply))


def needs_look_up(reply: str) -> bool:
    """Return whether a reply says that something has to be looked up first, which it leaves at that.

    >>> needs_look_up("I would need to query the database."), needs_look_up("I don't have a body.")
    (True, False)
    """
    return bool(_NEEDS_LOOK_UP.search(reply))


def thanks_for(reply: str) -> bool:
    """Return whether a reply only thanks, which models do for results.

    >>> thanks_for("Thank you for the list! Is there anything else?"), thanks_for("Thank you! It has milk.")
    (True, False)
    """
    return bool(_THANKS.fullmatch(reply))


def find_lack(reply: str) -> str:
    """Return what a refusal says that the model lacks: "a database" of "I would need to access a database"."""
    return " ".join(match[match.lastgroup or 0] for match in _LACK.finditer(reply)) if is_refusal(reply) else ""


def is_apology(reply: str) -> bool:
    """Return whether a reply begins by saying that the model cannot do what was asked."""
    return bool(_APOLOGY.match(reply) and _REFUSAL.search(reply))


def tells_how(reply: str) -> bool:
    """Return whether a reply tells the user how to do something: "To add a line, you can use this command"."""
    return bool(_TELLS_HOW.match(reply))


def asks_for_change(question: str) -> bool:
    """Return whether a question asks to change something."""
    return bool(_CHANGE_REQUEST.search(question))


def requests_verb(verb: str, message: str) -> bool:
    """Return whether a message asks in English to do what a verb says: "Please report that ...".

    >>> requests_verb("report", "Please report that."), requests_verb("", "Please report that.")
    (True, False)
    """
    return bool(verb) and re.search(rf"{_BEFORE_REQUEST}{re.escape(verb)}\b", message, re.IGNORECASE) is not None


def asks_to_remember(question: str) -> bool:
    """Return whether a question asks for something to be remembered, which a reply in words does only until it ends."""
    return bool(_REMEMBER_REQUEST.search(question))


def translate_remembering(question: str) -> str:
    """Return a question with "remember" in the place of what asks for that: "dir" of "merk dir" is no directory.

    >>> translate_remembering("merk dir: der Zug fährt um 7:42")
    ' remember : der Zug fährt um 7:42'
    """
    return _REMEMBER_REQUEST.sub(" remember ", question)


def asks(message: str) -> bool:
    """Return whether a message, or a part of one, asks for something."""
    return bool(_ASKS.search(message))


def is_question(message: str) -> bool:
    """Return whether a message is a question, and neither a request in the form of one nor one for a change."""
    return bool(_QUESTION.search(message)) and not (_REQUEST.search(message) or asks_for_change(message))


def tells_only(message: str) -> bool:
    """Return whether a message tells of its author and asks for nothing, such as "My name is Ben"."""
    asks_for_any = asks(message) or asks_for_change(message) or asks_to_remember(message)
    return bool(_TELLS.search(message)) and not asks_for_any


def asks_again(message: str) -> bool:
    """Return whether a message asks for the same once more: "Please try that again"."""
    return bool(_AGAIN.search(message))


def asks_for_now(message: str) -> bool:
    """Return whether a message asks for what may have changed since it was looked up.

    >>> asks_for_now("Is there still room?"), asks_for_now("What do two of us pay?")
    (True, False)
    """
    return bool(_NOW.search(message))


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text."""
    return [sentence for line in text.splitlines() for sentence in _SENTENCE_END.split(line) if sentence]


def drop_told(message: str) -> str:
    """Return the sentences of a message that ask for something, without those in which its author only tells.

    What "it" refers to stays.

    >>> drop_told("My name is Jonas and I live in Hamburg. How are you today?"), drop_told("Ugh. I missed my train.")
    ('How are you today?', 'Ugh. I missed my train.')
    >>> drop_told("I lent the atlas to somebody. Who has it?")
    'I lent the atlas to somebody. Who has it?'
    """
    sentences = _SENTENCE_END.split(message)
    asking = [sentence for sentence in sentences if not tells_only(sentence)]
    is_asked = len(asking) < len(sentences) and any(asks(text) or asks_for_change(text) for text in asking)
    return " ".join(asking).strip() if is_asked and not _IT.search(" ".join(asking)) else message


def asks_what_was_said(question: str) -> bool:
    """Return whether a question, in small letters, asks for what the user said before."""
    return bool(_ASKS_WHAT_WAS_SAID.search(question))


def brings_content(reply: str) -> bool:
    """Return whether a reply may itself be what was asked for: a list, a poem, code."""
    return bool(_CONTENT.search(reply))


def claims_change(reply: str, question: str) -> bool:
    """Return whether a reply says that something was changed.

    It is not said of what the reply itself brings, unless the question names a file that it should be in.
    """
    if brings_content(reply) and not any(form.search(question) for form in _FORMS_OF_PLACES.values()):
        return False
    sentences = (match[0] for match in _SENTENCE.finditer(reply))
    return any(_CHANGE_CLAIM.search(sentence) and not _NEGATION.search(sentence) for sentence in sentences)


def admits_failure(reply: str) -> bool:
    """Return whether a reply may say that something failed: it has a "no", or names an error."""
    return bool(_NEGATION.search(reply) or _FAILURE.search(reply))


def is_data(reply: str) -> bool:
    """Return whether a reply is only a JSON object or list, in a fence or not."""
    text = _FENCE.sub("", reply).strip()
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def may_become_apology(beginning: str) -> bool:
    """Return whether a reply with this beginning may be one that `is_apology`."""
    return len(beginning) < _APOLOGY_LENGTH or bool(_APOLOGY.match(beginning))


def find_refused_tools(reply: str, question: str, shown: Mapping[str, Tool], is_strict: bool = False) -> list[Tool]:
    """Return the tools that take a value of the question: an address, the name of a file, a date.

    For a reply that says that the model cannot, or that shows code in place of what it would give. If `is_strict`, for
    any other too those that take an address or a file: what is in it, no model knows.
    """
    forms = _FORMS if is_refusal(reply) else _FORMS_OF_PLACES if is_strict else {}
    return [tool for tool in shown.values() if _takes_value_of(tool, question, forms)]


def list_places(question: str) -> list[str]:
    """Return the files, addresses and dates that a question names; nothing of a long text."""
    if len(question) > _MAX_QUESTION_LENGTH:
        return []
    places = [_CJK_LEAD.sub("", match[1], count=1) for match in _CJK_FILE.finditer(question)]
    for form in (_CJK_FILE, *_FORMS.values()):
        places += (match[0] for match in form.finditer(question) if form is not _CJK_FILE)
        question = form.sub(" ", question)  # an address has the names of files
    return places


def list_follow_ups(question: str) -> list[str]:
    """Return what a short question asks in the place of what was asked before: "and the library?".

    >>> list_follow_ups("Oh no, I have a kitten. What about the Boston fern?"), list_follow_ups("Und in der Küche?")
    (['Boston fern'], ['Küche'])
    """
    return [match[1] or match[2] for match in _FOLLOW_UP.finditer(drop_told(question))]


def is_follow_up(question: str) -> bool:
    """Return whether a question alone says nothing: "and the library?"."""
    return bool(list_follow_ups(question) or _CJK_FOLLOW_UP.search(question))


def is_joined(message: str) -> bool:
    """Return whether a message begins as one that goes on with the one before.

    >>> [*map(is_joined, ("and the elephants", "what about today so far", "I like elephants"))]
    [True, True, False]
    """
    return bool(_JOINED.match(message))


def refers_back(question: str) -> bool:
    """Return whether a question asks for something of what the turn before was about.

    >>> [*map(refers_back, ("when does it close?", "它几点关门", "It is nice.", "when does the pool close?"))]
    [True, True, False, False]
    """
    return asks(question) and bool(_BACK.search(drop_told(question)))


def find_takers(value: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that take a value: a file, an address or a date; none for a value of another form."""
    form = _find_form(value)
    taking = [tool for tool in tools if any(re.fullmatch(form, name, re.I) for name in properties_of(tool.schema))]
    return [tool for tool in taking if not takes_other_paths(tool, value)]


def takes_only(tool: Tool, value: str) -> bool:
    """Return whether each parameter of a tool takes a value of this form: a file is only moved, deleted or opened."""
    form, names = _find_form(value), properties_of(tool.schema)
    return bool(form and names) and all(re.fullmatch(form, name, re.IGNORECASE) for name in names)


def is_taken(tool: Tool, parameter: str, value: str) -> bool:
    """Return whether a parameter takes a value, as its name says; any does if it is no file, address or date."""
    form = _find_form(value)
    fits = not form or re.fullmatch(rf"{form}|{_TEXT_PARAMETERS}", parameter, re.IGNORECASE)
    if form == _FILE_PARAMETERS and parameter.casefold() == "expression":
        return False  # "sum(expenses.csv)" is nothing to calculate
    return bool(fits) and not takes_other_paths(tool, value)


def is_file_name(value: str) -> bool:
    """Return whether a value is the name or the path of a file."""
    return _FILE_NAME.fullmatch(value) is not None and ":" not in value


def _find_form(value: str) -> str:
    """Return the names of parameters that take a value of this form, as a regular expression; "" for another form."""
    if len(value) > _MAX_PLACE_LENGTH:
        return ""
    if is_file_name(value):
        return _FILE_PARAMETERS
    return next((names for names, form in _FORMS.items() if names != _FILE_PARAMETERS and form.fullmatch(value)), "")


def takes_other_paths(tool: Tool, path: str) -> bool:
    """Return whether a path is a file's, and a tool takes folders, or media and this is a text, as its name says."""
    if not _FILE_NAME.fullmatch(path):
        return False
    words = {*map(str.casefold, re.findall("[A-Z]?[a-z]+", tool.name))}
    is_text = (mimetypes.guess_type(path)[0] or "text").startswith("text")
    return not words.isdisjoint(_FOLDER_WORDS) or (is_text and not words.isdisjoint(_MEDIA_WORDS))


def _names(reply: str, name: str) -> bool:
    """Return whether a reply names a tool; a name that is a word of sentences only where it cannot be one."""
    word = re.escape(name)
    if _CODE_NAME.fullmatch(name):
        return bool(re.search(rf"(?<![\w.]){word}(?!\w)", reply))
    marked = rf"[`\"'“「]{word}[`\"'”」(]|(?<!\w){word}\(\S"
    beside_noun = rf"(?<!\w){word}`?\s?{_TOOL_NOUN}|{_TOOL_NOUN}\s?`?{word}(?!\w)"
    return bool(re.search(f"{marked}|{beside_noun}", reply, re.IGNORECASE))


def _find_by_object(reply: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return the only tool with the parameters of an object that a reply shows."""
    for match in itertools.islice(re.finditer(r"\{", reply), _MAX_SHOWN_CALLS):
        with suppress(ValueError):
            value, _ = parse_lenient_json(_cut_at_bracket(reply[match.start() : match.start() + _MAX_CALL_LENGTH]))
            if isinstance(value, dict) and len(meant := find_by_parameters(value, tools)) == 1:
                return meant
    return []


def _takes_value_of(tool: Tool, question: str, patterns: Mapping[str, re.Pattern[str]]) -> bool:
    return any(
        re.fullmatch(names, parameter, re.IGNORECASE) and pattern.search(question)
        for parameter in properties_of(tool.schema)
        for names, pattern in patterns.items()
    )
