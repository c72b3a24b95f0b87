"""Which language with Latin letters a sentence is in, as its little words say."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["find_latin_language"]

_WORD = re.compile(r"[^\W\d_]+")
_LITTLE_WORDS: Mapping[str, str] = {
    "en": """
        a about and any are be but can come did do does for from got has have how i if is it its let me much my of
        on or please some that the their there these they this those to what when where which who why will with
        would you your
    """,
    "de": """
        auch auf aus bei bis das dem den der des die dir du ein eine einen er es für gibt ich im ist kann kein mein
        meine mich mir mit nach nicht noch oder sie sind und vom von wann war warum was welche welchen welcher
        welches wem wer wie wir wird wo zu zum zur über
    """,
    "fr": """
        au aux avec c'est ce ces combien dans de des du elle en est et il je la le les ma mes mon ne nous ou où par
        pas pour quand que quel quelle quels qui sont sur un une vous
    """,
    "es": """
        al como con cuál cuándo cuánto cuántos de del dónde el ella en es está están hay la las lo los me mi mis no
        para por que quién qué se su un una y yo
    """,
    "it": """
        al alla che chi come con da dei del della di dove gli ho il io la le lo mi mia mio nel non per qual quale
        quando quanti quanto sono un una è
    """,
    "pt": """
        ao com como da de do dos e em está eu há meu minha na no não o onde os para por qual quando quanto quantos
        que quem se sua um uma é
    """,
    "nl": """
        aan als bij dat de een en er het hoe hoeveel ik is kan met mijn naar niet of om op van voor waar wanneer wat
        welke wie zijn
    """,
}


def find_latin_language(text: str) -> str:
    """Return the code of the language that has the most of the little words of a text; "" for none, or two.

    >>> [*map(find_latin_language, ("Wie warm ist es im Bad?", "Where is it?", "Oslo?", "東京は？"))]
    ['de', 'en', '', '']
    """
    words = {*_WORD.findall(text.casefold())}
    counts = {language: len(words & {*little.split()}) for language, little in _LITTLE_WORDS.items()}
    most = max(counts.values())
    found = [language for language, count in counts.items() if count == most]
    return found[0] if most and len(found) == 1 else ""
