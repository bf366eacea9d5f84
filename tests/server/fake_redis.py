"""A Redis for tests, which can be set to misbehave: GETRANGE, SET, AUTH and SELECT over one
dictionary. Its modes: "well"; "silent"; "full" (SET fails); "hangs_up"; "says" (what `saying`
holds, whatever it is asked); "trickles" (the same, a byte each `pause` seconds, for ever)."""

import itertools
import socket
import threading
import time


class FakeRedis:
    def __init__(self, password=None):
        self.password, self.values, self.commands = password, {}, []
        self.mode, self.saying, self.pause = "well", b"", 0.02
        self.full = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://{':' + self.password + '@' if self.password else ''}127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def read_command(self, file):
        line = file.readline()
        if not line:
            return None
        words = []
        for _ in range(int(line[1:])):
            size = int(file.readline()[1:])
            words.append(file.read(size + 2)[:-2])
        return words

    def answer(self, words, state):
        name = words[0].upper()
        if name == b"AUTH":
            state["known"] = words[-1].decode() == self.password
            return b"+OK\r\n" if state["known"] else b"-WRONGPASS invalid password\r\n"
        if self.password and not state.get("known"):
            return b"-NOAUTH Authentication required.\r\n"
        if name == b"SELECT":
            return b"+OK\r\n"
        if name == b"SET":
            if self.mode == "full":
                return self.full
            self.values[words[1]] = words[2]
            return b"+OK\r\n"
        assert name == b"GETRANGE"
        value = self.values.get(words[1], b"")[int(words[2]):int(words[3]) + 1]
        return b"$%d\r\n%s\r\n" % (len(value), value)

    def serve(self, connection):
        file, state = connection.makefile("rb"), {}
        try:
            while (words := self.read_command(file)) is not None:
                self.commands.append([words[0].decode()] + words[1:2])
                if self.mode == "hangs_up":
                    break
                if self.mode == "says":
                    connection.sendall(self.saying)
                elif self.mode == "trickles":
                    for byte in itertools.chain(self.saying, itertools.repeat(ord("0"))):
                        connection.sendall(bytes([byte]))
                        time.sleep(self.pause)
                elif self.mode != "silent":
                    connection.sendall(self.answer(words, state))
        except (OSError, ValueError):
            pass
        connection.close()

    def close(self):
        self.listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
