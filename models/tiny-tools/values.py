# Long word lists are easier to read and to add to as one text that is split.
# ruff: noqa: SIM905 - lists of words are easier to read and to edit as one text
"""What parameters get: people, places, texts, dates, ids, numbers and lists, in three languages. It knows no parameter.

Every maker takes its random source and the language as arguments.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from typing import Any

from nouns import NOUNS
from vocabulary import EXTENSIONS, japanese_name, japanese_place, name, number, place, whole, word

COMMON = (
    "the a to and we our need is on at for with please call buy milk bread water tomorrow today late early new old "
    "good bad red blue green small big fast slow hello thanks meeting dinner lunch train plane school garden house "
    "car phone key book paper letter fix bug add remove update first last next week month year monday friday sunday "
    "morning evening night done ready broken missing open closed cold hot warm rain sun wind snow king queen cat dog "
    "bird fish tree river road bridge city mountain sea ship light music film game test build release version login "
    "error button menu page table chart cache index server client token user name price stock order copy draft note "
    "plan idea report budget team office project customer invoice payment holiday summer winter spring autumn"
).split()
CHINESE_PLACES = (
    "北京 上海 广州 深圳 成都 杭州 武汉 西安 南京 重庆 天津 苏州 香港 台北 东京 大阪 首尔 伦敦 巴黎 柏林 纽约 罗马 "
    "马德里 莫斯科 悉尼 新加坡 曼谷 德里 迪拜 开罗 多伦多 芝加哥 洛杉矶 维也纳 布拉格 奥斯陆 雅典 里斯本 河内 青岛 "
    "大连 厦门 长沙 昆明 哈尔滨 拉萨 三亚 法国 德国 意大利 西班牙 日本 韩国 印度 巴西 英国 美国"
).split()
CHINESE_NAMES = (
    "王伟 李娜 张敏 刘洋 陈静 杨光 赵磊 黄丽 周杰 吴芳 小明 小红 老李 小王 阿强 林峰 何雪 高翔 马超 孙燕 "
    "朱红 胡军 郭涛 罗琳 梁宇 宋佳 郑凯 谢雨 唐宁 冯云 董洁 程浩 蔡明 彭飞 潘虹 袁泉 田甜 方舟 石磊 白雪"
).split()
CHINESE_TEXT = (
    "今天 明天 开会 买牛奶 很好 谢谢 下午 早上 请 带 钥匙 吃饭 回家 完成 报告 修复 错误 新 旧 天气 测试 文档".split()
)
# Letters that foreign places are written with, family names, and what given names are made of.
CHINESE_SOUNDS = (
    "阿巴贝比博布达德迪多尔法菲弗戈格哈赫胡基加杰卡科克拉莱勒雷里利卢罗洛马曼梅米莫穆纳内尼诺帕佩皮普奇萨塞森沙圣"
    "斯索塔坦特托瓦韦维乌西希夏雅亚叶伊尤约泽扎兹"
)
CHINESE_FAMILIES = "王李张刘陈杨赵黄周吴徐孙朱胡林郭何高罗郑梁谢宋唐许邓冯韩曹曾彭蔡潘田董袁余叶蒋杜苏魏程吕丁沈任姚"
CHINESE_GIVEN = "伟芳敏静丽强磊军洋勇艳杰涛明超秀霞平刚英华慧巧美惠珠雅玉萍红玲燕春兰洁梅云莲雪荣香月瑞佳文志国海"
# What stands in messages and titles: things in their order, with the small words between them.
SENTENCES = {
    "en": "fix the {} of {}|{} is not {}|the {} and the {}|add {} to the {}|no {} in {}|{} for {}|has a {}|likes {}|"
    "new {} for the {}|we need {}|do not {}|{} at {}|owner of {}|first {}, then {}|update {}|{} by {}",
    "ja": "{}を{}|{}の{}|{}が{}|{}は{}です|{}に{}|{}と{}|{}の{}を修正|{}を追加|{}の変更|新しい{}|{}から{}まで|"
    "{}を更新する|{}で{}|{}が必要|{}について|{}をください",
    "zh": "把{}的{}改好|{}和{}|{}的{}|添加{}|修改{}的{}|{}不在{}|在{}里|新的{}|{}是{}|更新了{}|去掉{}|"
    "关于{}的{}|给{}的{}|需要{}",
}
JAPANESE_TEXT = (
    "今日 明日 会議 牛乳を買う ありがとう 午後 朝 お願い 鍵 夕食 帰る 完了 報告 修正 新しい 古い 天気 試験 資料".split()
)
PEOPLE = (
    "Anna Ben Clara David Emma Felix Grace Hugo Ines Jack Kate Leo Maria Noah Olga Paul Rosa Sam Tina Uwe Vera Walter "
    "Yuki Zoe Ken Mia Tom Lisa Max Nina Omar Priya Ravi Sofia Tariq Wei Akira Hana Pedro Luca Elif Ivan Marta Jonas"
).split()
ROOMS = (
    "kitchen|bedroom|living room|bathroom|hall|office|garage|attic|cellar|garden|dining room|nursery|studio|library|"
    "balcony|guest room|workshop|lobby|corridor|pantry"
).split("|")
JAPANESE_ROOMS = (
    "台所 寝室 居間 浴室 玄関 事務所 車庫 屋根裏 地下室 庭 食堂 子供部屋 書斎 図書室 廊下 客間 作業場 会議室 二階"
).split()
CHINESE_ROOMS = (
    "厨房 卧室 客厅 浴室 门厅 办公室 车库 阁楼 地下室 花园 餐厅 儿童房 书房 图书室 走廊 客房 车间 会议室 阳台 二楼"
).split()
COLORS = "red green blue yellow white black orange purple pink grey brown cyan teal gold silver".split()
LANGUAGES = (
    "English German French Spanish Italian Japanese Chinese Korean Dutch Polish Turkish Arabic Hindi Greek Swedish"
).split()
UNITS = "metres feet miles kilometres grams pounds litres gallons celsius fahrenheit inches seconds hours bytes".split()
CURRENCIES = "EUR USD JPY GBP CHF CNY SEK INR AUD CAD KRW BRL".split()


def a_word(random: Random, language: str = "en") -> str:
    """Any word: invented, common, or of the tables, so that every piece of the vocabulary is copied now and then."""
    source = random.random()
    if language != "en" and source < 0.35:
        noun = random.choice(random.choice(list(NOUNS.values())))
        return noun.japanese if language == "ja" else noun.chinese
    if source < 0.45:
        return word(random)
    if source < 0.6:
        return random.choice(COMMON)
    return random.choice(random.choice(list(NOUNS.values()))).english


def a_person(random: Random, language: str) -> str:
    if language == "zh" and random.random() < 0.6:
        return random.choice(CHINESE_NAMES)
    if language == "ja" and random.random() < 0.5:
        return japanese_name(random)
    return random.choice(PEOPLE) if random.random() < 0.5 else name(random)


def a_place(random: Random, language: str) -> str:
    if language == "zh" and random.random() < 0.7:
        return random.choice(CHINESE_PLACES)
    return japanese_place(random) if language == "ja" else place(random)


def a_text(random: Random, language: str) -> str:
    """A few words, as a message or a title has them."""
    if language == "zh" and random.random() < 0.6:
        return "".join(random.choices(CHINESE_TEXT, k=random.randint(1, 4)))
    if language == "ja" and random.random() < 0.6:
        return "".join(random.choices(JAPANESE_TEXT, k=random.randint(1, 3)))
    words = [random.choice(COMMON) if random.random() < 0.7 else a_word(random) for _ in range(random.randint(2, 7))]
    if random.random() < 0.15:
        words[random.randrange(len(words))] = whole(random)
    said = " ".join(words)
    return said[0].upper() + said[1:] if random.random() < 0.4 else said


def a_topic(random: Random, language: str) -> str:
    if random.random() < 0.6:
        return a_word(random)
    return " ".join(a_text(random, language).split()[:2])


def a_code(random: Random, _language: str = "en") -> str:
    """An id as systems give them."""
    letters, digits = word(random), str(random.randint(0, 99999))
    forms = [
        f"{letters[:3].upper()}-{digits}", f"{letters}{digits}", digits, f"{letters}-{digits}", f"#{digits}",
        f"{letters}_{word(random)}", f"{letters}-{word(random)}", f"{random.getrandbits(28):07x}", letters,
        f"{letters[:2].upper()}{digits}", f"v{random.randint(0, 9)}.{random.randint(0, 20)}",
        f"{letters}/{word(random)}",
    ]  # fmt: skip
    return random.choice(forms)


def a_date(random: Random, _language: str = "en") -> str:
    return str(date(2020, 1, 1) + timedelta(days=random.randint(0, 4000)))


def a_time(random: Random, _language: str = "en") -> str:
    return f"{random.randint(0, 23):02}:{random.choice([0, 15, 30, 45, random.randint(0, 59)]):02}"


def a_moment(random: Random, _language: str = "en") -> str:
    return f"{a_date(random)}T{a_time(random)}:00" + random.choice(["", "Z"])


def a_new_place(random: Random, language: str) -> str:
    """A place that is in no table, of two to five letters in Chinese: a few names would be known by heart."""
    if language == "zh":
        return "".join(random.choices(CHINESE_SOUNDS, k=random.randint(2, 5)))
    return japanese_name(random) if language == "ja" else place(random)


def a_new_person(random: Random, language: str) -> str:
    if language == "zh":
        return random.choice(CHINESE_FAMILIES) + "".join(random.choices(CHINESE_GIVEN, k=random.randint(1, 2)))
    return a_person(random, language)


def a_sentence(random: Random, language: str) -> str:
    """A text with small words in it, or a setting: "資料を追加", "no gate in menu", "port=80"."""
    if random.random() < 0.25:
        value = random.choice([a_word(random), whole(random), "True", "False", "on", "off", "yes", "no"])
        return f"{a_word(random)}{random.choice(['=', '=', ' = ', ': '])}{value}"
    form = random.choice(SENTENCES[language].split("|"))
    return re.sub(r"\{\}", lambda _: a_word(random, language), form)


def a_mail(random: Random, _language: str = "en") -> str:
    user = random.choice(PEOPLE).lower() if random.random() < 0.5 else word(random)
    digits = random.choice(["", str(random.randint(1, 99))])
    return f"{user}{digits}@{word(random)}.{random.choice(['com', 'org', 'de', 'jp'])}"


def a_url(random: Random, _language: str = "en") -> str:
    end = random.choice(["", f"/{word(random)}", f"/{word(random)}.html", f"/{word(random)}/{random.randint(1, 999)}"])
    return f"http{random.choice(['s', 's', ''])}://{word(random)}.{random.choice(['com', 'org', 'io', 'net'])}{end}"


def a_room(random: Random, language: str) -> str:
    known = {"ja": JAPANESE_ROOMS, "zh": CHINESE_ROOMS}.get(language, ROOMS)
    chance = random.random()
    return random.choice(known) if chance < 0.5 else random.choice(ROOMS) if chance < 0.7 else word(random)


def a_pattern(random: Random, _language: str = "en") -> str:
    """What names of files look like: `*.py`, `test_*`; or one whole name."""
    ending = random.choice([*"py md txt log json csv c h rs go jpg pdf yml toml".split(), word(random)])
    begins = word(random)
    forms = [f"*.{ending}", f"*.{ending}", f"**/*.{ending}", f"{begins}*", f"*{begins}*", f"{begins}_*.{ending}",
             f"{begins}.{ending}", f"*_{begins}.{ending}"]  # fmt: skip
    return random.choice(forms)


def like_value(value: str, random: Random) -> str | None:
    """Another value that begins the same: `util.h` beside `util.c`; None where a value has no parts."""
    begins = re.match(r".*[/._= -](?=[^/._= -]+$)", value)
    if not begins:
        return None
    ends = random.choice(EXTENSIONS if begins[0].endswith(".") else [random.choice(COMMON), word(random)])
    return None if begins[0] + ends == value else begins[0] + ends


def one_of(values: list[str]) -> Callable[[Random, str], str]:
    """A known value, or, two times in five, an invented one."""
    return lambda random, _language: random.choice(values) if random.random() < 0.6 else word(random)


def up_to(most: int, least: int = 0) -> Callable[[Random, str], int]:
    return lambda random, _language: random.randint(least, 10 ** random.randint(1, len(str(most)) - 1))


def a_number(random: Random, _language: str = "en") -> int | float:
    text = number(random)
    return float(text) if "." in text else int(text)


def several(make: Callable[[Random, str], str]) -> Callable[[Random, str], list[str]]:
    def make_list(random: Random, language: str) -> list[str]:
        count = random.choices([1, 2, 3, 4, 5], [2, 4, 5, 4, 2])[0]
        return list(dict.fromkeys(make(random, language) for _ in range(count)))

    return make_list


def is_true(random: Random, _language: str = "en") -> bool:
    return random.random() < 0.7


VARIED: dict[str, Callable[[Random, str], str]] = {
    "place": a_new_place, "person": a_new_person, "text": a_sentence, "title": a_sentence, "query": a_sentence,
}  # fmt: skip
VARIED_SHARE = 0.3
"""Kinds of which training, but nothing that is measured, has other values too, and how many."""


def varied(
    kind: str, make: Callable[[Random, str], Any], random: Random, held_out: bool
) -> Callable[[Random, str], Any]:
    """What makes a value of this kind now."""
    return make if held_out or kind not in VARIED or random.random() > VARIED_SHARE else VARIED[kind]
