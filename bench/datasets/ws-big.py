"""Writes mixed.db, random.bin and events.jsonl into the current directory.

mixed.db is like a database of 4 KiB pages: 70 percent rows, which compress, 20
percent random, 10 percent zero. Everything is drawn from a fixed seed.
"""
import random
import struct

r = random.Random(7)
words = [bytes("w%x" % r.getrandbits(r.choice((8, 16, 24))), "ascii") for _ in range(5000)]


def row_page(number):
    page = bytearray(struct.pack(">BHHHI", 13, 0, 20, 4096 - 20 * 100, number))
    while len(page) < 4080:
        page += struct.pack(">QI", r.getrandbits(40), r.getrandbits(16)) + b" ".join(r.choices(words, k=6))
    return page[:4096]


with open("mixed.db", "wb") as out:
    pool = [row_page(i) for i in range(2000)]
    for number in range(500_000_000 // 4096):
        kind = r.random()
        if kind < 0.7:
            page = bytearray(pool[r.randrange(2000)])
            page[0:8] = struct.pack(">Q", number)
            page[2000:2016] = r.randbytes(16)
            page[3000:3016] = r.randbytes(16)
            out.write(page[:4096].ljust(4096, b"\0"))
        elif kind < 0.9:
            out.write(r.randbytes(4096))
        else:
            out.write(bytes(4096))

with open("random.bin", "wb") as out:
    for _ in range(256):
        out.write(r.randbytes(1 << 20))

with open("events.jsonl", "wb") as out:
    written, i = 0, 0
    while written < 300_000_000:
        lines = []
        for _ in range(2000):
            i += 1
            lines.append(b'{"ts":%d,"id":"%016x","level":"info","msg":"%s","ms":%d}\n' % (
                1700000000000 + i * 37, r.getrandbits(64), b" ".join(r.choices(words, k=8)), r.randrange(5000)))
        block = b"".join(lines)
        out.write(block)
        written += len(block)
