/* The formats of strings, as patterns of their whole text. Where PyPI's jsonschema with its
 * "format" extra refuses what an RFC allows, so do these (tests/grammar/test_formats.py). */
#include <string.h>

#include "base/error.h"
#include "grammar/schema_parts.h"

/* ---- times: RFC 3339; durations: ISO 8601 ---- */

#define YEAR "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                                            \
  "(" YEAR                                                                                                              \
  "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR \
  "-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define NUMBER "[0-9]+([.,][0-9]+)?"
#define OPTIONAL(unit) "(" NUMBER unit ")?"
#define AT_LEAST_ONE(a, b, c) "(" NUMBER a OPTIONAL(b) OPTIONAL(c) "|" NUMBER b OPTIONAL(c) "|" NUMBER c ")"
#define CLOCK "T" AT_LEAST_ONE("H", "M", "S")
#define DURATION "[+-]?P((" AT_LEAST_ONE("Y", "M", "D") "|" NUMBER "W)(" CLOCK ")?|" CLOCK ")"

/* ---- hosts ---- */

#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                                   \
  "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":)?" H16 ")?::(" H16 ":){3}" LS32 \
  "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16         \
  ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL ")*"

/* Labels as IDNA 2008 allows them: small letters, composed (NFC), marks only after their letters.
 * One label is of alphabets (Latin, Greek, Cyrillic, Armenian, Georgian) or of one other script,
 * with ASCII. Letters are as many as always fit into the 63 bytes of the encoded label. */
#define LATIN                                                                                                 \
  "\\u00df-\\u00f6\\u00f8-\\u00ff\\u0101\\u0103\\u0105\\u0107\\u0109\\u010b\\u010d\\u010f\\u0111\\u0113"      \
  "\\u0115\\u0117\\u0119\\u011b\\u011d\\u011f\\u0121\\u0123\\u0125\\u0127\\u0129\\u012b\\u012d\\u012f\\u0131" \
  "\\u0135\\u0137-\\u0138\\u013a\\u013c\\u013e\\u0142\\u0144\\u0146\\u0148\\u014b\\u014d\\u014f\\u0151"       \
  "\\u0153\\u0155\\u0157\\u0159\\u015b\\u015d\\u015f\\u0161\\u0163\\u0165\\u0167\\u0169\\u016b\\u016d\\u016f" \
  "\\u0171\\u0173\\u0175\\u0177\\u017a\\u017c\\u017e\\u01a1\\u01b0\\u1ea1\\u1ea3\\u1ea5\\u1ea7\\u1ea9\\u1eab" \
  "\\u1ead\\u1eaf\\u1eb1\\u1eb3\\u1eb5\\u1eb7\\u1eb9\\u1ebb\\u1ebd\\u1ebf\\u1ec1\\u1ec3\\u1ec5\\u1ec7\\u1ec9" \
  "\\u1ecb\\u1ecd\\u1ecf\\u1ed1\\u1ed3\\u1ed5\\u1ed7\\u1ed9\\u1edb\\u1edd\\u1edf\\u1ee1\\u1ee3\\u1ee5\\u1ee7" \
  "\\u1ee9\\u1eeb\\u1eed\\u1eef\\u1ef1\\u1ef3\\u1ef5\\u1ef7\\u1ef9"
#define ALPHABETS LATIN "\\u0390\\u03ac-\\u03ce\\u0430-\\u045f\\u0491\\u0560-\\u0586\\u10d0-\\u10fa"
#define HAN_KANA_HANGUL \
  "\\u3005-\\u3007\\u3041-\\u3096\\u30a1-\\u30fa\\u30fc-\\u30fe\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7a3"
#define HEBREW_ARABIC "\\u05d0-\\u05ea\\u0620-\\u063a\\u0641-\\u064a\\u0671-\\u0674\\u0679-\\u06d3\\u06d5"
#define DEVANAGARI "\\u0904-\\u0939\\u0971-\\u0977"
#define DEVANAGARI_SIGNS "\\u0900-\\u0903\\u093e-\\u094c"
#define THAI "\\u0e01-\\u0e30\\u0e32\\u0e40-\\u0e46"
#define THAI_SIGNS "\\u0e31\\u0e34-\\u0e37\\u0e47\\u0e4c"
#define WORDS(letters, n, n_short) \
  "[" letters "a-z0-9]{1," n "}|[" letters "a-z0-9]{1," n_short "}(-[" letters "a-z0-9]{1," n_short "}){1,2}"
#define SIGNED(letters, signs, last) "[" letters "]" last "([" letters signs "a-z0-9]" last "){0,9}"
#define IDN_LABEL                                                                                            \
  "([A-Za-z0-9](-?[A-Za-z0-9])*|" WORDS(ALPHABETS, "18", "6") "|" WORDS(                                     \
      HAN_KANA_HANGUL, "12", "4") "|[" HEBREW_ARABIC "][" HEBREW_ARABIC                                      \
                                  "0-9]{0,21}|" SIGNED(DEVANAGARI, DEVANAGARI_SIGNS, "\\u094d?") "|" SIGNED( \
                                      THAI, THAI_SIGNS, "[\\u0e38\\u0e39]?[\\u0e48-\\u0e4b]?") ")"
#define IDN_HOST IDN_LABEL "(\\." IDN_LABEL ")*"

#define ATOM(more) "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" more "-]+"
#define EMAIL(more, host) ATOM(more) "(\\." ATOM(more) ")*@" host

/* ---- RFC 3986 and 3987: `more` are the characters that IRIs have beyond those of URIs ---- */

#define UCS_CHARS                                                                                                          \
  "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}\\u{30000}-\\u{3fffd}" \
  "\\u{40000}-\\u{4fffd}\\u{50000}-\\u{5fffd}\\u{60000}-\\u{6fffd}\\u{70000}-\\u{7fffd}\\u{80000}-\\u{8fffd}"              \
  "\\u{90000}-\\u{9fffd}\\u{a0000}-\\u{afffd}\\u{b0000}-\\u{bfffd}\\u{c0000}-\\u{cfffd}\\u{d0000}-\\u{dfffd}"              \
  "\\u{e1000}-\\u{efffd}"
#define PRIVATE_CHARS "\\u{e000}-\\u{f8ff}\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define ENCODED "%[0-9A-Fa-f]{2}"
#define ONE_OF(chars) "([A-Za-z0-9._~!$&'()*+,;=" chars "-]|" ENCODED ")"
#define AUTHORITY(more) \
  "(" ONE_OF(":" more) "*@)?(" ONE_OF(more) "*|\\[(" IPV6 "|v[0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\])(:[0-9]*)?"
#define SEGMENT(more) ONE_OF(":@" more)
#define SEGMENTS(more) "(/" SEGMENT(more) "*)*"
#define NETWORK_PATH(more) "//" AUTHORITY(more) SEGMENTS(more)
#define ENDING(more, private) "(\\?" ONE_OF(":@/?" more private) "*)?(#" ONE_OF(":@/?" more) "*)?"
#define ABSOLUTE(more, private) \
  "[A-Za-z][A-Za-z0-9+.-]*:(" NETWORK_PATH(more) "|/?(" SEGMENT(more) "+" SEGMENTS(more) ")?)" ENDING(more, private)
#define REFERENCE(more, private)                                                                                          \
  ABSOLUTE(more, private)                                                                                                 \
  "|(" NETWORK_PATH(more) "|/(" SEGMENT(more) "+" SEGMENTS(more) ")?|(" ONE_OF("@" more) "+" SEGMENTS(more) ")?)" ENDING( \
      more, private)

/* ---- RFC 6570; RFC 6901 ---- */

#define VARIABLE "[A-Za-z0-9_](\\.?([A-Za-z0-9_]|" ENCODED "))*(:[1-9][0-9]{0,2}|\\*)?"
#define TEMPLATE "([!#$&-;=?-\\[\\]_a-z~" UCS_CHARS PRIVATE_CHARS "]|" ENCODED "|\\{[+#./;?&]?" VARIABLE "(," VARIABLE ")*\\})*"
#define POINTER "(/([^~/]|~[01])*)*"

static const struct schema_format FORMATS[] = {
    {"date", DATE, 0},
    {"time", TIME, 0},
    {"date-time", DATE "[Tt]" TIME, 0},
    {"duration", DURATION, 0},
    {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", 0},
    {"email", EMAIL("", HOST), 254},
    {"idn-email", EMAIL("\\u{80}-\\u{10ffff}", IDN_HOST), 254},
    {"hostname", HOST "\\.?", 253},
    {"idn-hostname", IDN_HOST, 56},
    {"ipv4", IPV4, 0},
    {"ipv6", IPV6, 0},
    {"uri", ABSOLUTE("", ""), 0},
    {"iri", ABSOLUTE(UCS_CHARS, PRIVATE_CHARS), 0},
    {"uri-reference", REFERENCE("", ""), 0},
    {"iri-reference", REFERENCE(UCS_CHARS, PRIVATE_CHARS), 0},
    {"uri-template", TEMPLATE, 0},
    {"json-pointer", POINTER, 0},
    {"relative-json-pointer", "([1-9]*0|[1-9]+)(#|" POINTER ")", 0},
    {"byte", "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", 0},
};

enum omma_status ommai_schema_format(struct schema_context *context, const struct schema_part *part, const char *name,
                                     const struct schema_format **format) {
  *format = NULL;
  for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
    if (!strcmp(FORMATS[i].name, name)) return *format = &FORMATS[i], OMMA_OK;
  }
  for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
    if (!ommai_schema_is_slip(name, FORMATS[i].name)) continue;
    return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "format",
                             "the format \"%.40s\" is not known: is \"%s\" meant?", name, FORMATS[i].name);
  }
  if (strcmp(name, "regex")) return OMMA_OK;
  return ommai_schema_fail(context, OMMA_ERROR_UNSUPPORTED, part->path, "format", "the format \"%.40s\" is not supported",
                           name);
}
