"""The declarations of the C interface: made from the headers, and compared with the library that is
loaded."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import ommatidia
import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = Path(ommatidia.__file__).parent
TOWER = "import ommatidia._tower; ommatidia._tower._library()"
SERVICE = "import ommatidia._runtime; ommatidia._runtime.service_library()"


def test_the_files_are_what_the_headers_say():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_declarations.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_struct_and_every_member_of_a_header_is_in_the_library_s_table():
    """By other means than the generator's: a member more than the tables have is found."""
    rows = "".join(path.read_text() for path in (ROOT / "src").rglob("layout_*.inc"))
    for header in (ROOT / "include" / "omma").glob("*.h"):
        code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for name, body in re.findall(r"^struct (\w+) \{(.*?)^\};", code, re.M | re.S):
            n_members = sum(len(part.split(",")) if "(" not in part else 1 for part in body.split(";") if part.strip())
            assert f"OMMAI_STRUCT({name})" in rows
            assert rows.count(f"OMMAI_MEMBER({name}, ") == n_members, f"struct {name}"


# A changed line of _declarations.py, what loads the library, what the error must name.
CHANGES = [
    ('        ("v_scale_page_stride", c_int64),\n', "", "import ommatidia", "struct omma_attention_tensors, member v_scale_page_stride"),
    ('        ("k_scales", c_void_p),\n', "", "import ommatidia", "struct omma_attention_tensors, member k_scales"),
    ('        ("int8_scores", c_bool),\n', "", "import ommatidia", "struct omma_attention_spec, member int8_scores"),
    ('("scale", c_float)', '("scale", c_double)', "import ommatidia", "member scale"),
    ('        ("paged", c_bool),\n', '        ("paged", c_bool),\n        ("own", c_bool),\n', "import ommatidia", "member"),
    ("\nBF16 = 1\n", "\nBF16 = 3\n", "import ommatidia", "OMMA_BF16 is 1, this package has 3"),
    (
        '        ("temporal_patch_size", c_int64),\n        ("merge_size", c_int64),\n',
        '        ("temporal_patch_size", c_int64),\n',
        TOWER,
        "struct omma_tower_info, member merge_size",
    ),
    ('        ("ended", c_bool),\n', "", SERVICE, "struct omma_service_news, member ended"),
    ('        ("max_wait_ms", c_int64),\n', "", SERVICE, "struct omma_engine_options, member max_wait_ms"),
]


@pytest.mark.parametrize(("line", "changed", "code", "named"), CHANGES, ids=[str(n) for n in range(len(CHANGES))])
def test_a_declaration_that_differs_is_refused(tmp_path, line, changed, code, named):
    if code in (TOWER, SERVICE) and not (TREE / "libomma.so").exists():
        pytest.skip("no libomma here")
    for folder in (TREE, TREE.with_name("ommatidia.libs")):  # the latter of a manylinux wheel
        if folder.exists():
            shutil.copytree(folder, tmp_path / folder.name, symlinks=False)
    declarations = tmp_path / "ommatidia" / "_declarations.py"
    text = declarations.read_text()
    assert line in text
    declarations.write_text(text.replace(line, changed, 1))
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    last = (done.stderr.splitlines() or [""])[-1]
    assert done.returncode == 1 and last.startswith("ImportError: ") and named in last, done.stderr


def test_calls_do_not_read_what_lies_behind_their_structs():
    """20,000 calls between which objects of the structs' sizes come and go. A call that reads too
    far takes the hash of one for a stride."""
    values = np.ones((6, 2, 16), np.float32)
    borders = np.array([0, 2, 6])
    expected = ommatidia.attention(values, values, values, borders).tobytes()
    kept: dict[bytes, int] = {}
    for number in range(20000):
        made = [number.to_bytes(4, "little") * 22 + bytes(8 * n) for n in range(4)]
        kept.update(dict.fromkeys(made, number))
        kept.pop(made[number % 3])
        assert ommatidia.attention(values, values, values, borders, threads=1).tobytes() == expected
