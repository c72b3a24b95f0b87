# Long word lists are easier to read and to add to as one text that is split.
# ruff: noqa: SIM905
"""Words and phrasings for tools drawn at random: things, parameters, descriptions, and how people ask for them.

It knows no values; `{v1}` and `{v2}` are filled elsewhere, `{p1}` and `{p2}` are names of parameters.
"""

THINGS = (
    "weather order light user ticket price stock rate level score news event room door window lamp alarm timer "
    "train bus flight ship parcel invoice customer product note task message mail contact song album film book "
    "recipe meal menu table plant tree river lake road bridge car bike battery sensor camera printer pump valve "
    "motor fan heater wind rain snow pressure humidity depth height speed weight length power voltage current "
    "signal color volume channel station airport hotel museum school shop market farm garden kitchen roof wall "
    "floor page record version branch build release commit package service process log job queue backup account "
    "balance payment loan budget tax currency salary doctor patient medicine course lesson exam grade team player "
    "match league goal race ticket seat forecast traffic noise dust pollen smoke gas water energy moon sun star "
    "planet wave storm delivery stream schedule member"
).split()
PARAMETERS = (
    "city name id place key date day station room user code title number region country street zone site port item "
    "product customer team topic subject color size level mode unit currency language format target source account "
    "group type kind owner tag label device sensor channel address path url query text value amount limit count page "
    "year month hour week start end track floor side area lake river road line train airport"
).split()
LOOKUPS = "get find show read check fetch lookup query describe measure tell count".split()
ACTIONS = "set add start stop open close send create delete update turn move book mark play run make cancel".split()
ASPECTS = "height level status number value state details list history position amount name".split()
CITY_LIKE = set("city place station region country zone airport area site port lake river".split())
NUMBER_LIKE = set("id number amount limit count page year level size hour floor track value".split())
ABOUT = {
    0: (
        "{Verb} the {thing}|{Thing}|Current {thing}|The {thing} now|{Thing} {aspect}|{Verb} {thing}|"
        "All about the {thing}"
    ),
    1: (
        "{Thing} in a {p1}|{Thing} at a {p1}|{Thing} of a {p1}|{Thing} for a {p1}|{Verb} the {thing} of a {p1}|"
        "{Thing} {aspect} at a {p1}|{Thing} {aspect} of a {p1}|{Verb} a {thing} by {p1}|{Verb} {thing}|"
        "{Current} {thing} by {p1}|{Verb} the {thing} for the given {p1}|Returns the {thing} for a {p1}|"
        "{Thing} {aspect} in a {p1}|{Verb} the {thing} {aspect}|{Aspect} of the {thing} at a {p1}|"
        "{Aspect} of the {thing} in a {p1}|The {thing} {aspect} of one {p1}|Tells the {thing} of a {p1}|"
        "What the {thing} is at a {p1}|The {thing} at the {p1}, {word}|{Word} {thing} at a {p1}|"
        "How {word} the {thing} is in a {p1}"
    ),
    2: "{Verb} the {thing} of a {p1} with a {p2}|{Thing} for a {p1} and {p2}|{Verb} {thing}|{Thing} by {p1} and {p2}|"
    "{Verb} a {thing} with {p1} and {p2}|{Thing} {aspect} of a {p1}, by {p2}|{Verb} the {thing}",
}
QUESTIONS_BARE = (
    "what is the {thing}|what's the {thing}|how is the {thing}|what is the {thing} now|what is the current {thing}|"
    "what does the {thing} say|is there a {thing}|which {thing} is it|what about the {thing}|do we have a {thing}|"
    "what is the {thing} {aspect}|what is the {aspect} of the {thing}"
)
COMMANDS_BARE = (
    "{verb} the {thing}|{verb} {thing}|{tool}|call {tool}|use {tool}|run {tool}|{tool} now|{verb} a {thing}|"
    "{verb} the {thing} {aspect}|{verb} my {thing}|tell me the {thing}|show me the {thing}|check the {thing}"
)
NOUNS_BARE = "the {thing}|{thing}|current {thing}|the current {thing}|{thing} {aspect}|the {aspect} of the {thing}"
QUESTIONS_ONE = (
    "what is the {thing} in {v1}|what is the {thing} at {v1}|what is the {thing} of {v1}|"
    "what is the {thing} for {v1}|what's the {thing} in {v1}|how is the {thing} in {v1}|how is the {thing} at {v1}|"
    "what {thing} does {v1} have|which {thing} is in {v1}|what is the {thing} {aspect} at {v1}|"
    "what is the {aspect} of the {thing} in {v1}|what is the {thing} for {p1} {v1}|how high is the {thing} in {v1}|"
    "how much {thing} is there in {v1}|is there {thing} in {v1}|what is {v1}'s {thing}|"
    "what is the current {thing} in {v1}|what about the {thing} of {v1}|what is the {thing} when the {p1} is {v1}|"
    "what is the {thing} of the {p1} {v1}|how big is the {thing} at {v1}"
)
COMMANDS_ONE = (
    "{verb} the {thing} of {v1}|{verb} the {thing} in {v1}|{verb} the {thing} for {v1}|{verb} {thing} {v1}|"
    "{verb} the {thing} {v1}|{tool} {p1}={v1}|{tool} {v1}|{tool} {p1}={v1}|call {tool} with {p1} {v1}|"
    "call {tool} with {p1}={v1}|use {tool} for {v1}|{tool} for {v1}|{tool} with {p1} {v1}|{verb} {thing} at {v1}|"
    "{verb} a {thing} with {p1} {v1}|{verb} the {thing} at {v1}|{verb} {thing} by {p1} {v1}|{verb} {thing}, {p1} {v1}|"
    "check the {thing} in {v1}|look up the {thing} of {v1}|run {tool} {p1}={v1}|{tool} {p1}: {v1}|call {tool} for {v1}|"
    "tell me the {thing} in {v1}|show me the {thing} at {v1}|give me the {thing} for {v1}|use {tool} with {v1}"
)
NOUNS_ONE = (
    "{thing} in {v1}|{thing} at {v1}|{thing} of {v1}|{thing} for {v1}|{thing} {v1}|the {thing} in {v1}|"
    "the {thing} at {v1}|the {thing} of {v1}|{v1} {thing}|{thing} {aspect} at {v1}|{thing} {aspect} of {v1}|"
    "the {thing} {aspect} in {v1}|the current {thing} at {v1}|{thing} for {p1} {v1}|the {thing} of {p1} {v1}|"
    "{thing}, {v1}"
)
QUESTIONS_TWO = (
    "what is the {thing} of {v1} with {p2} {v2}|what is the {thing} for {v1} and {v2}|"
    "what is the {thing} in {v1} with {p2} {v2}|what is the {thing} for {p1} {v1} and {p2} {v2}|"
    "what's the {thing} at {v1}, {p2} {v2}|how is the {thing} in {v1} for {v2}"
)
COMMANDS_TWO = (
    "{tool} {p1}={v1} {p2}={v2}|call {tool} with {p1} {v1} and {p2} {v2}|{verb} the {thing} {v1} to {v2}|"
    "{verb} {thing} {v1} {v2}|{verb} the {thing} of {v1} to {v2}|{tool} {v1} {v2}|"
    "{verb} the {thing} for {v1} with {p2} {v2}|{verb} {thing} {v1} with {p2} {v2}|{tool} {p1}={v1}, {p2}={v2}|"
    "{verb} a {thing} with {p1} {v1} and {p2} {v2}|use {tool} with {p1}={v1} and {p2}={v2}|"
    "{verb} {thing} with {p1} {v1}, {p2} {v2}|{verb} the {thing} {v1}, {p2} {v2}"
)
NOUNS_TWO = (
    "{thing} {v1} {p2} {v2}|{thing} of {v1} for {v2}|the {thing} for {v1} and {v2}|{thing} in {v1} with {p2} {v2}"
)
NAMED_REST = [" with {p} {v}", ", {p} {v}", " {p}={v}", " and {p} {v}"]
JAPANESE = {
    0: "{thing}を教えて|{thing}は|{thing}を見せて|{tool}を呼んで|今の{thing}は|{thing}を確認して",
    1: (
        "{v1}の{thing}は|{v1}の{thing}を教えて|{v1}の{thing}を見せて|{tool} {p1}={v1}|{thing}を{v1}で調べて|"
        "{v1}の{thing}を確認して"
    ),
    2: (
        "{v1}と{v2}の{thing}を教えて|{tool} {p1}={v1} {p2}={v2}|{v1}の{thing}を{v2}にして|"
        "{p1} {v1}、{p2} {v2}の{thing}は"
    ),
}
CORES = {
    0: {"questions": QUESTIONS_BARE, "commands": COMMANDS_BARE, "nouns": NOUNS_BARE},
    1: {"questions": QUESTIONS_ONE, "commands": COMMANDS_ONE, "nouns": NOUNS_ONE},
    2: {"questions": QUESTIONS_TWO, "commands": COMMANDS_TWO, "nouns": NOUNS_TWO},
}
