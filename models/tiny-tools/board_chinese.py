"""How people ask for the board server's tools in Chinese: whole requests by tool, parted by bars.

It knows no values: the slots are those of `board_phrasings.py`.
"""

CHINESE: dict[str, str] = {
    "get_time": (
        "{place}现在几点|{place}现在几点了|现在{place}几点|现在{place}几点了|{place}几点了|{place}几点|{place}的时间|"
        "{place}现在的时间|{place}时间是多少|现在{place}时间是多少|{place}现在是什么时间|{place}现在是几点|"
        "告诉我{place}的时间|查一下{place}的时间|看看{place}现在几点|{place}的当前时间|{place}当地时间是多少|"
        "{place}的当地时间|{place}今天几号|{place}今天星期几|{place}的日期|{place}是什么时候了|显示{place}的时间|"
        "{place}那边几点了|{place}那里现在几点|请问{place}几点|想知道{place}的时间|{place}现在是早上吗|"
        "{place}现在是晚上吗|现在几点|现在几点了|几点了|现在是几点|现在的时间|现在是什么时间|今天几号|今天星期几|"
        "今天的日期|告诉我时间|看一下时间|当前时间|现在时间是多少"
    ),
    "get_temperature": (
        "CPU温度|CPU温度是多少|CPU温度多少|CPU多少度|处理器的温度|处理器多热|处理器温度是多少|板子的温度|板子多热|"
        "板子热吗|板子烫吗|芯片的温度|芯片多少度|芯片热不热|温度是多少|现在温度多少|看一下温度|查一下温度|显示温度|"
        "机器热吗|机器有多热|过热了吗|有没有过热|告诉我CPU的温度|主板温度|各个传感器的温度|温度传感器说什么|"
        "这台机器多少度|你热吗|散热怎么样"
    ),
    "get_memory": (
        "内存用了多少|内存还剩多少|还有多少内存|内存使用情况|内存情况|内存够吗|内存够不够|剩余内存|空闲内存|空闲内存有多少|"
        "可用内存是多少|看一下内存|查一下内存|显示内存|告诉我内存使用量|内存占用|内存占用多少|现在内存怎么样|内存满了吗|"
        "一共有多少内存|总内存是多少|用了多少内存|RAM还剩多少|RAM用了多少|还剩多少RAM|内存状态"
    ),
    "get_disk": (
        "磁盘还剩多少|磁盘空间|磁盘空间还有多少|磁盘空间够吗|还有多少磁盘空间|磁盘使用情况|磁盘满了吗|硬盘还剩多少空间|"
        "硬盘满了吗|硬盘空间|剩余空间有多少|还有多少空间|存储空间还剩多少|查一下磁盘|看一下磁盘空间|显示磁盘使用量|"
        "磁盘用了多少|告诉我磁盘的剩余空间|{mount}还剩多少空间|{mount}的磁盘空间|{mount}满了吗|{mount}有多少空闲空间|"
        "查一下{mount}的磁盘空间|{mount}的磁盘使用情况|看看{mount}还有多少空间|{mount}用了多少"
    ),
    "get_load": (
        "系统负载|系统负载是多少|CPU负载|CPU负载是多少|CPU忙吗|处理器忙吗|处理器有多忙|机器忙吗|机器忙不忙|负载高吗|"
        "负载怎么样|看一下负载|查一下负载|显示负载|告诉我系统负载|CPU使用率|CPU用了多少|运行了多久|开机多久了|"
        "机器开了多久|运行时间|系统运行多长时间了|平均负载|平均负载是多少|现在负载多少|从启动到现在多久了"
    ),
    "get_npu": (
        "NPU负载|NPU忙吗|NPU在用吗|NPU使用率|NPU用了多少|NPU的状态|NPU状态怎么样|NPU频率|NPU的频率是多少|NPU有多忙|"
        "看一下NPU|查一下NPU|显示NPU的负载|告诉我NPU的情况|NPU情况|现在NPU怎么样|有没有NPU|NPU跑得怎么样|"
        "NPU核心的负载|NPU现在多少频率|NPU空闲吗"
    ),
    "calculate": (
        "{sum}|{sum}等于多少|{sum}是多少|{sum}=?|{sum}等于几|{sum}得多少|计算{sum}|计算一下{sum}|算一下{sum}|算算{sum}|"
        "帮我算{sum}|求{sum}|求{sum}的结果|{sum}的结果|{sum}的结果是多少|告诉我{sum}的结果|算出{sum}|请问{sum}是多少|"
        "{sum}怎么算|{sum}的答案"
    ),
    "list_files": (
        "有哪些文件|这里有哪些文件|列出文件|显示文件列表|文件列表|看看有什么文件|都有什么文件|当前目录有哪些文件|"
        "列出当前目录的文件|{folder}里有哪些文件|{folder}里有什么|{folder}下有哪些文件|列出{folder}的文件|"
        "列出{folder}里的文件|显示{folder}的内容|显示{folder}里的文件|看看{folder}里有什么|{folder}的文件列表|"
        "{folder}中的文件|查看{folder}里的文件|打开文件夹{folder}|文件夹{folder}里有什么|目录{folder}里有什么|"
        "告诉我{folder}里有哪些文件|{folder}目录的内容"
    ),
    "read_file": (
        "读{path}|读一下{path}|读取{path}|打开{path}|看看{path}|查看{path}|显示{path}|显示{path}的内容|{path}的内容|"
        "{path}里写了什么|{path}里有什么内容|读取文件{path}|打开文件{path}|把{path}给我看看|给我看{path}|"
        "告诉我{path}的内容|文件{path}的内容是什么|{path}写的是什么|读{path}的前{lines}行|显示{path}的前{lines}行|"
        "看{path}的前{lines}行|{path}的前{lines}行|{path}前{lines}行是什么|给我看{path}的前{lines}行|"
        "打开{path}，只看前{lines}行|读取{path}的开头{lines}行"
    ),
}
