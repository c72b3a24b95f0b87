"""Tests of the chat at a terminal, and the format of recorded sessions: keys and the screens that follow.

Each .txt file here is a session that `test_sessions.py` replays on the real program in a pseudo terminal. To record
them again after a change of the screens, and to review the difference:

    pytest -n0 tests/tui/test_sessions.py --record            (-k NAME for one)
    git diff tests/tui

A file begins with a sentence and a header:

    size: 80x24                   of the terminal (default)
    arguments: --no-servers       of rkllm-chat, behind the model; harbour.toml names the server of harbour.py
    readme: harbour.py            a file with the README's program, which can be run

    [reply]  [reply, then silence]  the lines that follow are a reply of the scripted model (none: the small one)

After a line `---` follow the steps, one per line:

    $ hello<Enter>      keys
    ? Hello.            wait until the screen contains this text
    ?$ stop:            wait until a line of the screen ends with this text
    ?>                  wait for the prompt
    =                   the screen; its lines follow, each after a bar

Values that differ between runs are recorded as N (seconds, speeds), X (versions), FOLDER, PYTHON and SESSION.
"""
