#!/usr/bin/env python3
"""What an exchange between machines costs at least, by plain blocking TCP: each node sends to and receives from all others
at once. The same program runs on each node; it prints one JSON object of what it sent, how long that took, and how much
time of a core: its own (user and system), and how long the cores that it may use were busy, with it or for it.

    tcp_exchange.py --bind 10.77.0.1 --peers 10.77.0.2,10.77.0.3 --bytes 100000000
"""

import argparse
import json
import os
import resource
import socket
import threading
import time

PORT = 7599
PIECE_BYTES = 1 << 20  # of one call
BUFFER_BYTES = 64 << 20  # gone through piece by piece, as a program's own: no cache holds it
CONNECT_LIMIT_S = 60  # on a machine that is busy with other things


def buffer():
    """Whose pages are there."""
    return memoryview(bytearray(b"x") * BUFFER_BYTES)


def pieces(whole, count):
    """So many bytes of it in turns, piece by piece."""
    at = 0
    while count > 0:
        piece = whole[at:at + min(count, PIECE_BYTES)]
        yield piece
        count -= len(piece)
        at = (at + PIECE_BYTES) % BUFFER_BYTES


def send(connection, whole, count):
    for piece in pieces(whole, count):
        connection.sendall(piece)


def receive(connection, whole, count):
    for piece in pieces(whole, count):
        if connection.recv_into(piece, len(piece), socket.MSG_WAITALL) != len(piece):
            raise ConnectionError("the other side has closed")


def connect(peer, own):
    """To a node that may not listen yet."""
    end = time.monotonic() + CONNECT_LIMIT_S
    while True:
        try:
            return socket.create_connection((peer, PORT), timeout=CONNECT_LIMIT_S, source_address=(own, 0))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def busy_seconds():
    """Of the cores that this process may use: all but idle and waiting for devices, by the system's own count."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            name, *times = line.split()
            if name in mine:
                user, nice, system, _, _, irq, softirq = map(int, times[:7])
                total += user + nice + system + irq + softirq
    return total / tick


def core_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime


def exchange(own, peers, count):
    with socket.create_server((own, PORT), backlog=len(peers)) as server:
        server.settimeout(CONNECT_LIMIT_S)
        outgoing = [connect(peer, own) for peer in peers]
        incoming = [server.accept()[0] for _ in peers]
    for connection in outgoing + incoming:
        connection.settimeout(None)
    # All are there once each has a word from each.
    for connection in outgoing:
        connection.sendall(b"!")
    for connection in incoming:
        connection.recv(1)
    work = [threading.Thread(target=send, args=(one, buffer(), count)) for one in outgoing]
    work += [threading.Thread(target=receive, args=(one, buffer(), count)) for one in incoming]
    start, busy, (user, system) = time.monotonic(), busy_seconds(), core_seconds()
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    end = core_seconds()
    return {"bytes": count * len(peers), "seconds": time.monotonic() - start, "user_s": end[0] - user,
            "system_s": end[1] - system, "cores_busy_s": busy_seconds() - busy}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bind", required=True, metavar="ADDRESS", help="this node's")
    parser.add_argument("--peers", required=True, metavar="ADDRESSES", help="the others', with commas")
    parser.add_argument("--bytes", required=True, type=int, metavar="N", help="to each of them, and from each")
    options = parser.parse_args()
    print(json.dumps(exchange(options.bind, options.peers.split(","), options.bytes)))


if __name__ == "__main__":
    main()
