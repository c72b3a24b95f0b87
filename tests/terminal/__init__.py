"""Recorded sessions: what a person types at the chat, and the screens that he then sees.

Each file here that ends in .txt is one session, played on the real program in a real pseudo terminal by
`test_sessions.py`. A change of the chat changes screens; to write them anew, and then read the difference:

    pytest tests/terminal/test_sessions.py --record            (-k NAME for one)
    git diff tests/terminal

A file begins with a sentence, then says what there is before the program starts:

    size: 80x24                   the terminal; this where nothing is said
    arguments: --no-servers       of rkllm-chat, behind the model
    variables: NO_COLOR=1         of the environment
    files: harbour.py             copied from this folder
    picture: talk.svg             the last screen as a picture

    [reply]  [reply, then silence]  the lines that follow are a reply of the scripted model; without any of these the
                                    small model answers
    [file NAME]                     the lines that follow are a file

and goes on behind a line `---` with what happens, a line each:

    $ hello<Enter>      keys
    ? Hello.            until this is on the screen
    ?$ stop:            until a line on the screen ends so
    ?>                  until a line is waited for and nothing runs
    > 40x10             the terminal gets another size
    ! go                an empty file appears in the folder
    =                   the screen as it comes to stand; its lines follow, each behind a bar
    x 0                 the program ends with this code

What differs from run to run is written as N (seconds, speeds), X (versions), and by the names of places.
"""
