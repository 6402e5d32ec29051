#!/usr/bin/env python3
"""Plays ssh and a host behind it whose toolsrv is none: it proves that it has
the secret, as whoever is there can, and then does what HOST_MODE says."""
import hmac, json, os, re, struct, sys, time

if "-G" in sys.argv:
    sys.exit(0)
mode = os.environ["HOST_MODE"]
from_us, to_us = sys.stdin.buffer, sys.stdout.buffer


def say(data):
    to_us.write(data)
    to_us.flush()


script = from_us.read(int(re.search(r"head -c (\d+)", sys.argv[-1])[1])).decode()
word = re.search(r"\bon='([^']+)'", script)[1]
facts = ["os Linux", "kernel 6.1", "arch x86_64", "uid 1000", "home /x", "tools sha256sum head xz gzip", "run /x"]
say(("\n" + "".join(f"{word} {fact}\n" for fact in facts)).encode())
boot = json.loads(from_us.read(struct.unpack("<I", from_us.read(4))[0]))
theirs = bytes.fromhex(boot.get("nonce", "07" * 32))
ready = {"protocol": 1, "nonce": theirs.hex(), "pid": 1, "socket": "/x/socket"}
say(f"{boot['mark']} {json.dumps({'ready': ready})}\n".encode())

paths, names, ours, qid = {}, b"", b"", bytes(13)
notice = b'{"type":"notice","text":"still here"}\n' * 1000
while len(head := from_us.read(7)) == 7:
    size, kind, tag = struct.unpack("<IBH", head)
    body = from_us.read(size - 7)

    def answer(data):
        say(struct.pack("<IBH", 7 + len(data), kind + 1, tag) + data)

    fid = struct.unpack_from("<I", body)[0]
    if kind == 100:  # Tversion
        answer(body)
    elif kind == 102:  # Tauth
        names = body[4:]
        paths[fid] = "auth"
        answer(qid)
    elif kind == 104:  # Tattach
        answer(qid)
    elif kind == 110:  # Twalk
        count, path, at = struct.unpack_from("<H", body, 8)[0], [], 10
        for _ in range(count):
            length = struct.unpack_from("<H", body, at)[0]
            path.append(body[at + 2 : at + 2 + length].decode())
            at += 2 + length
        paths[struct.unpack_from("<I", body, 4)[0]] = "/".join(path)
        answer(struct.pack("<H", count) + qid * count)
    elif kind == 112:  # Topen
        answer(qid + bytes(4))
    elif kind == 118:  # Twrite
        if paths.get(fid) == "auth":
            ours = body[16:48]
        answer(body[12:16])
    elif kind == 116 and paths.get(fid) == "auth":  # Tread
        text = b"ollie toolsrv auth 1\0server\0" + theirs + ours + names
        answer(struct.pack("<I", 32) + hmac.digest(bytes.fromhex(boot["secret"]), text, "sha256"))
    elif kind == 116 and mode == "endless" and paths.get(fid) == "proc/new":
        time.sleep(0.002)
        answer(struct.pack("<I", len(notice)) + notice)
    elif kind in (108, 120):  # Tflush, Tclunk
        answer(b"")
    # Every other read waits for ever.
