"""The stand-in's own tokenizer and its texts: five languages, and source code. The router shares
none of it.

Words are cut by script, as a tokenizer that was trained on much English does: long pieces of
English, shorter ones elsewhere. Pure.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from msgspec import Struct

# By script: a space and the letters that follow it are one token, up to so many letters.
_TOKEN = re.compile(
    r" ?[A-Za-z]{1,6}"
    r"| ?[\u00c0-\u024f]{1,2}"
    r"| ?[\u0400-\u04ff]{1,4}"
    r"| ?[\u0900-\u097f]{1,3}"
    r"|[\u4e00-\u9fff]"
    r"| ?[0-9]{1,3}"
    r"|\s+"
    r"| ?[^\sA-Za-z0-9]"
)


class Piece(Struct, frozen=True):
    """What a stream sends at once, and how many tokens it is."""

    text: str
    tokens: int


def list_tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def count_tokens(text: str) -> int:
    return len(list_tokens(text))


def split_pieces(text: str, count: int, seed: int) -> list[Piece]:
    """So many pieces from a place in the text that the seed chooses: mostly a token each, by some
    seeds several.
    """
    dice, tokens = Random(seed), list_tokens(text)
    most = (1, 1, 1, 3, 6)[seed % 5]
    at = dice.randrange(len(tokens))
    pieces = []
    for _ in range(count):
        size = dice.randint(1, most)
        some = [tokens[(at + place) % len(tokens)] for place in range(size)]
        pieces.append(Piece("".join(some), size))
        at += size
    return pieces


TEXTS = {
    "english": (
        "The harbour was quiet when the first boats came in. Fishermen carried their "
        "crates to the market hall, where "
        "buyers were already waiting, and by seven o'clock most of the catch had been "
        "sold. An old man who repaired nets "
        "at the quay said that in his youth there were 40 boats; today there are 12, and "
        "half of them take tourists out "
        "to the lighthouse. Nobody could tell him whether the new regulations, which had "
        "been announced in March, would "
        "change anything. He shrugged, tied another knot and looked at the clouds over the "
        "western hills. "
    ),
    "german": (
        "Am Morgen lag Nebel über dem Fluss, und die Fähre verspätete sich um zwanzig "
        "Minuten. Auf der anderen Seite "
        "warteten Schülerinnen mit ihren Fahrrädern, ein Handwerker mit schwerer "
        "Werkzeugkiste und eine ältere Dame, die "
        "ihre Enkel besuchen wollte. Die Brücke, die der Gemeinderat seit Jahren "
        "verspricht, wird frühestens 2031 "
        "fertig; bis dahin bleibt die Überfahrt ein Geduldsspiel. Wer es eilig hat, nimmt "
        "den Umweg über die "
        "Bundesstraße, der ungefähr fünfzehn Kilometer länger ist. "
    ),
    "russian": (
        "Осенью дорога к деревне становится непроезжей, и почту привозят только раз в "
        "неделю. Жители запасают дрова, "
        "сушат грибы и варят варенье из брусники, которую собирают на болотах за рекой. "
        "Учительница рассказывает, что в "
        "школе осталось 9 учеников, но каждый вечер в библиотеке собираются взрослые: "
        "читают вслух, спорят о новостях "
        "и пьют чай. Зимой здесь так тихо, что слышно, как падает снег. "
    ),
    "chinese": (
        "清晨的菜市场已经很热闹了。卖豆腐的老人把摊子摆在门口，旁边是一位从乡下来的妇女，她带来了两筐新鲜的青菜和一些鸡蛋。"
        "学生们匆匆走过，买一个包子就去上课。到了中午，人渐渐少了，摊主们坐在一起下棋、聊天，谈论今年的雨水和庄稼。"
        "下午5点以后，下班的人又来买菜，街上重新热闹起来。 "
    ),
    "hindi": (
        "सुबह होते ही गाँव के कुएँ पर लोग इकट्ठा हो जाते हैं। कोई पानी भरता है, कोई खेत की "
        "बात करता है, और बच्चे पेड़ के नीचे "
        "खेलते हैं। इस साल बारिश देर से आई, इसलिए किसानों ने 3 सप्ताह बाद बुवाई की। शाम को "
        "बुज़ुर्ग चबूतरे पर बैठकर पुरानी कहानियाँ "
        "सुनाते हैं और हर कोई ध्यान से सुनता है। "
    ),
    "code": Path(__file__).with_name("bill.py").read_text(),
}
