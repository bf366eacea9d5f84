#!/usr/bin/env python3
"""Turns the parquet files of a data set from the Hugging Face hub into JSONL files that `omma bench
serve --dataset-name hf` reads.

Every file SOURCE/**/NAME.parquet becomes OUT/NAME.jsonl, a row per line; bytes (images are
{"bytes", "path"}) become base64. Needs pyarrow."""

import argparse
import base64
import json
import pathlib
import sys

try:
    import pyarrow.parquet
except ImportError:
    pyarrow = None


def plain(value):
    """What JSON cannot hold, in a form that it can."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def convert(source, target, limit):
    n_rows = 0
    with target.open("w", encoding="utf-8") as out:
        for batch in pyarrow.parquet.ParquetFile(source).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                if n_rows == limit:
                    return n_rows
                out.write(json.dumps(plain(row), ensure_ascii=False) + "\n")
                n_rows += 1
    return n_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path, help="directory with parquet files, or one of them")
    parser.add_argument("out", type=pathlib.Path, help="directory for the JSONL files")
    parser.add_argument("--split", help="only files whose name begins with this, such as train")
    parser.add_argument("--limit", type=int, default=-1, help="rows per file at most")
    arguments = parser.parse_args()
    if pyarrow is None:
        sys.exit("parquet_to_jsonl: pyarrow is missing: python3 -m pip install pyarrow")
    files = [arguments.source] if arguments.source.is_file() else sorted(arguments.source.rglob("*.parquet"))
    files = [path for path in files if path.name.startswith(arguments.split or "")]
    if not files:
        sys.exit(f"parquet_to_jsonl: {arguments.source}: no parquet files there")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in files:
        target = arguments.out / (path.stem + ".jsonl")
        print(f"{target}: {convert(path, target, arguments.limit)} rows")


if __name__ == "__main__":
    main()
