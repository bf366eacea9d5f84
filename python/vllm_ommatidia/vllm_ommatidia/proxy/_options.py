"""The command line; every option also by an environment variable."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from .._fingerprint import checkpoint_fingerprint

PREFIX = "OMMA_PROXY_"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", text):
        raise argparse.ArgumentTypeError(f"expected http://HOST:PORT or https://, without a user and a query, found {text!r}")
    return text.rstrip("/")


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMG]?)(?:i?B)?", text.strip())
    if not found or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"expected a size such as 256M, found {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _number(kind: type[int] | type[float], low: float, high: float) -> Callable[[str], Any]:
    def read(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = high + 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected {kind.__name__} from {low} to {high}, found {text!r}")
        return value

    return read


def _fingerprint(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("expected 64 hexadecimal digits, as the node's log has them after \"checkpoint\"")
    return text


_SECONDS = _number(float, 0.01, 86400)
_COUNT = _number(int, 1, 1_000_000)

# Group, option, metavar, type, default, help.
_TABLE: tuple[tuple[str, str, str, Callable[[str], Any], Any, str], ...] = (
    ("Servers", "--vllm", "URL", _url, None, "the vLLM that answers"),
    ("Servers", "--checkpoint", "DIR", str, None, "vLLM's model: nodes with other weights are refused (default: all nodes must have the same)"),
    ("Servers", "--fingerprint", "HEX", _fingerprint, None, "the same by the node's fingerprint of the weights, where DIR is not here"),
    ("Servers", "--encoder-api-key-file", "FILE", Path, None, "file whose first line is the nodes' key (default: OMMA_API_KEY)"),
    ("Servers", "--vllm-api-key-file", "FILE", Path, None,
     "file with vLLM's keys, one a line; clients must have one of them, the proxy's own checks use the first (default: VLLM_API_KEY)"),
    ("Listening", "--host", "ADDRESS", str, "127.0.0.1", "address to listen on; 0.0.0.0: all addresses of this machine"),
    ("Listening", "--port", "N", _number(int, 0, 65535), 8000, "port to listen on; 0: any free port"),
    ("Listening", "--ssl-certfile", "FILE", Path, None, "serve HTTPS with this certificate and its chain, in PEM"),
    ("Listening", "--ssl-keyfile", "FILE", Path, None, "private key of --ssl-certfile (default: in --ssl-certfile)"),
    ("Images", "--connect-timeout", "S", _SECONDS, 1.0, "seconds until a node must have accepted a connection; vLLM has ten times that"),
    ("Images", "--encode-timeout", "S", _SECONDS, 30.0, "seconds that a node may take for an image"),
    ("Images", "--encode-timeout-per-mb", "S", _SECONDS, 30.0, "seconds more for each megabyte of its file"),
    ("Images", "--images-per-node", "N", _COUNT, 32, "images that are sent to a node at the same time; others wait here"),
    ("Health", "--health-interval", "S", _SECONDS, 1.0, "seconds between two health checks of a node"),
    ("Health", "--health-timeout", "S", _SECONDS, 1.0, "seconds until a health check fails; two in a row take the node out"),
    ("Health", "--min-out", "S", _SECONDS, 1.0, "seconds that a node is out at least; doubled each time it fails again within a minute"),
    ("Health", "--max-out", "S", _SECONDS, 30.0, "limit of this doubling"),
    ("Health", "--start-timeout", "S", _SECONDS, 1800.0, "seconds that vLLM may take to start"),
    ("Limits", "--max-body-bytes", "SIZE", _size, "256M", "maximum size of a request"),
    ("Limits", "--max-bytes", "SIZE", _size, "256M", "requests that are read at the same time, in bytes; others wait unread"),
    ("Limits", "--max-requests", "N", _COUNT, 1024, "requests that are answered at the same time; others wait unread"),
    ("Limits", "--max-waiting", "N", _COUNT, 16384, "requests that may wait; others get status 503"),
    ("Limits", "--client-timeout", "S", _SECONDS, 30.0, "seconds without a byte of a request's body until it gets status 408"),
    ("Limits", "--vllm-timeout", "S", _SECONDS, 3600.0, "seconds without a byte of vLLM's answer until it is given up"),
    ("Limits", "--shutdown-delay", "S", _number(float, 0, 3600), 0.0, "seconds after SIGTERM in which /health fails and requests are still taken"),
    ("Limits", "--shutdown-timeout", "S", _number(float, 0, 86400), 120.0, "seconds after that in which running answers may end; then they are cut off"),
)
_FLAGS = (
    ("Images", "--trust-media-uuids", "identify an image by the uuid that a client gives instead of by its URL or content"),
    ("Images", "--keep-images", "send vLLM the images too, for models whose class in vLLM takes no image_embeds (Kimi-VL)"),
    ("Health", "--skip-probe", "do not send a small image through a node and vLLM at the start"),
    ("Log", "--log-json", "a line of JSON for each message"),
)


def _variable(option: str) -> str:
    return PREFIX + option.strip("-").upper().replace("-", "_")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="omma-encoder-proxy",
        usage="%(prog)s --encoder URL [--encoder URL...] --vllm URL [options]",
        description="A proxy between clients, encoder nodes (omma serve --mm-encoder-only) and vLLM: the nodes encode the images of "
        "chats, vLLM answers. /health, /live and /metrics are its own; everything else is vLLM's.",
        epilog=f"Each option can be given as a variable: {_variable('--max-requests')}=100. {_variable('--encoder')} is a list with commas. "
        "Keys are not options: OMMA_API_KEY is the nodes' key, VLLM_API_KEY that of vLLM, or files have them.",
    )
    parser.add_argument("--version", action="version", version=f"omma-encoder-proxy {__version__}")
    groups = {name: parser.add_argument_group(name) for name in ("Servers", "Listening", "Images", "Health", "Limits", "Log")}
    groups["Servers"].add_argument("--encoder", action="append", type=_url, metavar="URL", help="an encoder node; may be given again")
    for group, option, metavar, kind, default, text in _TABLE:
        value = f"{default:g}" if isinstance(default, float) else default
        shown = f"{text} (default: {value})" if default is not None else text
        groups[group].add_argument(option, metavar=metavar, type=kind, default=os.environ.get(_variable(option), default), help=shown)
    for group, option, text in _FLAGS:
        on = os.environ.get(_variable(option), "0").lower() not in ("", "0", "no", "false", "off")
        groups[group].add_argument(option, action="store_true", default=on, help=text)
    groups["Log"].add_argument(
        "--log-level", choices=("debug", "info", "warning"), default=os.environ.get(_variable("--log-level"), "info"),
        help="debug adds a line for each request (default: info)",
    )
    return parser


def _read_keys(parser: argparse.ArgumentParser, file: Path | None, variable: str) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file else [os.environ.get(variable, "")]
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{file}: {error}")
    keys = [line.strip() for line in lines if line.strip() and not (file and line.startswith("#"))]
    if file and not keys:
        parser.error(f"{file}: no key")
    if not all(key.isascii() and key.isprintable() for key in keys):
        parser.error(f"{file or variable}: a key has characters that a header cannot have")
    return keys


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """All options; `encoder_key` (or None) and `vllm_keys` are those of the environment and of the
    files. Ends the program with a line where one is wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        listed = [_url(word) for word in os.environ.get(_variable("--encoder"), "").replace(",", " ").split()]
    except argparse.ArgumentTypeError as error:
        parser.error(f"{_variable('--encoder')}: {error}")
    options.encoder = list(dict.fromkeys(options.encoder or listed))
    if not options.encoder or not options.vllm:
        parser.error("--encoder and --vllm are needed")
    if options.checkpoint and options.fingerprint:
        parser.error("--checkpoint and --fingerprint: give one of them")
    if options.max_bytes < options.max_body_bytes:
        parser.error("--max-bytes must not be less than --max-body-bytes")
    if options.checkpoint:
        try:
            options.fingerprint = checkpoint_fingerprint(options.checkpoint)
        except ValueError as error:
            parser.error(f"--checkpoint: {error}")
    options.encoder_key = next(iter(_read_keys(parser, options.encoder_api_key_file, "OMMA_API_KEY")), None)
    options.vllm_keys = _read_keys(parser, options.vllm_api_key_file, "VLLM_API_KEY")
    return options
