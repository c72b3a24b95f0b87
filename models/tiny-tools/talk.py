# Long word lists are easier to read and to add to as one text that is split.
# ruff: noqa: SIM905 - lists of words are easier to read and to edit as one text
"""Small talk and requests that no tool fits, each with the one answer that is trained for it.

It knows no tool; requests for tools that are missing from a list come from the modules of the tools.
"""

from random import Random

from values import a_person, a_place
from vocabulary import fresh, japanese_name, number, pick, quoted, word

REFUSAL, JAPANESE_REFUSAL = "I have no tool for that.", "そのためのツールがありません。"
REFUSALS = {"en": REFUSAL, "ja": JAPANESE_REFUSAL, "zh": "没有适合的工具。"}

SMALL_TALK: dict[str, str] = {
    "Hello! How can I help you?": (
        "hello|hi|hey|good morning|good evening|good afternoon|hello there|hi there|hey there|hello again|greetings|"
        "hello my friend|hi friend|good day|hey you|hi, nice to meet you|hello, nice to meet you|howdy|morning|"
        "hello hello|hi again|hey, good morning|hello, good evening|hi everyone|yo|hiya|hello computer|hi computer|"
        "hello tiny-tools|hi tiny-tools|hey tiny-tools|nice to meet you|hello assistant|good to see you|welcome"
    ),
    "I am tiny-tools, a very small model that calls tools.": (
        "who are you|what are you|what is your name|tell me who you are|tell me your name|who am I talking to|"
        "are you a robot|are you a model|what kind of model are you|which model are you|introduce yourself|"
        "what's your name|who is this|are you human|are you a person|are you an AI|your name|what model is this|"
        "what model are you|can you introduce yourself|please tell me your name|who made you|how big are you|"
        "tell me about yourself|say who you are|what should I call you|do you have a name|are you a chatbot"
    ),
    "I can call the tools in my list and tell you what they say.": (
        "what can you do|what can you do for me|how can you help|how can you help me|what are you good for|help|"
        "help me|what do you do|what are you able to do|can you help me|what can I ask you|what can I ask|"
        "what can you help me with|tell me what you can do|show me what you can do|which tools do you have|"
        "what tools do you have|what tools can you use|list your tools|show your tools|your abilities|"
        "what are your abilities|what are your skills|what should I ask|i need help|how do you work|"
        "how does this work|what are you here for|which things can you do|what is possible here"
    ),
    "You are welcome.": (
        "thanks|thank you|thank you very much|thanks a lot|many thanks|thank you so much|thx|great, thanks|"
        "thanks for your help|thank you for your help|ok thanks|perfect, thank you|nice, thanks|cool, thanks|"
        "thanks, that helps|that helps, thank you|thank you, that was helpful|very kind of you|i appreciate it|"
        "thanks again|thank you again|good job|well done|great work|nice work|good work, thanks|awesome, thank you|"
        "wonderful, thanks|ty|much appreciated|cheers|that was helpful|thanks for the answer|very good, thank you"
    ),
    "Goodbye!": (
        "bye|goodbye|good bye|see you|see you later|bye bye|good night|that is all|that's all for now|i am done|"
        "see you tomorrow|talk to you later|farewell|so long|have a nice day|until next time|ok bye|bye for now|"
        "thanks, bye|i have to go|i have to go now|good night, see you|see you soon|take care|later|catch you later|"
        "i'm leaving|i am leaving now|have a good day|have a good night|goodbye then|bye, see you"
    ),
    "I am fine, thank you.": (
        "how are you|how are you doing|how are you today|how do you do|how is it going|how's it going|are you ok|"
        "are you well|how do you feel|how are things|how have you been|are you fine|how is your day|how's your day|"
        "how are you doing today|are you all right|how are you feeling|is everything ok|how's life|feeling well|"
        "how was your day|are you feeling well|what's up|how are things today|are you happy|you ok|all good"
    ),
    "Why did the byte cross the bus? To get to the other side.": (
        "tell me a joke|a joke please|do you know a joke|make me laugh|tell a joke|joke|say something funny|"
        "tell me something funny|i want to hear a joke|another joke|tell me another joke|one more joke|a funny joke|"
        "give me a joke|can you tell a joke|can you tell me a joke|got any jokes|do you know any jokes|know a joke|"
        "i need a joke|be funny|tell us a joke|let me hear a joke|your best joke|cheer me up with a joke|any joke"
    ),
    "こんにちは！何をお手伝いしましょうか。": (
        "こんにちは|おはよう|おはようございます|こんばんは|やあ|ハロー|どうも|はじめまして|もしもし|"
        "こんにちは、はじめまして|やあ、こんにちは|おっす|ごきげんよう|皆さんこんにちは|どうも、こんにちは"
    ),
    "tiny-toolsです。ツールを呼び出す、とても小さなモデルです。": (
        "あなたは誰ですか|あなたは誰|名前は|お名前は何ですか|名前を教えて|自己紹介して|君は誰|あなたは何ですか|"
        "あなたの名前は何ですか|あなたの名前を教えて|自己紹介をお願いします|誰ですか|あなたはロボットですか|"
        "あなたはAIですか"
    ),
    "一覧にあるツールを呼び出して、結果をお伝えできます。": (
        "何ができますか|何ができるの|できることを教えて|助けて|使い方を教えて|ヘルプ|どんなことができますか|"
        "あなたは何ができますか|どんなツールがありますか|ツールを教えて|何をしてくれますか|何を聞けばいいですか|"
        "使い方は"
    ),
    "どういたしまして。": (
        "ありがとう|ありがとうございます|どうもありがとう|助かりました|サンキュー|感謝します|ありがとうございました|"
        "とても助かりました|本当にありがとう|どうもありがとうございます|助かった、ありがとう|すごい、ありがとう"
    ),
    "さようなら！": (
        "さようなら|またね|バイバイ|おやすみ|じゃあね|おやすみなさい|また明日|では、また|失礼します|お疲れさま|"
        "またあとで|では、さようなら|じゃあ、またね"
    ),
    "元気です。ありがとうございます。": (
        "元気ですか|お元気ですか|調子はどう|調子はどうですか|元気|ご機嫌いかがですか|最近どう|今日の調子はどう|"
        "体調はどうですか"
    ),
    "你好！有什么可以帮你？": (
        "你好|您好|早上好|晚上好|下午好|嗨|你好啊|大家好|早安|哈喽|你好，很高兴认识你|很高兴认识你|又见面了|你好呀|早"
    ),
    "我是tiny-tools，一个会调用工具的小模型。": (
        "你是谁|你叫什么名字|你是什么|请介绍一下自己|你的名字是什么|你是机器人吗|你是什么模型|介绍一下你自己|"
        "你是人吗|怎么称呼你|你叫什么|你是AI吗"
    ),
    "我可以调用列表里的工具，并告诉你结果。": (
        "你能做什么|你会什么|你可以帮我做什么|帮助|怎么用|你有哪些工具|有什么功能|我可以问你什么|帮帮我|你能帮我吗|"
        "能做些什么|说说你会做什么"
    ),
    "不客气。": "谢谢|谢谢你|非常感谢|多谢|太感谢了|谢啦|感谢|好的，谢谢|谢谢你的帮助|辛苦了|做得好|太好了，谢谢",
    "再见！": "再见|拜拜|晚安|回头见|明天见|我走了|下次见|先这样|再会|好的，再见|下线了",
    "我很好，谢谢。": "你好吗|你怎么样|最近好吗|今天怎么样|还好吗|过得怎么样|你今天好吗|最近怎么样|一切都好吗",
}
CHINESE_QUESTIONS = (
    "预订去{place}的机票|订{number}个{word}|放点音乐|翻译{word}|写一首诗|给{name}打电话|给{name}发邮件|{place}的天气怎么样|"
    "怎么去{place}|{word}是什么|{name}是谁|买{word}|点{number}个披萨|订{place}的酒店|画一幅画|唱首歌|{word}的新闻|"
    "{name}的电话是多少|{number}点叫醒我|打开{word}|关掉{word}|做饭|{place}有多少人口|{word}多少钱|我饿了|讲个故事|"
    "叫一辆出租车|明天有什么安排|搜索{word}|{word}在哪里买|把{word}打开|{name}多大了|{place}最好的{word}"
).split("|")

VERBS = (
    "book|order|buy|sell|play|translate|write|draw|paint|sing|cook|send|call|invite|build|repair|clean|wash|"
    "reserve|cancel|pay|record|print|post|publish|download|upload|install|remove|deliver|rent|hire|teach me|"
    "explain|summarise|compose|design|plan|recommend|compare|predict|guess|describe|define|spell|remember|email|"
    "text|phone|visit|wake|feed|water|park|charge|lock|unlock|paint|photograph|film|review|rate|solve|schedule"
).split("|")
OBJECTS = (
    "a flight|a hotel|a table|a taxi|a pizza|some music|a song|this text|a poem|a story|a letter|an email|a picture|"
    "a photo|the dog|the cat|my car|a ticket|two tickets|the news|a movie|a film|a video|a game|the lamp|dinner|"
    "lunch|breakfast|a cake|a recipe|my mother|my boss|a doctor|the police|a friend|a party|a house|a bike|the window|"
    "a haiku|an essay|a book|the history|the meaning of life|the president|football|the weather|my homework|a trip|"
    "a train|a bus|coffee|a sandwich|flowers|a gift|the garden|a meeting|a reminder|an alarm|the kitchen|a dress|shoes"
).split("|")
TAILS = (
    "|| to {place}| from {place}| in {place}| for {number} people| for {name}| with {name}| about {word}| tomorrow|"
    " tonight| today| next week| into French| into {name}| called {word}| number {number}| near {place}| on Monday|"
    " for my birthday| for me| at once| for {number} euros| of {name}| at {number} o'clock"
).split("|")
QUESTIONS = (
    "who won the game in {place}|who is {name}|what is a {word}|what is love|why is the sky blue|where is {name}|"
    "how do I get to {place}|how old is {name}|when does the {word} open|what should I eat|which film is good|"
    "will it rain in {place}|is it raining in {place}|how many people live in {place}|"
    "what is the capital of {place}|translate {quoted} to {name}|what does {word} mean|"
    "how do you say {word} in {name}|write a poem about {word}|who wrote {name}|what is the price of {word}|"
    "how much is a {word}|what happened in {number}|is {name} at home|tell me a story about {name}|"
    "tell me about {place}|what is the best {word} in {place}|how tall is {name}|do you like {word}|"
    "what colour is {word}|turn on the {word}|turn off the {word}|switch {word} on|set an alarm for {number}|"
    "remind me to {word}|send {name} a message|call {name}|email {name} about {word}|sing {word}|dance|play {name}|"
    "play the song {name}|order {number} {word}|buy {word} for {number}|how far is {place} from here|"
    "how is the traffic in {place}|what is the exchange rate of {word}|search the web for {word}|google {name}|"
    "look up {name} on the internet|open the browser|show me a map of {place}|what is the news|"
    "any news from {place}|who is the king of {place}|what language do they speak in {place}|"
    "convert {number} euros to dollars|how many calories has a {word}|write code for a {word}|restart the computer|"
    "shut down|delete {word}|make me a {word}|give me {number} {word}|i want a {word}|find a {word} near {place}|"
    "restart the {word}|reboot|restart {word}|reboot the {word}|stop the {word}|start the {word}|open the {word}|"
    "close the {word}|what is a {word} {word}|who is the {word}|who was {name}|who is {name} {name}|"
    "remind {name} to {word}|remind me about {word}|what is the meaning of {word}|what does a {word} do|"
    "what does a {word} cost|how much does {word} cost|buy {number} {word}|play the {word}|play a song by {name}|"
    "search {word} online|look up {word} online|what is new in {place}|what are the news|i am hungry|i am bored|"
    "the {word} is broken|fix my {word}|show me {word}|where can I buy {word}|fly to {place}"
).split("|")
JAPANESE_QUESTIONS = (
    "{place}行きの飛行機を予約して|{word}を注文して|音楽をかけて|{word}を翻訳して|詩を書いて|{name}に電話して|"
    "{name}にメールを送って|{place}の天気は|{place}への行き方を教えて|{word}とは何ですか|{name}は誰ですか|"
    "{word}を買って|{word}を英語に訳して|ピザを{number}枚注文して|{place}のホテルを予約して|絵を描いて|歌を歌って|"
    "{word}のニュースを見せて|{name}の電話番号は|{number}時に起こして|{word}をつけて|{word}を消して|料理を作って|"
    "{place}の人口は|{word}の値段はいくらですか|映画を見せて|{place}で一番高い山は|お腹がすいた|"
    "{word}はいくらしますか|{word}の値段を教えて|{word}の値段は|{word}はどこで買えますか|{word}を日本語に訳して|"
    "{word}をドイツ語にして|{word}を開けて|{word}を閉めて|{name}はどこですか|{name}は何歳ですか|{name}を呼んで|"
    "物語を書いて|{name}について教えて|タクシーを呼んで|明日の予定は|{word}を検索して"
).split("|")
OPENERS = "||||please |can you |could you |i want to |i'd like to |hey, |help me to |would you |i need to ".split("|")


def small_talk(random: Random, held_out: bool) -> tuple[str, str]:
    """What is said and what is answered."""
    said = pick([line for lines in SMALL_TALK.values() for line in lines.split("|")], random, held_out)
    answer = next(answer for answer, lines in SMALL_TALK.items() if said in lines.split("|"))
    return dress(said, random, japanese=is_east_asian(answer)), answer


def hopeless(random: Random, held_out: bool) -> tuple[str, str]:
    """A request that no tool of ours fits, and its language."""
    language = random.choices(["en", "ja", "zh"], [7, 2, 1.5])[0]
    if language != "en":
        core = pick(JAPANESE_QUESTIONS if language == "ja" else CHINESE_QUESTIONS, random, held_out)
    elif random.random() < 0.5:
        core = pick(QUESTIONS, random, held_out)
    else:
        pair = fresh(lambda source: f"{source.choice(VERBS)} {source.choice(OBJECTS)}", random, held_out)
        core = random.choice(OPENERS) + pair + random.choice(TAILS)
    return dress(fill(core, random, language), random, language != "en"), language


def fill(core: str, random: Random, language: str) -> str:
    values = {
        "place": a_place(random, language),
        "name": a_person(random, language),
        "word": japanese_name(random) if language == "ja" and random.random() < 0.6 else word(random),
        "number": number(random),
        "quoted": quoted(word(random), random),
    }
    return core.format(**values)


def dress(said: str, random: Random, japanese: bool) -> str:
    """Case and closing marks as people use them."""
    if japanese:
        return said + random.choice(["", "", "。", "！", "？"])
    if random.random() < 0.5:
        said = said[0].upper() + said[1:]
    return said + random.choice(["", "", "", ".", "!", "?"])


def is_east_asian(text: str) -> bool:
    return any("\u3040" <= letter <= "\u9fff" for letter in text)
