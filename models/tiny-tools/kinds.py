# Long word lists are easier to read and to add to as one text that is split.
# ruff: noqa: SIM905 - lists of words are easier to read and to edit as one text
"""Kinds of parameters: what they are called, their schema, their values, and how a value is said without its name.

`{v}` is the value as it is said. It knows no tool.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from values import (
    COLORS,
    CURRENCIES,
    LANGUAGES,
    UNITS,
    a_code,
    a_date,
    a_mail,
    a_moment,
    a_number,
    a_pattern,
    a_person,
    a_place,
    a_room,
    a_text,
    a_time,
    a_topic,
    a_url,
    a_word,
    is_true,
    like_value,
    one_of,
    several,
    up_to,
    varied,
)
from vocabulary import file_path, folder_path, fresh

CHOICES = (
    "low medium high;on off;open closed;asc desc;north south east west;small medium large;day week month year;"
    "red green blue;json csv xml;fast slow;public private;heat cool auto;left right;draft sent archived;"
    "celsius fahrenheit;metric imperial;economy business first;bug feature task;todo doing done;read write admin;"
    "up down;mono stereo;light dark;png jpg svg;yes no maybe;local remote all;hourly daily weekly;cash card transfer;"
    "home work other;start stop pause;mild hot;black white;walk drive bike train;oldest newest;soft hard mixed;"
    "info warning error debug;breakfast lunch dinner;standard express;one-way return;male female other"
).split(";")


@dataclass(frozen=True)
class Kind:
    """`names` of parameters, the schema, what makes a value, and phrases that say it in three languages.

    `make` is given the random source and the language. Phrases are parted by bars.
    """

    names: str
    schema: Mapping[str, Any]
    make: Callable[[Random, str], Any]
    english: str = "{v}"
    japanese: str = "{v}で"
    chinese: str = "{v}"
    schemas: tuple[Mapping[str, Any], ...] = field(default=())


TEXT: Mapping[str, Any] = {"type": "string"}
WHOLE: Mapping[str, Any] = {"type": "integer"}
NUMBER: Mapping[str, Any] = {"type": "number"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT}

KINDS: dict[str, Kind] = {
    "place": Kind(
        "city place location town region country area destination origin venue site",
        TEXT,
        a_place,
        "in {v}|in {v}|at {v}|near {v}|for {v}",
        "{v}の|{v}で|場所{v}の",
        "在{v}|{v}的|地点{v}的",
    ),
    "room": Kind(
        "room zone area space floor", TEXT, a_room, "in the {v}|of the {v}|in {v}", "{v}の|{v}で", "{v}的|在{v}"
    ),
    "person": Kind(
        "person name user recipient owner assignee customer author member contact guest to",
        TEXT,
        a_person,
        "for {v}|of {v}|by {v}|to {v}|for user {v}",
        "{v}の|{v}に|{v}さんの|ユーザー{v}の",
        "{v}的|给{v}|为{v}|用户{v}的",
    ),
    "file": Kind(
        "path file filename file_path document source image",
        TEXT,
        lambda random, _language: file_path(random),
        "{v}|from {v}|in {v}|of {v}|from the file {v}|of file {v}",
        "{v}の|{v}から|ファイル{v}の|ファイル{v}で",
        "{v}|{v}的|文件{v}的|文件{v}",
    ),
    "folder": Kind(
        "path folder directory dir repo root target",
        TEXT,
        lambda random, _language: folder_path(random),
        "in {v}|under {v}|of {v}|at {v}|in the folder {v}|in directory {v}",
        "{v}の|{v}で|フォルダ{v}の|ディレクトリ{v}で",
        "{v}里的|在{v}|{v}的|目录{v}的|文件夹{v}里的",
    ),
    "url": Kind("url link address page endpoint", TEXT, a_url, "{v}|from {v}|at {v}", "{v}の", "{v}的|{v}"),
    "mail": Kind(
        "email to address recipient",
        TEXT,
        a_mail,
        "to {v}|for {v}|of {v}",
        "{v}に|{v}の",
        "给{v}|{v}的",
        schemas=(TEXT, {**TEXT, "format": "email"}),
    ),
    "date": Kind(
        "date day start_date due when since until",
        TEXT,
        a_date,
        "on {v}|for {v}|of {v}",
        "{v}の|{v}に",
        "{v}|在{v}",
        schemas=(TEXT, {**TEXT, "format": "date"}),
    ),
    "time": Kind("time start at hour when", TEXT, a_time, "at {v}|for {v}", "{v}に|{v}の", "在{v}|{v}"),
    "moment": Kind(
        "start end timestamp time when",
        TEXT,
        a_moment,
        "at {v}|from {v}",
        "{v}に",
        "在{v}",
        schemas=(TEXT, {**TEXT, "format": "date-time"}),
    ),
    "text": Kind(
        "text message content body note comment description",
        TEXT,
        a_text,
        'that says "{v}"|saying "{v}"|with the text "{v}"|: {v}|"{v}"',
        "「{v}」と|「{v}」の",
        "，内容是“{v}”|：“{v}”",
    ),
    "title": Kind(
        "title name subject topic label headline",
        TEXT,
        a_text,
        'called "{v}"|named "{v}"|"{v}"|titled {v}',
        "「{v}」という|「{v}」の",
        "“{v}”|，名为“{v}”",
    ),
    "query": Kind(
        "query q search text keyword term pattern",
        TEXT,
        a_topic,
        'for "{v}"|about {v}|with {v}|for {v}|matching {v}|for the word {v}',
        "{v}の|「{v}」で|キーワード{v}で|語句「{v}」の",
        "关于{v}的|“{v}”|关键词{v}|词语“{v}”的",
    ),
    "pattern": Kind("pattern glob mask filter match", TEXT, a_pattern, "{v}", "{v}の", "{v}"),
    "code": Kind(
        "id code key number name item sku reference ref hash version tag",
        TEXT,
        a_code,
        "{v}|{v}|number {v}|of {v}|with the id {v}|id {v}|with key {v}",
        "{v}の|ID{v}の|番号{v}の|コード{v}で",
        "{v}|{v}的|编号{v}的|编号为{v}的",
    ),
    "word": Kind(
        "name item type category group value target topic label",
        TEXT,
        a_word,
        "{v}|{v}|of {v}|for {v}",
        "{v}の|{v}で|グループ{v}の|項目{v}の",
        "{v}的|{v}|项目{v}的|分类{v}的",
    ),
    "color": Kind("color colour shade tint", TEXT, one_of(COLORS), "in {v}|to {v}|{v}", "{v}に|{v}で", "{v}|成{v}"),
    "language": Kind(
        "language lang locale target_language",
        TEXT,
        one_of(LANGUAGES),
        "into {v}|in {v}|to {v}",
        "{v}に",
        "成{v}|为{v}",
    ),
    "unit": Kind("unit units to_unit scale", TEXT, one_of(UNITS), "in {v}|to {v}", "{v}で", "以{v}为单位"),
    "currency": Kind("currency to from_currency target", TEXT, one_of(CURRENCIES), "in {v}|to {v}", "{v}で", "换成{v}"),
    "count": Kind(
        "count limit max_results number quantity amount top size",
        WHOLE,
        up_to(1000, 1),
        "{v}|{v} of them|{v} times|at most {v}",
        "{v}件の|{v}個の|最大{v}件の",
        "{v}个|最多{v}个",
        schemas=(WHOLE, {**WHOLE, "minimum": 1}, {**WHOLE, "minimum": 0, "maximum": 1000}),
    ),
    "percent": Kind(
        "percent level brightness volume position humidity speed",
        WHOLE,
        lambda random, _: random.randint(0, 100),
        "to {v} percent|to {v}%|at {v} percent|to {v}",
        "{v}パーセントに|{v}%に",
        "到{v}%|为百分之{v}",
        schemas=(WHOLE, {**WHOLE, "minimum": 0, "maximum": 100}, NUMBER),
    ),
    "minutes": Kind(
        "minutes duration seconds days hours timeout",
        WHOLE,
        up_to(1000, 1),
        "for {v} minutes|for {v} seconds|for {v} days|for {v} hours|after {v} minutes",
        "{v}分間|{v}秒間|{v}日間",
        "{v}分钟|{v}秒|{v}天",
    ),
    "number": Kind(
        "id number index page line port level row floor channel",
        WHOLE,
        up_to(100000),
        "{v}|number {v}|no. {v}|#{v}",
        "{v}番の|{v}の",
        "第{v}|{v}号",
    ),
    "year": Kind(
        "year season",
        WHOLE,
        lambda random, _: random.randint(1900, 2060),
        "in {v}|of {v}|from {v}",
        "{v}年の",
        "{v}年的|{v}年",
    ),
    "amount": Kind(
        "amount price value weight temperature height length distance radius latitude total",
        NUMBER,
        a_number,
        "to {v}|of {v}|by {v}|for {v}|{v}",
        "{v}に|{v}の",
        "为{v}|{v}",
    ),
    "flag": Kind(
        "recursive force verbose all dry_run enabled urgent public gift notify silent loop raw exact sorted "
        "detailed shuffle strict hidden",
        {"type": "boolean"},
        is_true,
        "",
        "",
        "",
    ),
    "choice": Kind(
        "mode status type order format size priority direction state level period scope category",
        TEXT,
        a_word,
        "{v}|to {v}|as {v}|in {v}",
        "{v}で|{v}に",
        "{v}|为{v}|用{v}",
    ),
    "words": Kind(
        "tags items names labels topics values keywords ids members",
        TEXTS,
        several(a_word),
        "{v}|for {v}|with {v}",
        "{v}で|{v}の|タグ{v}の",
        "{v}|{v}的",
    ),
    "people": Kind(
        "people names attendees recipients members users guests",
        TEXTS,
        several(lambda random, language: a_person(random, language)),
        "for {v}|with {v}|to {v}",
        "{v}に|{v}の",
        "给{v}|和{v}",
    ),
    "files": Kind(
        "files paths documents images sources",
        TEXTS,
        several(lambda random, _language: file_path(random)),
        "{v}|from {v}|in {v}",
        "{v}から|{v}の",
        "{v}|{v}的",
    ),
}
LIKE_LISTS = 0.25
"""Of lists in training, those whose values all begin the same: `main.c and main.h`."""
WEIGHTS = {
    "place": 7, "room": 3, "person": 7, "file": 6, "folder": 5, "url": 2, "mail": 2, "date": 4, "time": 3,
    "moment": 1.5, "text": 6, "title": 4, "query": 5, "code": 8, "word": 7, "color": 1.5, "language": 1.5, "unit": 1,
    "currency": 1,
    "count": 6, "percent": 3, "minutes": 3, "number": 4, "year": 1, "amount": 5, "flag": 4, "choice": 6, "words": 3,
    "people": 2, "files": 2.5,
}  # fmt: skip

KIN = "folder pattern;folder file;file text;place time;person mail;code word;file title;place query".split(";")
"""Kinds whose values look alike, or whose names do."""


def draw_value(kind: str, choices: tuple[str, ...], random: Random, language: str, held_out: bool) -> Any:
    """A value of a kind; of a choice one of its values. Texts are from the wanted side of the split."""
    if kind == "choice":
        return random.choice(choices)
    make = varied(kind, KINDS[kind].make, random, held_out)
    if KINDS[kind].schema is TEXT:
        return fresh(lambda source: make(source, language), random, held_out)
    made = make(random, language)
    if isinstance(made, list) and not held_out and random.random() < LIKE_LISTS:
        made = list(dict.fromkeys([made[0], *(like_value(made[0], random) or one for one in made[1:])]))
    return made
