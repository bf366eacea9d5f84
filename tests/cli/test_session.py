"""The conversation of `omma chat` as people have it: over a pseudo-terminal.

Run with: pytest tests/cli --omma build/release/omma
"""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest

from test_chat_words import png

class Terminal:
    """A program on a terminal of its own; everything that it writes, errors too, ends in
    `screen`."""

    def __init__(self, words, **environment):
        self.master, slave = pty.openpty()
        # Wide, so that no line is broken.
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 1000, 0, 0))
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, **environment},
        )
        os.close(slave)
        self.screen = ""

    def read(self, pattern, seconds=30):
        """What stands on the screen up to the pattern, which is taken off it."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.screen)):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.screen!r}"
            try:
                self.screen += os.read(self.master, 4096).decode(errors="replace").replace("\r\n", "\n")
                # Where the cursor is sent and what is wiped does not matter here.
                self.screen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.screen)
                # Progress, which only slow machines show, is overwritten.
                self.screen = re.sub(r"\r?reading \[[^\r\n]*\r", "", self.screen)
            except OSError as closed:
                raise AssertionError(f"ended without {pattern!r}: {self.screen!r}") from closed
        before, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return before

    def write(self, text):
        os.write(self.master, text.encode())

    def bytes_read(self):
        """By the thread that reads keys; others may still read files when the prompt stands."""
        counts = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/io").read_text()
        return int(re.search(r"rchar: (\d+)", counts).group(1))

    def write_read(self, text):
        """Writes keys that show nothing, and waits until the program has read them."""
        end = self.bytes_read() + len(text.encode())
        self.write(text)
        while self.bytes_read() < end:
            time.sleep(0.01)

    def tell(self, line):
        """Types a line at the prompt and gives what comes back before the next prompt."""
        self.write(line + "\n")
        self.read(r"\n")
        return self.read(r"(^|\n)> $")[:-2]

    def leave(self):
        code = self.process.wait(timeout=30)
        assert termios.tcgetattr(self.master)[3] & (termios.ECHO | termios.ICANON) == termios.ECHO | termios.ICANON
        os.close(self.master)
        return code


@pytest.fixture(scope="session")
def omma(request):
    return pathlib.Path(request.config.getoption("--omma")).resolve()


@pytest.fixture(scope="session")
def edits(omma):
    """Whether the program was built with libedit."""
    return b"libedit.so" in omma.read_bytes()


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def start(omma, model, home):
    opened = []

    def start(*words, terminal="xterm", **environment):
        command = [omma, "chat", "--model", model, "--max-tokens", "4", "--ignore-eos", *words]
        # An XDG_STATE_HOME that is not absolute counts as none.
        started = Terminal(command, **{"TERM": terminal, "HOME": str(home), "XDG_STATE_HOME": "", **environment})
        opened.append(started)
        started.read(r"/help lists the commands\.\n> $")
        return started

    yield start
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


@pytest.fixture(params=["dumb", "xterm"])
def session(request, start, edits):
    """A conversation on a terminal without and with edited lines."""
    if request.param != "dumb" and not edits:
        pytest.skip("built without libedit")
    return lambda *words: start(*words, terminal=request.param)


@pytest.fixture
def editing(start, edits):
    if not edits:
        pytest.skip("built without libedit")
    return start


def test_commands(session):
    terminal = session()
    for word in ("/help", "/?"):
        said = terminal.tell(word)
        for command in ("/image", "/video", "/system", "/set", "/reset", "/clear", "/help", "/?", "/bye", "/quit", "/exit", "Ctrl-C"):
            assert command in said
    for line in ("/nonsense", "/nonsense of a longer kind", "/reset!"):
        said = terminal.tell(line)
        assert "no such command" in said and "/image" in said and "/set" in said, line
    assert terminal.tell("/reset now").strip() == terminal.tell("/clear").strip() == "(a new conversation)"
    assert "omma:" not in terminal.tell("/etc is what?")
    assert "a new conversation)" in terminal.tell("/reset")
    assert "with this system message" in terminal.tell("/system Be brief.")
    assert "without a system message" in terminal.tell("/system")
    assert terminal.tell("") == ""
    assert terminal.tell("Hello").strip()
    terminal.write("/quit\n")
    assert terminal.leave() == 0


def test_commands_in_capitals(session, images):
    terminal = session()
    assert "goes with the next question" in terminal.tell(f"/IMAGE {images}/tile_64x64.png")
    assert "a new conversation)" in terminal.tell("/Reset")
    assert "no such command" in terminal.tell("/NONSENSE")


@pytest.mark.parametrize("word", ["quit", "exit ", "Quit", "/exit", "/QUIT", "/bye"])
def test_words_that_leave(session, word):
    terminal = session()
    for question in (f"{word.strip('/ ')} now?", f"{word.strip('/ ')}ing"):
        assert terminal.tell(question).strip()
    assert "quit or exit alone on a line" in terminal.tell("/help")
    terminal.write(word + "\n")
    assert terminal.leave() == 0


def test_end_of_input(session):
    terminal = session()
    terminal.write("\x04")
    assert terminal.leave() == 0


def test_questions_go_on(session):
    """The same question has another answer after a first one, and the same after /reset."""
    terminal = session("--max-tokens", "12")
    first = terminal.tell("Hello")
    second = terminal.tell("Hello")
    terminal.tell("/reset")
    assert terminal.tell("Hello") == first != second


@pytest.fixture
def odd_names(images, tmp_path):
    folder = tmp_path / "my 'odd' folder"
    folder.mkdir()
    for name in ("a.png", "b 1.png"):
        shutil.copy(images / "tile_64x64.png", folder / name)
    return folder


def test_images_however_their_path_is_written(session, odd_names):
    terminal = session()
    taken = "(64x64, goes with the next question)"
    path = str(odd_names / "b 1.png")
    escaped = re.sub(r"([ '])", r"\\\1", path)
    address = "file://" + path.replace(" ", "%20").replace("'", "%27")
    for form in (path, f'"{path}"', escaped, address, "file://localhost" + address[7:], f" {escaped} "):
        assert terminal.tell(form).count(taken) == 1, form
        assert terminal.tell("/image " + form).count(taken) == 1, form
    both = escaped + " " + escaped.replace("b\\ 1.png", "a.png")
    assert terminal.tell(both).count(taken) == 2
    assert terminal.tell("/image " + both).count(taken) == 2
    assert terminal.tell("What is this?").strip()


def test_images_within_a_question(session, odd_names, alone):
    """However the path is written, where people type on after dropping a file."""
    terminal = session()
    path = str(odd_names / "b 1.png")
    quoted = "'" + path.replace("'", "'\\''") + "'"
    escaped = re.sub(r"([ '])", r"\\\1", path)
    address = "file://" + path.replace(" ", "%20").replace("'", "%27")
    answer = alone("What is this?", "--image", path)
    assert answer != alone("What is this?")
    for form in (quoted, f'"{path}"', escaped, address, path):
        for line in (f"{form} What is this?", f"What is this? {form}", f"  {form}: What is this?"):
            said = terminal.tell(line)
            assert said == "(64x64, goes with this question)\n" + answer, line
            terminal.tell("/clear")
    named = terminal.tell(f"What is in {quoted}?")
    assert named == "(64x64, goes with this question)\n" + alone("What is in b 1.png?", "--image", path)
    terminal.tell("/clear")
    assert terminal.tell(f"{quoted} {escaped} Which?").count("goes with this question") == 2


def test_a_missing_image_is_not_asked_about(session, odd_names, tmp_path, alone):
    terminal = session()
    (tmp_path / "text.png").write_text("no image")
    thin = tmp_path / "thin.png"
    thin.write_bytes(png(2000, 4))
    (tmp_path / "doc.pdf").write_bytes(b"%PDF-1.7")
    quoted = str(odd_names / "a.png").replace("'", "\\'").replace(" ", "\\ ")
    for line, why in (("/path/nosuch.png what is it?", "nosuch.png: no such file"),
                      (f"{quoted} or ~/none.jpg?", "none.jpg: no such file"),
                      ("What is in https://example.org/a.png?", "not fetched"),
                      (f"{quoted} {tmp_path}/text.png differ?", "cannot identify image"),
                      (f"{tmp_path}/doc.pdf: summarise", "a PDF: pdftoppm"),
                      (f"{thin} what?", "thin.png: image is too narrow")):
        said = terminal.tell(line)
        assert why in said and "the question was not asked" in said, said
    assert terminal.tell("Hello") == alone("Hello")
    terminal.tell("/clear")
    assert terminal.tell('"""/path/nosuch.png what is it?"""') == alone("/path/nosuch.png what is it?")


def test_settings(session, alone):
    terminal = session("--max-tokens", "12")
    said = terminal.tell("/set")
    for row in (r"max-tokens +12 ", r"temperature +0 ", r"top-p +1 ", r"seed +0 ", r"stop +none", r"ignore-eos +true", r"verbose +false"):
        assert re.search(row, said), (row, said)
    long = terminal.tell("Hello")
    for line in ("/set max_tokens 4", "/set num_predict 4", "/set parameter n-predict 4 ", "/SET max-tokens 4"):
        assert re.search(r"max-tokens +4 ", terminal.tell(line)), line
        terminal.tell("/clear")
        assert terminal.tell("Hello") == alone("Hello") != long
        assert re.search(r"max-tokens +12 ", terminal.tell("/set max_tokens default")), line
    terminal.tell("/clear")
    assert terminal.tell("Hello") == long
    terminal.tell("/set temperature 1.9")
    assert re.search(r"temperature +1.9 ", terminal.tell("/set temperature"))
    drawn = set()
    for seed in range(4):
        terminal.tell("/clear")
        assert re.search(f"seed +{seed} ", terminal.tell(f"/set seed {seed}"))
        drawn.add(terminal.tell("Hello"))
    assert len(drawn) > 1
    terminal.tell("/set temperature default")
    first = long.split()[1]
    assert f"stop                 '{first}'" in terminal.tell(f"/set stop {first}")
    terminal.tell("/clear")
    assert terminal.tell("Hello").strip() == long[: long.index(first)].strip()
    assert "tokens; decode image" in (terminal.tell("/set verbose"), terminal.tell("Hello"))[1]
    assert re.search(r"verbose +false", terminal.tell("/set verbose off"))


@pytest.mark.parametrize("line, why", [
    ("/set temperature 3", "must be from 0 to 2"),
    ("/set temperature hot", "must be a number"),
    ("/set top_k 1.5", "must be an integer"),
    ("/set verbose maybe", "must be true or false"),
    ("/set colour red", "no such setting; there are max-tokens"),
    ("/set temprature 1", "omma: /set temprature: no such setting, did you mean temperature? (/set alone shows all)"),
    ("/set top_kk 1", "did you mean top-k?"),
    ("/set threads 2", "no such setting"),
    ("/set num_ctx 4096", "no such setting"),
    ("/set stop " + "x" * 1100, "longer than"),
])
def test_settings_that_are_wrong(session, line, why):
    terminal = session()
    before = terminal.tell("/set")
    said = terminal.tell(line)
    assert why in said and said.startswith("omma: ")
    assert terminal.tell("/set") == before


def test_a_system_message_as_ollama_sets_it(session, alone):
    terminal = session()
    assert "with this system message" in terminal.tell("/set system Be brief.")
    assert terminal.tell("Hello") == alone("Hello", "--system", "Be brief.")


def test_verbose_prints_what_each_answer_took(session):
    terminal = session("-v")
    for _ in range(2):
        assert re.search(r"prompt tokens, 4 answer tokens; decode image .* together", terminal.tell("Hello"))


def test_a_full_context_has_a_way_out(session, images):
    """What fills it is said, and the question's image waits for the new conversation."""
    terminal = session("--max-model-len", "160", "--max-tokens", "60")
    terminal.tell("Hello")
    terminal.tell(f"/image {images}/tile_64x64.png")
    said = terminal.tell("Hello " * 10)
    for _ in range(3):
        if "taken back" in said:
            break
        terminal.tell(f"/image {images}/tile_64x64.png")
        said = terminal.tell("Hello " * 10)
    assert re.search(r"the conversation so far fills \d+ of 160 tokens.*/reset.*its images wait", said), said
    assert "the images of the last question wait" in terminal.tell("/reset")
    assert "taken back" not in terminal.tell("What is this?")
    assert "(a new conversation)" in terminal.tell("/reset")


def test_a_question_that_never_fits_is_reported(session):
    terminal = session("--max-model-len", "100")
    said = terminal.tell("many words " * 100)
    assert said.count("maximum context length") == 1
    assert "does not fit by itself" in said and said.endswith("reduce the length of the input prompt\n") and "/reset" not in said


def test_a_tilde_is_home(session, odd_names, home):
    shutil.copy(odd_names / "a.png", home)
    terminal = session()
    assert "(64x64, goes with the next question)" in terminal.tell("~/a.png")


def test_images_that_are_not_there(session, tmp_path):
    terminal = session()
    assert "none.png" in terminal.tell(f"{tmp_path}/none.png")
    assert "none.png" in terminal.tell("/image none.png")
    assert "a file is missing" in terminal.tell("/image")
    assert "a quote is open" in terminal.tell('/image "none.png')
    (tmp_path / "text.png").write_text("no image")
    assert "cannot identify image" in terminal.tell(f"{tmp_path}/text.png")
    assert terminal.process.poll() is None


def test_videos_however_their_path_is_written(session, odd_names):
    terminal = session()
    taken = "(2 frames, go with the next question)"
    folder = str(odd_names)
    for form in (folder, f'"{folder}"', re.sub(r"([ '])", r"\\\1", folder) + " ", f"{folder}/a.png,{folder}/b 1.png"):
        assert terminal.tell("/video " + form).count(taken) == 1, form


def test_a_question_that_speaks_of_files_is_a_question(session, odd_names):
    terminal = session()
    for question, notes in (("What's in a.png?", 1), ("Is a.png and/or b 1.png red?", 2), ("it's 1/2 of /etc", 0)):
        answer = terminal.tell(question)
        assert answer.count("no such file: it stays a word of the question") == answer.count("omma:") == notes
        assert len(answer.split("\n")) > notes + 1 and "goes with" not in answer


def test_interrupt_ends_the_answer_alone(session):
    terminal = session("--max-tokens", "100000", "--temperature", "1")
    terminal.write("Hello\n")
    terminal.read(r"\n.")
    terminal.write("\x03")
    # A small model may have filled its context before the key came.
    terminal.read(r"\n> ")
    assert terminal.process.poll() is None
    assert "a new conversation" in terminal.tell("/reset")


def interrupt_line(terminal):
    """Types something and then Ctrl-C; a terminal drops what has not been read by then."""
    terminal.write("half a line")
    terminal.read("half a line$")
    terminal.write("\x03")


def test_interrupt_clears_a_line(editing):
    """However often: a line that was typed never counts towards leaving."""
    terminal = editing()
    for _ in range(3):
        interrupt_line(terminal)
        terminal.read(r"\^C\n> $")
    terminal.write("\x03")
    terminal.read(r"\(Ctrl-C again, Ctrl-D or /bye leaves\)\n> $")
    interrupt_line(terminal)
    terminal.read(r"\^C\n> $")
    assert "a new conversation" in terminal.tell("/reset")


def test_interrupt_twice_leaves(editing):
    terminal = editing()
    terminal.write("\x03")
    terminal.read(r"leaves\)\n> $")
    assert "a new conversation" in terminal.tell("/reset")
    terminal.write("\x03")
    terminal.read(r"leaves\)\n> $")
    terminal.write("\x03")
    assert terminal.leave() == 130


def test_interrupt_of_plain_lines_never_leaves(start):
    """What a terminal of this kind drops is not reported: it may have been a line."""
    terminal = start(terminal="dumb")
    for _ in range(3):
        terminal.write("half a line\x03")
        terminal.read(r"\(Ctrl-D or /bye leaves\)\n> $")
    assert "a new conversation" in terminal.tell("/reset")


def test_interrupt_drops_an_open_question(session):
    terminal = session()
    for key in ("\x03", "\x04"):
        terminal.write('"""one\n')
        terminal.read(r"\n\.\.\. $")
        terminal.write(key)
        terminal.read(r"\n> $")
    assert "a new conversation" in terminal.tell("/reset")


def test_terminate_at_the_prompt(session):
    terminal = session()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.leave() == 143


def test_terminate_ends_an_answer_and_the_conversation(session):
    terminal = session("--max-tokens", "100000", "--temperature", "1")
    terminal.write("Hello\n")
    terminal.read(r"\n.")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.leave() == 143


def ask_lines(terminal, *lines):
    """Types lines, each at the prompt that the one before leaves, and gives the answer to the
    last."""
    for line in lines[:-1]:
        terminal.write(line + "\n")
        terminal.read(r"\n\.\.\. $")
    return terminal.tell(lines[-1])


@pytest.fixture
def alone(omma, model):
    """The answer to one question of its own, as terminals show it."""

    def alone(question, *words):
        command = [omma, "chat", "--model", model, "--max-tokens", "4", "--ignore-eos", *words, "--prompt", question]
        return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", " ", subprocess.run(command, capture_output=True, check=True).stdout.decode())

    return alone


@pytest.mark.parametrize("lines", [
    ['"""What is', '  this?"""'],
    ['"""', "What is", "  this?", '"""'],
    ['  """What is', '  this?', '""" '],
])
def test_quotes_make_one_question_of_lines(session, alone, lines):
    terminal = session()
    assert ask_lines(terminal, *lines) == alone("What is\n  this?")


def test_quoted_text_is_no_command(session, alone):
    terminal = session()
    assert terminal.tell('"""/reset"""') == alone("/reset")
    assert terminal.tell('""" """') == terminal.tell('""""""') == terminal.tell("  ") == ""


def test_a_system_message_of_lines(session, alone):
    terminal = session()
    said = ask_lines(terminal, '/system """', "Be brief.", "Be kind.", '"""')
    assert "with this system message" in said
    assert terminal.tell("Hello") == alone("Hello", "--system", "Be brief.\nBe kind.")


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


def tell_paste(terminal, text):
    """Pastes a text, whose lines the terminal shows, and takes what comes between Enter and the
    next prompt."""
    terminal.write(paste(text))
    terminal.read(re.escape(text.split()[-1]))
    terminal.write("\r")
    return terminal.read(r"\n> $")[:-2].lstrip("\n")


@pytest.mark.parametrize("text", ["What is\n  this?", "What is\r\n  this?\r\n", "What is\r  this?\r", "What \x07is\n  this?\n\n"])
def test_a_paste_of_lines_is_one_question(editing, alone, text):
    terminal = editing()
    assert tell_paste(terminal, text) == alone("What is\n  this?")


def test_a_paste_is_edited_before_it_is_sent(editing, alone, home):
    terminal = editing()
    terminal.write("Tell: " + paste("größe\n世界") + "!\x01x")
    terminal.read("世界!")
    terminal.write("\r")
    assert terminal.read(r"\n> $")[:-2].split("\n")[-2] + "\n" == alone("xTell: größe\n世界!")
    first = terminal.tell("/reset")
    assert "a new conversation" in first
    terminal.write(UP * 2)
    terminal.read("世界!")
    terminal.write("\x03")
    terminal.read(r"\^C\n> $")
    leave(terminal)
    assert (home / ".local/state/omma/history").read_text() == "/reset\n"


def test_a_long_paste(editing):
    terminal = editing()
    terminal.write(paste("word " * 3000 + "end"))
    terminal.read("end")
    terminal.write("\x03")
    terminal.read(r"\^C\n> $")
    assert "a new conversation" in terminal.tell("/reset")


def test_interrupt_in_a_paste(editing):
    terminal = editing()
    terminal.write_read("\x1b[200~half a")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read(r"\^C\n> $")
    assert "a new conversation" in terminal.tell("/reset")


def test_pasted_paths_of_lines_are_images(editing, odd_names):
    terminal = editing()
    lines = "\n".join(re.sub(r"([ '])", r"\\\1", str(odd_names / name)) for name in ("a.png", "b 1.png"))
    assert tell_paste(terminal, lines).count("(64x64, goes with the next question)") == 2


def test_usage_error_on_a_terminal(omma, model):
    for words in (["--json"], ["--boxes", "out.png", "--image", "x.png"]):
        terminal = Terminal([omma, "chat", "--model", model, *words])
        terminal.read(f"omma: chat: {words[0]}: needs --prompt")
        assert terminal.leave() == 2


UP, LEFT, HOME = "\x1b[A", "\x1b[D", "\x1b[H"


def leave(terminal):
    terminal.write("\x04")
    assert terminal.leave() == 0


def test_arrows_bring_earlier_lines(editing):
    terminal = editing()
    answer = terminal.tell("Hello")
    terminal.tell("/reset")
    assert terminal.tell(UP + UP) == answer
    leave(terminal)


def test_help_lists_the_keys_that_work(start, editing):
    assert "Tab completes" in editing().tell("/help")
    assert "Tab" not in start(terminal="dumb").tell("/help")


def test_lines_are_edited(editing, home):
    terminal = editing()
    terminal.tell("größe 世界" + LEFT * 2 + "x")
    assert "a new conversation" in terminal.tell("eset" + HOME + "/r")
    leave(terminal)
    assert (home / ".local/state/omma/history").read_text(encoding="utf-8") == "größe x世界\n/reset\n"


def test_history_outlives_the_conversation(editing, home):
    first = editing()
    for line in ("Hello", "Hello", "  ", "What's that?"):
        first.tell(line)
    leave(first)
    path = home / ".local/state/omma/history"
    assert path.read_text() == "Hello\nWhat's that?\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    second = editing()
    second.tell(UP + UP)
    leave(second)
    assert path.read_text() == "Hello\nWhat's that?\nHello\n"


def test_history_is_where_the_user_keeps_state(editing, home, tmp_path):
    terminal = editing(XDG_STATE_HOME=str(tmp_path / "state"))
    terminal.tell("/help")
    leave(terminal)
    assert (tmp_path / "state/omma/history").read_text() == "/help\n"
    assert not list(home.iterdir())


def test_no_history(editing, home):
    path = home / ".local/state/omma/history"
    path.parent.mkdir(parents=True)
    path.write_text("earlier\n")
    terminal = editing("--no-history")
    answer = terminal.tell("Hello")
    terminal.tell("/reset")
    assert terminal.tell(UP * 3) == answer
    leave(terminal)
    assert path.read_text() == "earlier\n"


def test_no_history_of_plain_lines(start, home):
    terminal = start(terminal="dumb")
    terminal.tell("Hello")
    leave(terminal)
    assert not list(home.iterdir())


def test_a_long_history_is_cut(editing, home):
    path = home / ".local/state/omma/history"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"bad \xff\n" * 3 + b"".join(b"%d\n" % number for number in range(1999)))
    leave(editing())
    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(999, 1999))
    terminal = editing()
    terminal.write(UP)
    terminal.read("1998$")


def test_history_that_cannot_be_kept(editing, home):
    (home / ".local").write_text("a file where a folder is wanted")
    terminal = editing()
    assert terminal.tell("/help").count("lines are kept for this conversation alone") == 1
    assert "history" not in terminal.tell("/reset")
    assert "/quit" in terminal.tell(UP + UP)


def test_the_terminal_is_taken_again_after_a_stop(editing):
    """Ctrl-Z, a shell that puts the terminal back, and fg."""
    terminal = editing()
    terminal.write("eset")
    terminal.read("eset$")
    terminal.process.send_signal(signal.SIGSTOP)
    mode = termios.tcgetattr(terminal.master)
    mode[3] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(terminal.master, termios.TCSANOW, mode)
    terminal.process.send_signal(signal.SIGCONT)
    terminal.read("> eset$")
    assert "a new conversation" in terminal.tell(HOME + "/r")


def test_lines_pasted_together_come_one_by_one(session):
    terminal = session()
    terminal.write("/reset\r/system Be brief.\rHello\r/system\r")
    terminal.read(r"a new conversation\)\n")
    terminal.read(r"with this system message\)\n")
    terminal.read(r"without a system message\)\n> $")


def test_tab_completes(editing, odd_names):
    terminal = editing()
    assert "/quit" in terminal.tell("/he\t")
    begin = str(odd_names.parent / "my ")
    for typed in (begin.replace(" ", "\\ "), "'" + begin, '"' + begin):
        assert "(64x64, goes with the next question)" in terminal.tell(f"/im\t{typed}\tb\t")
    terminal.write(f'"{odd_names}/\t')
    terminal.read(r"a\.png  b 1\.png\n")
