"""A stand-in for the two servers that every Pilot daemon needs, for tests on one machine: a registry (TCP) and a beacon (UDP).

    network.py PORT-FILE

Listens on free ports of 127.0.0.1 and writes "REGISTRY-PORT BEACON-PORT" into the file once it does. Keeps everything in
memory. Assumes that whoever can connect may do everything: it checks no signature. Knows only what daemons of version 1.18 ask
for when they run with -public, -endpoint and -trust-auto-approve; everything else is answered with an error.
"""

import json
import os
import socket
import struct
import sys
import threading

MAX_FRAME_BYTES = 1 << 20
MAX_NODES = 1_000


class Registry:
    """Who is there, by node number and by public key. Frames are a length of four bytes, then JSON."""

    def __init__(self):
        self.lock = threading.Lock()
        self.nodes = {}
        self.numbers = {}

    def answer(self, message):
        kind = message.get("type")
        with self.lock:
            if kind == "register":
                return self.register(message)
            if kind in ("lookup", "resolve"):
                return self.found(kind, message.get("node_id"))
            if kind == "resolve_hostname":
                name = message.get("hostname")
                numbers = [n for n, node in self.nodes.items() if node["hostname"] == name]
                return self.found(kind, numbers[0] if numbers else None)
            if kind in ("set_visibility", "set_hostname"):
                number = message.get("node_id")
                if number not in self.nodes:
                    return {"type": "error", "error": "node not found"}
                field = "public" if kind == "set_visibility" else "hostname"
                self.nodes[number][field] = message.get(field)
                return {"type": kind + "_ok", "node_id": number, field: message.get(field)}
            if kind == "list_networks":
                backbone = {"id": 0, "name": "backbone", "join_rule": "open", "members": len(self.nodes)}
                return {"type": kind + "_ok", "networks": [backbone]}
            if kind == "beacon_list":
                return {"type": kind + "_ok", "beacons": []}
            if kind == "poll_handshakes":
                return {"type": kind + "_ok", "requests": [], "responses": []}
            if kind == "heartbeat":
                return {"type": kind + "_ok", "time": 0}
            return {"type": "error", "error": "unsupported " + str(kind)}

    def register(self, message):
        key = message.get("public_key")
        if key not in self.numbers:
            if len(self.numbers) >= MAX_NODES:
                return {"type": "error", "error": "too many nodes"}
            self.numbers[key] = len(self.numbers) + 1
        number = self.numbers[key]
        node = self.nodes.setdefault(number, {"public": False, "hostname": ""})
        node["key"], node["endpoint"] = key, message.get("listen_addr")
        return {"type": "register_ok", "node_id": number, "address": address(number), "network_id": 0, "public_key": key}

    def found(self, kind, number):
        node = self.nodes.get(number)
        if node is None:
            return {"type": "error", "error": "node not found"}
        return {
            "type": kind + "_ok",
            "node_id": number,
            "address": address(number),
            "networks": [0],
            "public": node["public"],
            "public_key": node["key"],
            "hostname": node["hostname"],
            "real_addr": node["endpoint"],
        }


def address(number):
    return "0:0000.%04X.%04X" % (number >> 16, number & 0xFFFF)


def exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def serve_registry(connection, registry):
    try:
        while True:
            (size,) = struct.unpack(">I", exactly(connection, 4))
            if size > MAX_FRAME_BYTES:
                return
            answer = json.dumps(registry.answer(json.loads(exactly(connection, size)))).encode()
            connection.sendall(struct.pack(">I", len(answer)) + answer)
    except (EOFError, OSError, ValueError):
        pass
    finally:
        connection.close()


def serve_beacon(beacon):
    """Tells daemons where they are seen (1 → 2), brings two of them together (3 → 4), and passes on what two of them cannot send
    each other directly (5 → 6)."""
    seen = {}
    while True:
        data, sender = beacon.recvfrom(65_535)
        kind, rest = data[:1], data[1:]
        if kind == b"\x01" and len(rest) >= 4:
            if len(seen) < MAX_NODES:
                seen[rest[:4]] = sender
            beacon.sendto(b"\x02" + place(sender), sender)
        elif kind == b"\x03" and len(rest) >= 8:
            one, other = rest[:4], rest[4:8]
            seen[one] = sender
            if other in seen:
                beacon.sendto(b"\x04" + place(seen[other]), sender)
                beacon.sendto(b"\x04" + place(sender), seen[other])
        elif kind == b"\x05" and len(rest) > 8 and rest[4:8] in seen:
            beacon.sendto(b"\x06" + rest[:4] + rest[8:], seen[rest[4:8]])


def place(endpoint):
    host, port = endpoint
    return b"\x04" + socket.inet_aton(host) + struct.pack(">H", port)


def main():
    beacon = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    beacon.bind(("127.0.0.1", 0))
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    registry = Registry()
    threading.Thread(target=serve_beacon, args=(beacon,), daemon=True).start()
    ports = "%d %d\n" % (listener.getsockname()[1], beacon.getsockname()[1])
    with open(sys.argv[1] + ".new", "w", encoding="ascii") as file:
        file.write(ports)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_registry, args=(connection, registry), daemon=True).start()


main()
