"""Each block of commands runs as it stands, in a fresh clone whose build is done, and ends well.

A clone for each block, with the names that stand for the reader's own: DIR is the demo model,
cat.jpg, photo.jpg and a.* are images, scans/ holds one. Servers are waited for before the next
command. The quick ones have a network of their own, where ports are free and nothing is outside."""

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile

import pytest
from command_blocks import ROOT, Block, all_blocks, blocks_of, published
from gguf_files import convert

BLOCKS = all_blocks()
QUICK_SECONDS, LONG_SECONDS = 60, 1500

# A foreground server goes on while the next command runs, as it does in a reader's other terminal.
PRELUDE = r"""
set -eu -o pipefail
export PATH="$BUILD:$PATH"
declare -A servers
serve_more=
omma() {
  # A conversation, which the reader types.
  if [ "$*" = "chat --model DIR" ]; then echo "What is this?" | command omma "$@"; return; fi
  if [ "$1" != serve ]; then command omma "$@"; return; fi
  port=8000
  before=
  for word in "$@"; do
    if [ "$before" = --port ]; then port=$word; fi
    before=$word
  done
  # Two servers on one port: the reader ends the first.
  if [ -n "${servers[$port]:-}" ]; then kill "${servers[$port]}"; wait "${servers[$port]}" || true; fi
  env omma "$@" $serve_more --log-level warning > server.log 2>&1 &
  server=$!
  servers[$port]=$server
  until command curl -s -o /dev/null "http://127.0.0.1:$port/health"; do
    jobs -pr | grep -qx $server || { cat server.log >&2; return 1; }
    sleep 0.1
  done
}
curl() { command curl -sS --fail-with-body --retry 60 --retry-delay 1 --retry-connrefused "$@"; }
"""


def stand_ins(folder):
    """What the pages' placeholders name."""
    demo = folder / "models" / "demo"
    (folder / "DIR").symlink_to("models/demo")
    for name in ("cat.jpg", "photo.jpg", "a.jpg", "a.png"):
        shutil.copy(demo / "images" / "cross.png", folder / name)
    (folder / "scans").mkdir()
    shutil.copy(demo / "images" / "cross.png", folder / "scans" / "cross.png")
    question = '{"messages": [{"role": "user", "content": "What is this?"}], "max_tokens": 4}'
    line = f'{{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {question}}}\n'
    (folder / "in.jsonl").write_text(line)
    model, mmproj = convert(ROOT / "tests" / "golden" / "qwen3_vl_tied", folder / "FOLDER", "F16")
    for name, file in (("Qwen3-VL-2B-Instruct-Q4_K_M", model), ("model", model), ("mmproj-F16", mmproj), ("mmproj", mmproj)):
        os.link(file, folder / f"{name}.gguf")


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """What a clone has. The large files are linked: no command writes into them."""
    folder = tmp_path_factory.mktemp("tree")
    for name in published():
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        elif source.stat().st_size > 1 << 20:
            target.symlink_to(source)
        else:
            shutil.copy2(source, target)
    stand_ins(folder)
    return folder


@pytest.fixture
def clone(tree, tmp_path, request):
    folder = tmp_path / "clone"
    shutil.copytree(tree, folder, symlinks=True, copy_function=os.link)
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to((ROOT / request.config.getoption("--build")).resolve())
    return folder


def alone():
    """What runs a command in a network of its own; empty where that is not allowed."""
    words = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up 2> /dev/null || ifconfig lo up; exec "$@"', "sh"]
    return words if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []


ALONE = alone()


def end_all_of(started, alive):
    """Ends the shell and its servers, and waits until the last has closed its end of the pipe."""
    try:
        os.killpg(started.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    started.wait(20)
    assert select.select([alive], [], [], 20)[0], "processes of a block that do not end"


def run(clone, text, seconds, network):
    environment = {**os.environ, "BUILD": str(clone / "build" / "release"), "HOME": str(clone), "PIP_NO_INPUT": "1"}
    # A file holds all that a block writes; a pipe that nobody reads would stop it.
    alive, held = os.pipe()
    with tempfile.TemporaryFile() as output, open(alive):
        started = subprocess.Popen(
            [*([] if network else ALONE), "bash", "-c", PRELUDE + text],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[held],
            start_new_session=True,
        )
        os.close(held)
        # The servers of a block go on: what ends is the shell.
        try:
            status = started.wait(seconds)
        except subprocess.TimeoutExpired:
            status = f"still running after {seconds} s"
        end_all_of(started, alive)
        output.seek(0)
        log = output.read().decode(errors="replace")
    assert status == 0, f"{status}: {text}\n{log[-3000:]}"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_commands(block: Block, request):
    if reason := block.marks.get("not run"):
        pytest.skip(reason)
    is_long = "long" in block.marks
    if is_long and not request.config.getoption("--long"):
        pytest.skip(f"in make test-docs: {block.marks['long']}")
    if not is_long and not ALONE:
        pytest.skip("no network of its own (unshare --net) on this machine")
    before = block.marks.get("with", "")
    # Made only now: most of the blocks that are left out need none.
    clone = request.getfixturevalue("clone")
    run(clone, f"{before}\n{block.text}", LONG_SECONDS if is_long else QUICK_SECONDS, is_long)


def test_a_block_that_fails_is_seen(clone):
    page = ROOT / "README.md"
    assert len(blocks_of(page)) >= 3
    with pytest.raises(AssertionError):
        run(clone, "false\ntrue\n", 5, bool(not ALONE))
    run(clone, "head -c 1000000 /dev/zero\n", 20, bool(not ALONE))  # more than a pipe takes
    with pytest.raises(AssertionError):
        run(clone, "omma chat --model no-such-folder hello\n", 5, bool(not ALONE))


def test_packages_pull_no_name_that_is_not_known():
    """A name on a registry belongs to whoever registered it: of ours none is there."""
    for project in ("python", "python/vllm_ommatidia"):
        text = (ROOT / project / "pyproject.toml").read_text()
        dependencies = re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S)
        names = re.findall(r'"([A-Za-z0-9_.-]+)', dependencies[1]) if dependencies else []
        assert set(names) <= {"numpy"}, f"{project}: {names}"
        assert set(re.findall(r'"([A-Za-z0-9_.-]+)', re.search(r"^requires = \[(.*?)\]", text, re.M | re.S)[1])) <= {
            "hatchling",
            "scikit-build-core",
        }
