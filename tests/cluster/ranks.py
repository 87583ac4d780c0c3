"""A launcher of the least kind, as a batch system has one: it starts every rank by itself on its node, tells it who it is
in its environment, and answers PMI-1 on a socket that the rank inherits. There is no mpirun, and no daemon on a node.

PMI-1 is lines of "cmd=NAME key=value ...": a table of keys that all ranks write and read, and a barrier.
"""

import os
import selectors
import socket
import subprocess
import tempfile
import time


class Pmi:
    """The job's table and barrier. `sockets`: of the ranks, in order."""

    def __init__(self, sockets, mapping):
        self.sockets, self.waiting, self.table = sockets, [], {"PMI_process_mapping": mapping}
        self.left, self.heard = set(sockets), {each: b"" for each in sockets}
        self.known = {"init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                      "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
                      "get_appnum": "cmd=appnum appnum=0", "get_my_kvsname": "cmd=my_kvsname kvsname=job",
                      "get_universe_size": f"cmd=universe_size size={len(sockets)}", "finalize": "cmd=finalize_ack"}

    def serve(self, limit_s):
        """Until every rank has closed its socket, or the time is over."""
        end = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            for each in self.sockets:
                selector.register(each, selectors.EVENT_READ)
            while self.left and time.monotonic() < end:
                for key, _ in selector.select(timeout=0.2):
                    got = key.fileobj.recv(65536)
                    if not got:
                        self.left.discard(key.fileobj)
                        selector.unregister(key.fileobj)
                    *lines, self.heard[key.fileobj] = (self.heard[key.fileobj] + got).split(b"\n")
                    for line in lines:
                        self.answer(key.fileobj, line.decode())

    def answer(self, rank, line):
        line, _, value = line.partition(" value=")
        given = dict(word.split("=", 1) for word in line.split())
        if given["cmd"] == "barrier_in":
            self.waiting.append(rank)
            if len(self.waiting) == len(self.sockets):
                for each in self.waiting:
                    each.sendall(b"cmd=barrier_out\n")
                self.waiting = []
            return
        if given["cmd"] == "put":
            self.table[given["key"]] = value
            said = "cmd=put_result rc=0 msg=success"
        elif given["cmd"] == "get":
            found = given["key"] in self.table
            said = f"cmd=get_result rc={0 if found else -1} msg={'success' if found else 'none'} " \
                   f"value={self.table.get(given['key'], 'unknown')}"
        else:
            said = self.known[given["cmd"]]
        rank.sendall(said.encode() + b"\n")


def run(nodes, words, per_node, limit_s, told=("MPI_LOCALNRANKS",)):
    """(exit codes by rank, None where one had to be killed; what all have written). `told`: what a rank learns besides
    PMI's own variables."""
    count, ranks = per_node * len(nodes), []
    pairs = [socket.socketpair() for _ in range(count)]
    with tempfile.TemporaryFile() as output:
        for rank, (_, end) in enumerate(pairs):
            mine = {"PMI_FD": end.fileno(), "PMI_RANK": rank, "PMI_SIZE": count}
            mine |= {name: per_node for name in told}
            environment = os.environ | {name: str(value) for name, value in mine.items()}
            ranks.append(subprocess.Popen([*nodes[rank // per_node].enter(), *words], env=environment, stdout=output,
                                          stderr=output, stdin=subprocess.DEVNULL, pass_fds=[end.fileno()]))
            end.close()
        end = time.monotonic() + limit_s
        Pmi([ours for ours, _ in pairs], f"(vector,(0,{len(nodes)},{per_node}))").serve(limit_s)
        codes = []
        for rank in ranks:
            try:
                codes.append(rank.wait(timeout=max(1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)
                rank.kill()
                rank.wait()
        for ours, _ in pairs:
            ours.close()
        output.seek(0)
        return codes, output.read().decode()
