"""How people ask for the board server's tools: phrasings by tool, in English by mood and in Japanese.

Those in Chinese are in `board_chinese.py`. It knows no values: `{place}`, `{path}`, `{folder}`, `{mount}`, `{lines}`
and `{sum}` are filled elsewhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrasings:
    """Cores parted by bars: whole questions, commands, bare nouns, and Japanese."""

    questions: str
    commands: str
    nouns: str
    japanese: str


PHRASINGS: dict[str, Phrasings] = {
    "get_time": Phrasings(
        "what time is it in {place}|what time is it now in {place}|what is the time in {place}|"
        "what's the time in {place}|how late is it in {place}|what time do they have in {place}|"
        "what time is it over in {place}|in {place}, what time is it|what is the current time in {place}|"
        "what is the local time in {place}|what time does the clock show in {place}|"
        "what does the clock say in {place}|is it morning in {place}|is it night in {place}|"
        "what day is it in {place}|what date is it in {place}|what is the date in {place}|"
        "what's the date in {place}|which day is it in {place}|what is today's date in {place}|"
        "which time is it in {place}|what hour is it in {place}|{place}, what time is it there|"
        "what is the time of day in {place}|how late is it now in {place}|is it late in {place}|"
        "what time is it at {place}|what time zone time is it for {place}|what time would it be in {place} now|"
        "what's the local time at {place}|what time is it|what is the time|what's the time|how late is it|"
        "what day is it|what is the date|what time is it now|what time have they got in {place}|"
        "what is the time over in {place}|what does a clock in {place} show|what time is it right now in {place}|"
        "what is the hour in {place}|what weekday is it in {place}|which date do they have in {place}|"
        "can you see what time it is in {place}|is it already tomorrow in {place}|how early is it in {place}|"
        "what is the present time in {place}|which time zone is {place} in|what time do people in {place} have",
        "tell me the time in {place}|give me the time in {place}|show the time in {place}|"
        "get the time in {place}|get the current time in {place}|check the time in {place}|"
        "look up the time in {place}|tell the time for {place}|find out what time it is in {place}|"
        "check what time it is in {place}|show the clock of {place}|say the time in {place}|"
        "look at the clock in {place}|get_time place={place}|get_time {place}|get_time for {place}|"
        "call get_time with {place}|show me the date in {place}|give me the date and time in {place}|"
        "use get_time for {place}|print the time in {place}|tell me the time|show the time|get the time|"
        "check the clock|show me the date|look at the time in {place}|check the clock in {place}|"
        "tell me what time it is in {place}|show the current time in {place}|show me the time for {place}|"
        "get the date in {place}|get the local time of {place}|give me the current time of {place}|"
        "fetch the time in {place}|read the clock in {place}|tell me the local time in {place}|"
        "show the local time for {place}|say what time it is in {place}",
        "the time in {place}|the current time in {place}|time in {place}|current time in {place}|"
        "local time in {place}|time {place}|{place} time|the local time of {place}|the time for {place}|"
        "the date in {place}|the clock in {place}|time now in {place}|the hour in {place}|"
        "today's date in {place}|date and time in {place}|the time at {place}|the time|the current time|the date|"
        "today's date|date and time|the clock|the local time in {place}|the local time at {place}|"
        "the time of day in {place}|the exact time in {place}|clock {place}|{place} clock|the day in {place}|"
        "the present time in {place}|time of {place}",
        "{place}は今何時ですか|{place}の時間は|{place}の時刻を教えて|{place}は何時|{place}の今の時間は|"
        "今{place}は何時ですか|{place}の現在時刻は|{place}の現在の時刻を教えてください|{place}で今何時|"
        "{place}の日付は|{place}は何時ですか|{place}の時間を教えて|{place}は今何時|{place}の時計は何時ですか|"
        "{place}の日時を教えて|{place}の時刻は|今の{place}の時間|今何時ですか|何時ですか|今何時|時間を教えて|"
        "今日は何日ですか|現在の時刻は|{place}の現地時間は|{place}の現地時間を教えて|{place}の時間を見せて|"
        "{place}の時間はいま何時|今の{place}は何時|{place}は何日ですか|{place}の今日の日付は|"
        "{place}の時刻を見せて|{place}の時刻を教えてください|{place}の現在の時間を教えて|{place}では今何時ですか|"
        "現在の{place}の時刻は",
    ),
    "get_temperature": Phrasings(
        "how hot is the board|how warm is the board|how hot is the cpu|how warm is the cpu|how hot is the chip|"
        "how hot is the soc|what is the temperature|what's the temperature|what is the cpu temperature|"
        "what is the board temperature|what is the temperature of the cpu|what is the temperature of the board|"
        "what temperature does the chip have|is the board hot|is the cpu hot|is the board too hot|"
        "is the cpu overheating|is the board overheating|is it getting hot|is the chip too warm|how hot are you|"
        "how hot is it in there|how many degrees does the cpu have|how hot is the processor|"
        "how many degrees is the board|what do the temperature sensors say|what does the thermal sensor say|"
        "how cool is the cpu|does the cpu run hot|are you running hot|how warm is this machine|"
        "how hot is this computer|what is the soc temperature|how warm is the board now|"
        "how hot is the soc right now|how warm is the soc|what do the sensors say|"
        "what do the temperature sensors show|how warm is it in there|how hot is it inside|"
        "how many degrees is the cpu|is the soc hot|is the soc too hot|does the chip get hot|"
        "what is the heat of the chip|how hot does the cpu run|what temperature is the board|"
        "what is the current temperature|is the processor hot|how cool is the board|how cold is the cpu|"
        "what do the thermals look like",
        "check the temperature|show the temperature|tell me the temperature|read the temperature|"
        "get the temperature|measure the temperature|check how hot the cpu is|check how hot the board is|"
        "show the cpu temperature|read the temperature sensor|read the thermal sensors|"
        "show me how warm the chip is|get_temperature|call get_temperature|use get_temperature|"
        "check the thermals|look at the temperature|report the temperature|check if the cpu is hot|"
        "read the temperatures|show the temperatures|read the cpu temperature|get the cpu temperature|"
        "get the board temperature|read the sensors|show the sensors|tell me how hot the board is|"
        "tell me how warm the cpu is|show the thermals|check the soc temperature|check the processor temperature",
        "the temperature|temperature|cpu temperature|the cpu temperature|board temperature|"
        "the temperature of the board|the temperature of the chip|soc temperature|the soc temperature|"
        "the heat of the cpu|the core temperature|thermals|thermal sensors|the temperature now|"
        "temperature of the processor|the current temperature|degrees of the cpu|temperatures|the temperatures|"
        "the heat|heat of the board|sensor temperatures|the temperature of the soc|the current heat|"
        "the processor temperature|the sensors",
        "温度は|CPUの温度は|温度を教えて|ボードの温度は何度ですか|今何度ですか|CPUは熱いですか|"
        "CPUの温度を教えてください|ボードは熱いですか|チップの温度を見せて|温度を測って|今の温度は|"
        "熱くなっていますか|CPUは何度ですか|温度を確認して|CPUの温度を見せて|CPUの温度を教えてほしい|"
        "温度を見せて|温度は何度|ボードの温度を教えて|ボードの温度は|チップの温度は|プロセッサの温度は|"
        "温度を教えてください|熱いですか|センサーの温度は|SoCの温度は",
    ),
    "get_memory": Phrasings(
        "how much memory is free|how much memory is used|how much ram is free|how much ram is left|"
        "how much memory is left|how much memory do you have|how much ram does this machine have|"
        "how much memory is there|how full is the memory|how full is the ram|is there enough memory|"
        "is there memory left|is the memory full|are we running out of memory|are we low on memory|"
        "what is the memory usage|what is the ram usage|how is the memory|how much ram is in use|"
        "how much memory is available|how much ram is available|how many gigabytes of memory are free|"
        "do we have free ram|how much swap is used|is the ram full|how big is the memory|"
        "what does the memory look like|how much memory is taken|how much memory have you got|"
        "do you have enough memory|are we short of memory|is memory low|is the memory low|how low is the memory|"
        "how much ram do you have|how much ram is there|how many gigabytes of ram are free|"
        "how much of the memory is used|what is the state of the memory|how much memory can i use|"
        "is there free memory",
        "check the memory|show the memory|show memory usage|show the ram|check the ram|tell me the memory usage|"
        "get the memory|report memory use|show me how much memory is free|check how much ram is left|"
        "look at the memory|get_memory|call get_memory|use get_memory|print the memory usage|"
        "check if memory is low|tell me how much ram is used|show the free memory|tell me the free memory|"
        "get the free ram|show the memory status|read the memory usage|get the memory usage|"
        "tell me how much memory is left|show how much ram is free",
        "memory|the memory|memory usage|the memory usage|ram|ram usage|the ram usage|free memory|free ram|"
        "the free memory|available memory|memory use|the used memory|the amount of free memory|memory status|"
        "the state of the memory|usage of the memory|the memory use|how much memory|the memory left|ram left|"
        "the ram|memory left|the used ram|swap usage|the swap",
        "メモリは|メモリの空きは|メモリの使用量を教えて|メモリはどれくらい空いていますか|RAMの空きは|"
        "メモリを確認して|メモリの残りは|メモリは足りていますか|メモリの状態を見せて|使用中のメモリは|"
        "空きメモリを教えてください|メモリ使用率は|メモリを見せて|メモリを教えて|メモリの使用率は|"
        "メモリの使用率を教えて|メモリの量は|メモリの状態は|残りのメモリは|メモリの残りを教えて|RAMの使用量は|"
        "メモリの確認をお願いします|メモリはいくらありますか",
    ),
    "get_disk": Phrasings(
        "how full is the disk|how much disk space is left|how much space is left|how much space is free|"
        "is the disk full|how much storage is left|how much free space is there|how big is the disk|"
        "how much disk space do we have|is there enough disk space|are we running out of disk space|"
        "how much room is on the disk|what is the disk usage|how much storage is used|"
        "how many gigabytes are free on the disk|is there space left on the disk|how is the disk|"
        "how full is {mount}|how much space is left on {mount}|how much space is free on {mount}|"
        "how full is the disk at {mount}|what is the disk usage of {mount}|"
        "how much disk space is left in {mount}|is {mount} full|how much room is on {mount}|"
        "how much storage is left on {mount}|how much free space has {mount}|is there space left on {mount}|"
        "how big is {mount}|how much disk does {mount} use|how full is the drive {mount}|"
        "what is the free space on {mount}|how big is the disk {mount}|how big is the drive {mount}|"
        "how big is the disk at {mount}|how large is {mount}|how large is the disk {mount}|"
        "what is the size of {mount}|what size has {mount}|how much is free on {mount}|how much fits on {mount}|"
        "how big is the free space on {mount}|how large is the disk|what is the size of the disk|"
        "how much space has {mount}|how many gigabytes are free on {mount}|is the disk at {mount} full|"
        "how much storage is there|what is left on the disk|what is left on {mount}|is there room on {mount}",
        "check the disk|show the disk usage|show disk space|check the disk space|tell me the free disk space|"
        "get the disk usage|check the storage|look at the disk|show free space|get_disk|call get_disk|"
        "use get_disk|check if the disk is full|check the disk at {mount}|show the disk usage of {mount}|"
        "check the space on {mount}|get_disk path={mount}|get_disk {mount}|call get_disk with {mount}|"
        "show the free space on {mount}|check how full {mount} is|use get_disk for {mount}|"
        "tell me the disk space on {mount}|look at the disk space of {mount}|show the free disk space|"
        "show the storage|show me the free space|check free space|check if {mount} is full|"
        "check if there is space left|tell me how full the disk is|tell me the free space on {mount}|"
        "tell me how full {mount} is|get the free space|show the disk|show the disk at {mount}|"
        "show the size of {mount}|measure the disk {mount}",
        "disk|the disk|disk usage|the disk usage|disk space|free disk space|the free disk space|storage|"
        "the free space|free space|space left on the disk|the storage left|disk usage of {mount}|"
        "free space on {mount}|the disk space on {mount}|the space left on {mount}|disk {mount}|"
        "storage on {mount}|the disk usage at {mount}|space on {mount}|the size of {mount}|disk size|"
        "the size of the disk|the storage|storage space|the storage space|space left|the space left|"
        "the free disk|the disk space left on {mount}|free space of {mount}|the usage of the disk|"
        "the disk at {mount}",
        "ディスクの空きは|ディスクの空き容量を教えて|ディスクはどれくらい空いていますか|ストレージの残りは|"
        "ディスクはいっぱいですか|ディスクの使用量は|空き容量は|{mount}の空き容量は|"
        "{mount}のディスクの空きを教えて|{mount}はどれくらい空いていますか|ディスクを確認して|"
        "{mount}の使用量を教えてください|{mount}の容量は|ディスク容量を見せて|{mount}のディスク使用量は|"
        "ディスクを見せて|ディスクの残りは|ディスクの容量を教えて|{mount}の空きは|{mount}の残りは|"
        "{mount}の空きを教えて|{mount}のディスク容量は|空き容量を見せて|ディスクの使用率は|ストレージを見せて|"
        "{mount}はいっぱいですか",
    ),
    "get_load": Phrasings(
        "how busy is the cpu|how busy is the board|how busy is the machine|what is the load|what is the cpu load|"
        "what's the load average|what is the load average|how high is the load|how high is the cpu load|"
        "is the cpu busy|is the board busy|is the machine busy|are you busy|how much load is there|"
        "what is the system load|how loaded is the cpu|how loaded is the system|is the load high|"
        "how hard is the cpu working|how much work is the cpu doing|is the system busy|what is the cpu usage|"
        "how much cpu is used|is the cpu under load|how busy are you|how busy is this computer|"
        "how long has the system been up|what is the uptime|how busy are the cores|is the load average high|"
        "what is the load of the cpu|how high is the load of the cpu|how high is the system load|"
        "how high is the load now|how busy is the system|how busy is the processor|what is the load on the board|"
        "how big is the load|is the processor busy|is the cpu idle|how loaded is the machine|"
        "what does the load look like|how many processes are running|how long are you up|"
        "how long is the machine running",
        "check the load|show the load|show the load average|check the cpu load|tell me the load|get the load|"
        "report the load|check how busy the cpu is|check how busy the board is|show the system load|"
        "look at the load|get_load|call get_load|use get_load|print the load average|show cpu usage|"
        "check the cpu usage|show me how busy the machine is|check the uptime|get the cpu load|"
        "get the load average|get the system load|read the load|tell me the cpu load|tell me the load average|"
        "show the load of the cpu|report the cpu usage|show the uptime|check the system load|"
        "show how busy you are",
        "load|the load|cpu load|the cpu load|load average|the load average|system load|the system load|"
        "the load of the cpu|cpu usage|the cpu usage|the load of the board|the current load|machine load|"
        "the busyness of the cpu|the processor load|processor load|load of the board|the load now|uptime|"
        "the uptime|busyness of the board|the busyness|average load|the usage of the cpu|cpu|the cpu",
        "CPUの負荷は|負荷を教えて|システムの負荷は|CPU使用率は|ロードアベレージは|今忙しいですか|"
        "CPUは忙しいですか|負荷は高いですか|CPUの負荷を見せて|システムは忙しいですか|負荷を確認して|"
        "ボードの負荷はどれくらいですか|CPUの使用率を教えて|ボードの負荷は|ボードの負荷を教えて|負荷はどれくらい|"
        "負荷はどれくらいですか|CPUの負荷はどれくらい|システムの負荷を教えて|プロセッサの負荷は|"
        "CPUはどれくらい忙しいですか|負荷を見せて|稼働時間は",
    ),
    "get_npu": Phrasings(
        "how busy is the npu|what is the npu load|what is the npu doing|is the npu busy|is there an npu|"
        "do you have an npu|does this board have an npu|how fast is the npu|what is the npu frequency|"
        "what frequency does the npu run at|how much is the npu used|what is the npu usage|is the npu working|"
        "is the npu in use|how is the npu|how loaded is the npu|what is the load of the npu|is the npu idle|"
        "how high is the npu load|does the npu do anything|what's the npu load|at what speed does the npu run|"
        "how many npu cores are busy|what is the state of the npu|is an npu present|how hard is the npu working|"
        "what clock does the npu have|is the neural processor busy|do you have a npu|have you got an npu|"
        "is there an npu on this board|what is the frequency of the npu|which frequency has the npu|"
        "what frequency does the npu have|at what frequency does the npu run|what is the speed of the npu|"
        "at which speed is the npu running|how fast does the npu run|is the npu used|"
        "how busy is the neural processor|what is the neural processor doing|how fast is the neural processor|"
        "is there a neural processor|what is the load of the neural processor",
        "check the npu|show the npu load|show the npu|tell me the npu load|get the npu load|"
        "check the npu frequency|get_npu|call get_npu|use get_npu|look at the npu|report the npu usage|"
        "show npu usage|show the npu frequency|check if the npu is busy|read the npu load|"
        "check how busy the npu is|tell me how fast the npu is|find out if there is an npu|print the npu status|"
        "show the load of the npu|tell me the npu usage|tell me the load of the npu|get the npu usage|"
        "get the npu frequency|show the npu status|read the npu|find the npu|check for an npu|"
        "show the neural processor|check the neural processor|tell me if there is an npu|tell me about the npu",
        "npu|the npu|npu load|the npu load|npu usage|npu frequency|the npu frequency|npu status|the npu status|"
        "load of the npu|the usage of the npu|the state of the npu|npu speed|the npu clock|neural processor load|"
        "frequency of the npu|the frequency of the npu|the npu usage|the neural processor|neural processor|"
        "neural processor usage|status of the npu|usage of the npu|speed of the npu|the npu speed",
        "NPUの負荷は|NPUの使用率を教えて|NPUは忙しいですか|NPUの状態は|NPUはありますか|NPUの周波数は|"
        "NPUを確認して|NPUは使われていますか|NPUの負荷を見せて|NPUの使用率は|NPUは動いていますか|"
        "NPUの状態を教えてください|NPUの速さは|NPUはありませんか|NPUが使われていますか|NPUを使っていますか|"
        "NPUはついていますか|NPUを見せて|NPUの周波数を教えて|NPUの負荷を教えて|NPUの状態を見せて|"
        "NPUについて教えて|NPUはどれくらい忙しいですか",
    ),
    "calculate": Phrasings(
        "what is {sum}|what's {sum}|how much is {sum}|what does {sum} give|what is the result of {sum}|{sum}|"
        "{sum} = |{sum} =|what do you get for {sum}|what is the value of {sum}|how much makes {sum}|"
        "what does {sum} make|what is the sum {sum}|what would {sum} be|{sum} is what|how much would {sum} be|"
        "what is the answer to {sum}|and {sum}|what does {sum} equal|what equals {sum}|what comes out of {sum}|"
        "so what is {sum}|{sum} equals|{sum} makes how much|what is the result of this: {sum}|"
        "how much will {sum} be|what results from {sum}|can you do {sum}|is it true that {sum}|"
        "what number is {sum}|what value has {sum}|so {sum}|then {sum}|and what is {sum}|and how much is {sum}|"
        "plus what is {sum}|ok {sum}|now {sum}|{sum} =?",
        "calculate {sum}|compute {sum}|work out {sum}|solve {sum}|evaluate {sum}|calculate the sum {sum}|"
        "do the sum {sum}|calc {sum}|figure out {sum}|tell me what {sum} is|find {sum}|"
        "calculate expression={sum}|calculate this: {sum}|compute the value of {sum}|use calculate for {sum}|"
        "call calculate with {sum}|add it up: {sum}|do the math: {sum}|give me the result of {sum}|"
        "tell me the result of {sum}|tell me {sum}|calculate for me {sum}|reckon {sum}|give me {sum}|"
        "give me the value of {sum}|give me the answer to {sum}|show the result of {sum}|"
        "show me the result of {sum}|get the result of {sum}|get {sum}|tell me the value of {sum}|"
        "tell me the answer to {sum}|do {sum}|try {sum}|count {sum}|calculate {sum} for me|"
        "compute the result of {sum}|print {sum}|find the result of {sum}|add {sum}|work out the result of {sum}",
        "the result of {sum}|the value of {sum}|the sum of {sum}|the answer to {sum}|result of {sum}|"
        "the outcome of {sum}|a result for {sum}|the results of {sum}|answer to {sum}|value of {sum}|"
        "the total of {sum}|the sum {sum}|sum of {sum}|{sum}|the calculation {sum}",
        "{sum}は|{sum}を計算して|{sum}はいくつですか|{sum}の答えは|計算して：{sum}|{sum}を計算してください|"
        "{sum}はいくら|{sum}の結果は|{sum}の計算をお願いします|{sum}を解いて|{sum}はいくつ|{sum}の値を教えて|"
        "{sum}はいくらですか|{sum}はどうなりますか|{sum}を求めて|{sum}を出して|{sum}の値は|{sum}の答えを教えて|"
        "{sum}の結果を教えて|{sum}を計算してほしい|{sum}をお願いします|{sum}を計算すると",
    ),
    "list_files": Phrasings(
        "what files are there|which files are there|what files do you have|what is in the folder|"
        "what is in this folder|which files can you see|what files are here|what is here|which files do we have|"
        "what is in the directory|what files are in {folder}|which files are in {folder}|what is in {folder}|"
        "what's in {folder}|what does {folder} contain|which files does {folder} have|"
        "what is in the folder {folder}|what files are in the folder {folder}|what lies in {folder}|"
        "what can be found in {folder}|what is inside {folder}|what is in the directory {folder}|"
        "are there files in {folder}|what files does the folder {folder} contain|which files are inside {folder}|"
        "what is stored in {folder}|how many files are in {folder}|what's inside the directory {folder}|"
        "which files live in {folder}|what is stored here|what is stored in this folder|"
        "what is stored in the folder {folder}|what is kept in {folder}|what's inside {folder}|"
        "what's inside the folder {folder}|what's inside the folder|what's in the directory {folder}|"
        "what is inside the directory {folder}|which files are stored in {folder}|"
        "which files are kept in {folder}|which names are in {folder}|what do you have in {folder}|"
        "is there anything in {folder}|what all is in {folder}|what have you got in {folder}|"
        "what lies in the folder {folder}|which files can be found in {folder}",
        "list the files|list files|show the files|show files|list the folder|show me the files|list this folder|"
        "ls|list all files|show all files|list the directory|show the directory|list_files|call list_files|"
        "use list_files|list the files in {folder}|list files in {folder}|show the files in {folder}|"
        "list {folder}|ls {folder}|dir {folder}|list the folder {folder}|show the folder {folder}|"
        "list the contents of {folder}|show what is in {folder}|list_files path={folder}|list_files {folder}|"
        "call list_files with {folder}|look into {folder}|look inside {folder}|list the directory {folder}|"
        "show the directory {folder}|list everything in {folder}|browse {folder}|show me the files of {folder}|"
        "list all files in {folder}|use list_files for {folder}|show the contents of {folder}|show the file list|"
        "show the list of files|show a list of the files|show the file list of {folder}|"
        "show the list of files in {folder}|show the directory listing|show files in {folder}|"
        "show all the files in {folder}|list the files of {folder}|list what is in {folder}|list this directory|"
        "list directory {folder}|list folder {folder}|call list_files for {folder}|call list_files now|"
        "list_files in {folder}|list_files path {folder}|give me the files in {folder}|"
        "tell me which files are in {folder}|tell me what is in {folder}|see what is in {folder}",
        "files|the files|the list of files|all files|a list of files|the files here|directory listing|"
        "the file list|files in {folder}|the files in {folder}|the contents of the folder {folder}|"
        "the list of files in {folder}|all files in {folder}|a list of the files in {folder}|the folder {folder}|"
        "the directory {folder}|a listing of {folder}|contents of {folder}|file list|a file list|"
        "the file list of {folder}|file list of {folder}|list of files|the listing|the listing of {folder}|"
        "the names of the files|the names of the files in {folder}|the files of {folder}|everything in {folder}|"
        "the contents of {folder}",
        "ファイルの一覧を見せて|ファイルを一覧して|どんなファイルがありますか|ファイル一覧|"
        "{folder}のファイルを見せて|{folder}の中身は|{folder}には何がありますか|{folder}の一覧を見せて|"
        "{folder}のファイル一覧|{folder}フォルダを見せて|フォルダの中身を教えて|{folder}にあるファイルを教えて|"
        "{folder}の中のファイルは|ファイルを見せて|{folder}の中を一覧して|{folder}の中身を見せてください|"
        "ファイルの一覧を教えて|ファイル一覧を見せて|{folder}のファイルは|{folder}のファイルを教えて|"
        "{folder}を一覧して|{folder}の中には何がありますか|{folder}の一覧は|{folder}の内容を一覧して|"
        "フォルダの一覧を見せて|どんなファイルがある|{folder}フォルダの中身は",
    ),
    "read_file": Phrasings(
        "what is in the file {path}|what's in the file {path}|what does {path} say|what does the file {path} say|"
        "what is written in {path}|what stands in {path}|what does the file {path} contain|"
        "what is the content of {path}|what are the contents of the file {path}|what text is in {path}|"
        "what is written in the file {path}|what are the first {lines} lines of {path}|"
        "what do the first {lines} lines of {path} say|what is the text of {path}|"
        "what's in the first {lines} lines of {path}|what is written in the first {lines} lines of {path}|"
        "how does {path} begin in {lines} lines|what's written in {path}|"
        "what is in the first {lines} lines of {path}|what is written in the text {path}|"
        "what's written in the file {path}|what's written at the top of {path}|what can be read in {path}|"
        "what is the content of the file {path}|what does {path} contain|what's in the text file {path}|"
        "what are the top {lines} lines of {path}|what do the top {lines} lines of {path} say|"
        "what stands in the first {lines} lines of {path}|what's in the first {lines} lines of the file {path}|"
        "which text is in {path}|what are the contents of {path}",
        "read {path}|read the file {path}|show the file {path}|open {path}|open the file {path}|print {path}|"
        "print the file {path}|cat {path}|read me {path}|read me the file {path}|show me the file {path}|"
        "display {path}|display the file {path}|show the text of {path}|show the content of the file {path}|"
        "read the text in {path}|view {path}|view the file {path}|read_file path={path}|read_file {path}|"
        "call read_file with {path}|use read_file for {path}|read out {path}|"
        "read the first {lines} lines of {path}|show the first {lines} lines of {path}|head -n {lines} {path}|"
        "read {lines} lines of {path}|show {lines} lines of {path}|print the first {lines} lines of {path}|"
        "show me the first {lines} lines of the file {path}|read {path}, {lines} lines|"
        "read_file path={path} lines={lines}|read {lines} lines from {path}|open {path} and show {lines} lines|"
        "read the top {lines} lines of {path}|give me the first {lines} lines of {path}|"
        "display {lines} lines of the file {path}|read_file {path} lines={lines}|"
        "read_file path={path}, lines={lines}|read_file for {path}|call read_file for {path}|"
        "call read_file path={path}|use read_file on {path}|use read_file with {path}|show the content of {path}|"
        "show the contents of the file {path}|show me what is in the file {path}|show me what {path} says|"
        "get the text of {path}|get the file {path}|tell me what is written in {path}|"
        "tell me what the file {path} says|output {path}|type {path}|more {path}|less {path}|head {path}|"
        "show only {lines} lines of {path}|read {lines} lines of the file {path}|"
        "read the file {path} but only {lines} lines|print {lines} lines of {path}",
        "the file {path}|the text of {path}|the text in {path}|the content of the file {path}|"
        "the contents of the file {path}|the first {lines} lines of {path}|the top {lines} lines of {path}|"
        "{lines} lines of {path}|the file named {path}|the first {lines} lines of the file {path}|"
        "the text of the file {path}|text of the file {path}|text of {path}|contents of the file {path}|"
        "content of {path}|{lines} lines of the file {path}|{lines} lines from {path}|"
        "the beginning {lines} lines of {path}|the words in {path}|file {path}",
        "{path}を読んで|{path}を開いて|ファイル{path}を読んで|{path}の内容を見せて|{path}の内容は|"
        "{path}には何と書いてありますか|{path}を読んでください|{path}の最初の{lines}行を見せて|"
        "{path}を{lines}行読んで|{path}のはじめの{lines}行を読んで|ファイル{path}の内容を教えて|{path}を表示して|"
        "{path}の先頭{lines}行を表示して|ファイル{path}を見せて|{path}の本文を見せて|{path}を読んでほしい|"
        "{path}を見せてください|{path}を開いてください|{path}を表示してください|ファイル{path}を開いて|"
        "ファイル{path}を表示して|ファイル{path}の中身を見せて|{path}の文章を見せて|{path}の内容を読んで|"
        "{path}の{lines}行を見せて|{path}の先頭{lines}行を読んで|{path}を{lines}行だけ見せて",
    ),
}
