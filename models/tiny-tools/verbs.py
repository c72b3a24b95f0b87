"""What tools do to things: names, descriptions, and how people ask for it in three languages. It knows no values.

`{n}` is the thing, `{a}` with its article, `{the}` with "the", `{s}` many of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """Words parted by bars: beginnings of tool names, descriptions, requests, and what a result says."""

    key: str
    names: str
    about: str
    english: str
    japanese: str
    chinese: str
    result: str

    @property
    def asks(self) -> bool:
        """Whether it only looks: then a question asks for it as well as a command."""
        return self.result.startswith("?")


VERBS: dict[str, Verb] = {
    "create": Verb(
        "create",
        "create|add|new|make",
        "Create {a}|Creates {a}|Make a new {n}|Adds a new {n}|Creates a new {n} and returns its id|New {n}",
        "create {a}|make {a}|add {a}|set up {a}|make a new {n}|create a new {n}|i need a new {n}|start a new {n}",
        "{n}を作って|新しい{n}を追加して|{n}を作成してください|{n}を新しく作って|{n}を追加してください",
        "创建{n}|新建一个{n}|添加一个{n}|请创建{n}|帮我新建{n}",
        "Created {n} {number}.|The {n} was created.|New {n}: {code}",
    ),
    "delete": Verb(
        "delete",
        "delete|remove|drop|erase",
        "Delete {a}|Deletes {the} for good|Remove {a}|Removes {the}|Delete one {n}|Drops {a}",
        "delete {the}|remove {the}|get rid of {the}|erase {the}|drop {the}|throw away {the}|i no longer need {the}",
        "{n}を消して|{n}を削除して|{n}を削除してください|{n}を取り除いて",
        "删除{n}|把{n}删掉|请删除{n}|去掉{n}",
        "Deleted.|The {n} is gone.|Removed {n} {code}.",
    ),
    "list": Verb(
        "list",
        "list|list_all|show_all|get_all",
        "List all {s}|Lists {s}|Returns a list of {s}|All {s}|List {s} one per line|Show every {n}",
        "list {s}|list all {s}|show me all {s}|which {s} are there|what {s} do we have|show every {n}|name all {s}|"
        "give me a list of {s}|{s}|all {s}|{s} please",
        "{n}の一覧を見せて|{n}を全部見せて|どんな{n}がありますか|{n}を一覧にして|すべての{n}を表示して",
        "列出所有{n}|有哪些{n}|显示全部{n}|给我看{n}列表",
        "?{name}\n{name}\n{name}|{word}, {word}, {word}|{word}\n{word}|There are no {s}.",
    ),
    "get": Verb(
        "get",
        "get|read|fetch|show|retrieve",
        "Get {a}|Read {the}|Returns {the}|Fetch one {n}|Shows {the}|Current {n}|{N} details|Gets {the} in full",
        "show {the}|get {the}|read {the}|fetch {the}|what is {the}|show me {the}|give me {the}|what does {the} say|"
        "let me see {the}|i want to see {the}|look up {the}|"
        "{the}|{n}|i need {the}|where is {the}",
        "{n}を見せて|{n}を教えて|{n}は何ですか|{n}は|{n}を表示して|{n}を取得して",
        "显示{n}|查看{n}|{n}是什么|告诉我{n}|给我看看{n}|获取{n}",
        "?{n}: {number}|{name}|{word} {number}|The {n} is {word}.|{number}",
    ),
    "search": Verb(
        "search",
        "search|find|lookup|query",
        "Search {s}|Find {s} that match|Searches {s} by text|Find {a}|Looks for {s}|Query {s}",
        "search {s}|find {s}|look for {s}|search for {s}|"
        "which {s} match|search the {s}|are there any {s}|find me {a}|hunt for {s}",
        "{n}を検索して|{n}を探して|{n}を見つけて|{n}を調べて",
        "搜索{n}|查找{n}|找一下{n}|查一查{n}",
        "?{name}\n{name}|No {n} matches.|{word}: {name}|{number} {s} found.\n{name}",
    ),
    "update": Verb(
        "update",
        "update|edit|change|modify|set",
        "Update {a}|Changes {the}|Edit {a}|Modify {the}|Sets {the}|Change {the} to something new",
        "update {the}|change {the}|edit {the}|modify {the}|set {the}|adjust {the}",
        "{n}を変更して|{n}を更新して|{n}を編集して|{n}を設定して",
        "修改{n}|更新{n}|编辑{n}|设置{n}|更改{n}",
        "Updated.|The {n} is now {word}.|{N} changed.",
    ),
    "rename": Verb(
        "rename",
        "rename",
        "Rename {a}|Gives {a} another name|Renames {the}",
        "rename {the}|give {the} another name|call {the} something else",
        "{n}の名前を変えて|{n}の名前を変更して",
        "重命名{n}|给{n}改名",
        "Renamed.|{word} is now {word}.",
    ),
    "move": Verb(
        "move",
        "move|transfer|shift",
        "Move {a}|Moves {the} somewhere else|Transfer {a}|Move {a} to another place",
        "move {the}|transfer {the}|shift {the}|bring {the}|put {the}",
        "{n}を移して|{n}を移動して",
        "移动{n}|转移{n}|把{n}移走",
        "Moved.|{N} moved to {word}.",
    ),
    "copy": Verb(
        "copy",
        "copy|duplicate|clone",
        "Copy {a}|Makes a copy of {the}|Duplicate {a}|Clone {a}",
        "copy {the}|duplicate {the}|make a copy of {the}|clone {the}",
        "{n}をコピーして|{n}を複製して",
        "复制{n}|拷贝{n}",
        "Copied.|Copy: {code}",
    ),
    "send": Verb(
        "send",
        "send|deliver|post|publish",
        "Send {a}|Sends {the}|Deliver {a}|Post {a}|Publish {the}",
        "send {a}|send {the}|deliver {the}|post {a}|publish {the}",
        "{n}を送って|{n}を送信して|{n}を投稿して",
        "发送{n}|发布{n}|寄出{n}",
        "Sent.|{N} sent to {name}.|Delivered at {number}.",
    ),
    "start": Verb(
        "start",
        "start|run|launch|begin",
        "Start {a}|Starts {the}|Run {the}|Launch {a}|Begin {a}",
        "start {the}|run {the}|launch {the}|begin {the}|kick off {the}",
        "{n}を始めて|{n}を起動して|{n}を開始して",
        "启动{n}|开始{n}|运行{n}",
        "Started.|{N} {code} is running.",
    ),
    "stop": Verb(
        "stop",
        "stop|halt|end|cancel",
        "Stop {a}|Stops {the}|Halt {the}|Cancel {a}|Ends {the}",
        "stop {the}|halt {the}|cancel {the}|end {the}|abort {the}|call off {the}",
        "{n}を止めて|{n}を中止して|{n}を停止して|{n}を取り消して",
        "停止{n}|取消{n}|中止{n}",
        "Stopped.|The {n} has ended.|Cancelled.",
    ),
    "open": Verb(
        "open",
        "open|unlock",
        "Open {a}|Opens {the}|Unlock {a}",
        "open {the}|unlock {the}|open up {the}",
        "{n}を開けて|{n}を開いて",
        "打开{n}|开启{n}",
        "Open.|{N} is open.",
    ),
    "close": Verb(
        "close",
        "close|lock|shut",
        "Close {a}|Closes {the}|Lock {a}|Shut {the}",
        "close {the}|shut {the}|lock {the}",
        "{n}を閉めて|{n}を閉じて",
        "关闭{n}|关上{n}|锁上{n}",
        "Closed.|{N} is closed.",
    ),
    "count": Verb(
        "count",
        "count|number_of|get_count",
        "Count {s}|Counts {s}|How many {s} there are|Number of {s}",
        "how many {s} are there|count {s}|count the {s}|what is the number of {s}|tell me how many {s} there are|"
        "number of {s}",
        "{n}はいくつありますか|{n}の数を教えて|{n}を数えて",
        "有多少{n}|{n}的数量是多少|数一下{n}",
        "?{number}|{number} {s}|There are {number} {s}.",
    ),
    "check": Verb(
        "check",
        "check|test|verify|validate",
        "Check {a}|Checks {the}|Verify {the}|Validate {a}|Test whether {the} is fine|{N} status",
        "check {the}|verify {the}|test {the}|is {the} ok|is {the} all right|how is {the}|validate {the}",
        "{n}を確認して|{n}をチェックして|{n}は大丈夫ですか|{n}の状態は",
        "检查{n}|核实{n}|{n}正常吗|测试{n}",
        "?ok|All right.|{word}: failed|The {n} is {word}.",
    ),
    "measure": Verb(
        "measure",
        "measure|sense|sample|monitor",
        "Measure {the}|Measures {the} now|Current {n} value|Sample {the}",
        "measure {the}|{n} now|current {n}|how high is {the}|how much is {the}|what is {the} now|"
        "take a reading of {the}",
        "{n}を測って|{n}はいくつですか|今の{n}は",
        "测量{n}|现在{n}是多少|{n}有多高",
        "?{number}|{n}: {number} {word}|{number} {word}, rising",
    ),
    "export": Verb(
        "export",
        "export|save|download|dump",
        "Export {s}|Save {the} to a file|Exports {the}|Download {a}|Dumps {s}",
        "export {the}|save {the}|download {the}|export all {s}|dump {the}",
        "{n}を保存して|{n}を書き出して|{n}をダウンロードして",
        "导出{n}|保存{n}|下载{n}",
        "Saved as {code}.|Exported {number} {s}.",
    ),
    "import": Verb(
        "import",
        "import|load|upload|restore",
        "Import {s}|Load {a}|Upload {a}|Restore {the}",
        "import {the}|load {the}|upload {the}|restore {the}|bring in {the}",
        "{n}を読み込んで|{n}をアップロードして|{n}を復元して",
        "导入{n}|加载{n}|上传{n}|恢复{n}",
        "Loaded {number} {s}.|Restored.",
    ),
    "compare": Verb(
        "compare",
        "compare|diff",
        "Compare {s}|Compares two {s}|Shows how {s} differ|Difference between {s}",
        "compare {s}|compare the {s}|what is the difference between the {s}|how do the {s} differ",
        "{n}を比べて|{n}の違いを教えて|{n}を比較して",
        "比较{n}|{n}有什么区别|对比{n}",
        "?{word} and {word} are alike.|{word}: {number}\n{word}: {number}",
    ),
    "share": Verb(
        "share",
        "share|invite|assign",
        "Share {a}|Shares {the} with somebody|Assign {a} to somebody",
        "share {the}|assign {the}|give {the} away|pass on {the}",
        "{n}を共有して|{n}を割り当てて",
        "分享{n}|共享{n}|分配{n}",
        "Shared with {name}.|Assigned.",
    ),
    "book": Verb(
        "book",
        "book|reserve|schedule|order",
        "Book {a}|Books {a}|Reserve {a}|Schedule {a}|Order {a}",
        "book {a}|reserve {a}|schedule {a}|order {a}|get me {a}|arrange {a}",
        "{n}を予約して|{n}を手配して|{n}を頼んで",
        "预订{n}|预约{n}|安排{n}|订{n}",
        "Booked: {code}|Reserved for {name}.",
    ),
    "pay": Verb(
        "pay",
        "pay|buy|settle",
        "Pay {a}|Buy {a}|Pays for {the}|Settle {the}",
        "pay {the}|buy {a}|pay for {the}|settle {the}|purchase {a}",
        "{n}を買って|{n}を払って|{n}を購入して",
        "购买{n}|支付{n}|买{n}",
        "Paid {number}.|Receipt {code}",
    ),
    "play": Verb(
        "play",
        "play|watch|show",
        "Play {a}|Plays {the}|Start playing {a}",
        "play {the}|play {a}|put on {the}|let me hear {the}",
        "{n}を再生して|{n}をかけて",
        "播放{n}|放{n}",
        "Playing {name}.|Now playing: {word}",
    ),
    "print": Verb(
        "print",
        "print|draw|render",
        "Print {a}|Prints {the}|Draw {a}|Render {the}",
        "print {the}|draw {a}|print out {the}|render {the}",
        "{n}を印刷して|{n}を描いて",
        "打印{n}|绘制{n}",
        "Printed {number} pages.|{N} drawn.",
    ),
    "merge": Verb(
        "merge",
        "merge|join|combine",
        "Merge {s}|Join {s}|Combine {s} into one",
        "merge the {s}|join the {s}|combine the {s}|put the {s} together",
        "{n}を統合して|{n}をまとめて|{n}を結合して",
        "合并{n}|把{n}合在一起",
        "Merged.|One {n}: {code}",
    ),
    "archive": Verb(
        "archive",
        "archive|hide|close",
        "Archive {a}|Puts {the} away|Archives {the}",
        "archive {the}|put {the} away|file {the} away",
        "{n}をアーカイブして|{n}をしまって",
        "归档{n}|把{n}存档",
        "Archived.",
    ),
    "convert": Verb(
        "convert",
        "convert|translate|transform",
        "Convert {a}|Converts {the}|Turn {a} into another form|Translate {the}",
        "convert {the}|translate {the}|turn {the} into something else|transform {the}",
        "{n}を変換して|{n}を訳して",
        "转换{n}|翻译{n}",
        "{word} {number}|{name}",
    ),
    "calculate": Verb(
        "calculate",
        "calculate|compute|estimate|predict",
        "Calculate {the}|Computes {the}|Estimate {the}|Predicts {the}",
        "calculate {the}|compute {the}|work out {the}|estimate {the}|what would {the} be|predict {the}",
        "{n}を計算して|{n}を求めて|{n}を見積もって",
        "计算{n}|算一下{n}|估算{n}",
        "?{number}|{n} = {number}|about {number}",
    ),
    "history": Verb(
        "history",
        "history|log|get_history",
        "History of {the}|Shows the history of {the}|What happened to {the}|{N} log",
        "show the history of {the}|what happened to {the}|show the {n} history|show the log of {the}|list past {s}|"
        "{n} history|history of {the}|the last {s}",
        "{n}の履歴を見せて|{n}の記録を見せて|{n}に何がありましたか",
        "显示{n}的历史|查看{n}记录|{n}发生了什么",
        "?{number} {word}\n{number} {word}\n{number} {word}|Nothing yet.",
    ),
    "reset": Verb(
        "reset",
        "reset|clear|restart|empty",
        "Reset {the}|Clears {the}|Restart {the}|Empty {the}",
        "reset {the}|clear {the}|restart {the}|empty {the}|wipe {the}",
        "{n}をリセットして|{n}を空にして|{n}を再起動して",
        "重置{n}|清空{n}|重启{n}",
        "Cleared.|{N} reset.",
    ),
    "enable": Verb(
        "enable",
        "enable|activate|turn_on|switch_on",
        "Enable {a}|Turns {the} on|Switch {the} on|Activates {the}",
        "turn on {the}|switch on {the}|enable {the}|activate {the}|switch {the} on|turn {the} on",
        "{n}をつけて|{n}を有効にして|{n}をオンにして",
        "打开{n}|启用{n}|把{n}打开",
        "On.|{N} is on.",
    ),
    "disable": Verb(
        "disable",
        "disable|deactivate|turn_off|switch_off",
        "Disable {a}|Turns {the} off|Switch {the} off|Deactivates {the}",
        "turn off {the}|switch off {the}|disable {the}|deactivate {the}|switch {the} off|turn {the} off",
        "{n}を消して|{n}を無効にして|{n}をオフにして",
        "关掉{n}|禁用{n}|把{n}关掉",
        "Off.|{N} is off.",
    ),
}
OPPOSITES = (
    "open closed|開いた 閉じた|打开的 关闭的;new old|新しい 古い|新 旧;staged unstaged|ステージ済みの 未ステージの|"
    "已暂存的 未暂存的;incoming outgoing|受信 送信|传入 传出;public private|公開 非公開|公开 私有;local remote|"
    "ローカルの リモートの|本地 远程;first last|最初の 最後の|第一个 最后一个;active inactive|有効な 無効な|活跃 停用;"
    "read unread|既読の 未読の|已读 未读;today's tomorrow's|今日の 明日の|今天的 明天的;left right|左の 右の|左 右;"
    "daily weekly|毎日の 毎週の|每日 每周;source target|元の 先の|源 目标;front back|前の 後ろの|前面的 后面的;"
    "upper lower|上の 下の|上面的 下面的;shared own|共有の 自分の|共享的 自己的;free busy|空いた 埋まった|空闲 忙碌;"
    "red green|赤い 緑の|红色 绿色;big small|大きい 小さい|大 小;hot cold|温かい 冷たい|热 冷;"
    "north south|北の 南の|北 南"
)  # fmt: skip
