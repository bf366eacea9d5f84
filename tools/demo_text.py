"""Words, numbers and fonts for the demo model's images.

Fonts come from Debian packages with free licences and are not shipped: fonts-dejavu-core,
fonts-liberation, fonts-freefont-ttf, fonts-roboto-unhinted, fonts-open-sans, fonts-lato,
fonts-crosextra-carlito; for the fonts that training never sees fonts-noto-core,
fonts-crosextra-caladea, fonts-cantarell, fonts-inconsolata, fonts-linuxlibertine.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass

import numpy as np
from PIL import ImageFont

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CHARACTERS = LETTERS + "0123456789"
LONGEST = 7  # letters of a word, digits of a number

FONT_ROOT = "/usr/share/fonts/"
# The first ones are also the first that training shows.
SEEN_FONTS = (
    "truetype/dejavu/DejaVuSans-Bold.ttf",
    "truetype/liberation/LiberationSans-Regular.ttf",
    "truetype/dejavu/DejaVuSans.ttf",
    "truetype/liberation/LiberationSerif-Bold.ttf",
    "truetype/freefont/FreeSansBold.ttf",
    "truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf",
    "truetype/dejavu/DejaVuSerif.ttf",
    "truetype/open-sans/OpenSans-Semibold.ttf",
    "truetype/lato/Lato-Bold.ttf",
    "truetype/liberation/LiberationSerif-Regular.ttf",
    "truetype/liberation/LiberationMono-Bold.ttf",
    "truetype/freefont/FreeSerifBold.ttf",
    "truetype/crosextra/Carlito-Bold.ttf",
    "truetype/dejavu/DejaVuSansMono.ttf",
    "truetype/dejavu/DejaVuSerif-Bold.ttf",
    "truetype/open-sans/OpenSans-Regular.ttf",
)
UNSEEN_FONTS = (
    "truetype/noto/NotoSans-Regular.ttf",
    "truetype/noto/NotoSans-Bold.ttf",
    "truetype/noto/NotoSerif-Regular.ttf",
    "truetype/crosextra/Caladea-Bold.ttf",
    "opentype/cantarell/Cantarell-Bold.otf",
    "truetype/inconsolata/Inconsolata.otf",
    "opentype/linux-libertine/LinLibertine_RB.otf",
)

WORDS = """
ABLE ACID AGE AIR ALARM APPLE ARM ART AUTUMN BABY BACK BADGE BAG BAKER BALL BAND BANK BARN BASKET BATH BEACH BEAR BED
BEE BELL BENCH BIKE BIRD BOAT BODY BONE BOOK BOTTLE BOX BOY BRAIN BREAD BRICK BRIDGE BROOM BRUSH BUS BUTTER CABLE CAGE
CAKE CAMEL CAMP CANDLE CAR CARD CARROT CASTLE CAT CAVE CHAIR CHALK CHEESE CHEF CHESS CHIN CHURCH CINEMA CIRCLE CITY
CLOCK CLOSED CLOUD COAT COFFEE COIN COLD COMB COOK COPPER CORN COW CRAB CROWN CUP DANCE DARK DAY DEER DESK DIAMOND DOG
DOOR DOVE DRAGON DREAM DRESS DRUM DUCK EAGLE EAR EARTH EAST EGG ELBOW ENGINE EXIT EYE FACE FARM FENCE FIELD FIRE FISH
FLAG FLOOR FLOWER FLUTE FLY FOG FOOD FOOT FOREST FORK FOX FRIEND FROG FRUIT GAME GARDEN GATE GHOST GIANT GIRL GLASS
GLOVE GOAT GOLD GRAPE GRASS GUITAR HAIR HAMMER HAND HAT HAWK HEART HILL HONEY HORSE HOTEL HOUSE ICE INK IRON ISLAND JAM
JAR JEWEL JOB JUICE JUNGLE KETTLE KEY KING KITE KNEE KNIFE LADDER LAKE LAMP LAND LEAF LEMON LETTER LIGHT LION LIP LOCK
LUNCH MAP MARKET MASK MEAL MELON METAL MILK MINT MIRROR MONEY MONKEY MOON MOTOR MOUSE MUSIC NAIL NECK NEST NET NIGHT
NORTH NOSE NUT OAK OCEAN OFFICE OIL ONION OPEN ORANGE OVEN OWL PAINT PALACE PAPER PARK PEACH PEAR PEN PENCIL PEPPER
PIANO PIE PIG PILOT PIZZA PLANE PLANT PLATE POCKET POND PONY POTATO PRINCE PULL PUPPY PUSH QUEEN QUIET RABBIT RADIO
RAIN RICE RING RIVER ROAD ROBOT ROCK ROCKET ROOF ROOM ROPE ROSE RULER SAIL SALT SAND SCHOOL SEA SHEEP SHELF SHIP SHIRT
SHOE SHOP SILK SILVER SKY SNAIL SNAKE SNOW SOAP SOCK SOFA SOUP SOUTH SPIDER SPOON SPRING STAMP STAR STATION STEP STONE
STOP STORM STREET SUGAR SUMMER SUN SWAN TABLE TAIL TAXI TEA TENT THUMB TICKET TIGER TOMATO TOOTH TOWEL TOWER TOWN TOY
TRAIN TREE TRUCK TULIP UNCLE VALLEY VASE VIOLIN VOICE WAGON WALL WATCH WATER WAVE WEST WHALE WHEAT WHEEL WIND WINDOW
WINE WINTER WOLF WOOD WOOL WORLD YARN YEAR ZEBRA ZERO ZOO
""".split()
# Training never shows these; they ask whether words are read or remembered.
HELD_OUT_WORDS = tuple(word for word in WORDS if zlib.crc32(word.encode()) % 5 == 0)
SHOWN_WORDS = tuple(word for word in WORDS if zlib.crc32(word.encode()) % 5 != 0)


@functools.lru_cache(maxsize=2000)
def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONT_ROOT + name, size)


@functools.lru_cache(maxsize=2000)
def ink(name: str, size: int, string: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of what is drawn, from where Pillow starts to draw."""
    return font(name, size).getbbox(string)


@dataclass(frozen=True)
class Text:
    """One line of capitals or digits; (x, y) is the upper left corner of its ink, in pixels."""

    string: str
    colour: str
    font: str
    size: int
    x: float
    y: float

    def extent(self) -> tuple[float, float]:
        left, top, right, bottom = ink(self.font, self.size, self.string)
        return right - left, bottom - top

    def box(self) -> tuple[float, float, float, float]:
        width, height = self.extent()
        return self.x, self.y, self.x + width, self.y + height

    def characters(self) -> list[tuple[str, tuple[float, float, float, float]]]:
        """Each character with the box that its advance covers."""
        face = font(self.font, self.size)
        left = ink(self.font, self.size, self.string)[0]
        ends = [self.x - left + face.getlength(self.string[:i]) for i in range(len(self.string) + 1)]
        top, bottom = self.y, self.y + self.extent()[1]
        return [(c, (ends[i], top, ends[i + 1], bottom)) for i, c in enumerate(self.string)]

    def origin(self) -> tuple[float, float]:
        """Where Pillow must start to draw so that the ink begins at (x, y)."""
        left, top, _, _ = ink(self.font, self.size, self.string)
        return self.x - left, self.y - top


def random_word(rng: np.random.Generator, shortest: int, longest: int, held_out: bool = False) -> str:
    """Half of the words are English, half are chance letters, which cannot be guessed from a few of
    them."""
    length = int(rng.integers(shortest, longest + 1))
    if rng.random() < 0.5 and length > 2:
        words = HELD_OUT_WORDS if held_out else SHOWN_WORDS
        fitting = [word for word in words if len(word) == length]
        return fitting[int(rng.integers(len(fitting)))]
    return "".join(LETTERS[i] for i in rng.integers(0, 26, length))


def random_number(rng: np.random.Generator, shortest: int, longest: int) -> str:
    """Digits without a leading zero."""
    length = int(rng.integers(shortest, longest + 1))
    return str(rng.integers(1, 10)) + "".join(str(d) for d in rng.integers(0, 10, length - 1))


def fitted(string: str, colour: str, name: str, size: int, width: float, height: float) -> Text | None:
    """The text at the origin, made smaller until it fits into width x height; None below 13
    pixels."""
    while size >= 13:
        text = Text(string, colour, name, size, 0, 0)
        extent = text.extent()
        if extent[0] <= width and extent[1] <= height:
            return text
        size = min(size - 1, int(size * min(width / extent[0], height / extent[1])))
    return None
