#!/usr/bin/env python3
"""Loads megalith run_text_generation_server with clients that never wait, and prints a table of latencies.

    python3 bench/server_load.py [--megalith build/megalith] [--load FOLDER] [--clients 64] [--seconds 60]

Without --load a small Llama of bytes is trained first. Some clients hang up, send too much, or send nothing, all the time.
Every answer is compared with that of generate_samples_gpt. Ends with status 1 after a wrong answer, a crash, a request without
an answer, or growth of memory.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

NEW = 16
PROMPTS = ["line 1", "ab", "of a", "7", "a longer prompt: line 3 of", "t"]


def train(megalith, folder):
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as f:
        f.write("".join("line %d: of a text\n\n" % i for i in range(200)))
    quiet = {"stdout": subprocess.DEVNULL, "check": True, "cwd": folder}
    tokens = ["--tokenizer-type", "ByteTokenizer"]
    subprocess.run([megalith, "preprocess_data", "--input", text, *tokens, "--append-eod", "--output-prefix", "text"],
        **quiet)
    shape = "--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --micro-batch-size 4 --train-iters 20 --lr 1e-3"
    llama = "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights"
    groups = "--group-query-attention --num-query-groups 2 --ffn-hidden-size 352"
    data = "--data-path text_text_document --split 100,0,0 --eval-iters 0 --save model"
    subprocess.run([megalith, "pretrain_gpt", *f"{shape} {llama} {groups} {data}".split(), *tokens], **quiet)
    return os.path.join(folder, "model")


def expected_texts(megalith, model, folder):
    out = os.path.join(folder, "expected.jsonl")
    prompts = [word for p in PROMPTS for word in ("--prompt", p)]
    command = [megalith, "generate_samples_gpt", "--load", model, "--greedy", "--out-seq-length", str(NEW), "--genfile",
        out]
    subprocess.run([*command, *prompts], stdout=subprocess.DEVNULL, check=True)
    return {p: json.loads(line)["text"] for p, line in zip(PROMPTS, open(out))}


def resident(pid):
    status = open("/proc/%d/status" % pid).read()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


class Load:
    def __init__(self, port, expected, clients, seconds):
        self.port, self.expected, self.clients, self.until = port, expected, clients, time.monotonic() + seconds
        self.lock, self.latency, self.refused, self.wrong, self.failed, self.rude = threading.Lock(), [], 0, [], [], 0

    def ask(self, prompt):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            c.request("PUT", "/api", json.dumps({"prompts": [prompt], "tokens_to_generate": NEW, "top_k": 1}))
            r = c.getresponse()
            return r.status, r.read().decode()
        finally:
            c.close()

    def client(self, seed):
        draw = random.Random(seed)
        while time.monotonic() < self.until:
            prompt, start = draw.choice(PROMPTS), time.monotonic()
            try:
                status, text = self.ask(prompt)
            except OSError as error:
                with self.lock:
                    self.failed.append(str(error))
                continue
            with self.lock:
                if status == 503:
                    self.refused += 1
                elif status != 200 or json.loads(text)["text"] != [self.expected[prompt]]:
                    self.wrong.append((status, text))
                else:
                    self.latency.append(time.monotonic() - start)

    def rude_client(self, seed):
        draw = random.Random(seed)
        body = json.dumps({"prompts": ["abc"], "tokens_to_generate": NEW}).encode()
        whole = b"PUT /api HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        while time.monotonic() < self.until:
            kind = draw.randrange(5)
            data = [b"", whole, whole[: draw.randrange(len(whole))], b"\x00" * 500,
                b"PUT /api HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"]
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
                    s.sendall(data[kind])
                    time.sleep(draw.random() * 0.05)
            except OSError:
                pass
            with self.lock:
                self.rude += 1
            time.sleep(0.1)


def share(x, part):
    return x[min(len(x) - 1, int(part * len(x)))] if x else float("nan")


def print_table(load, seconds, memory, model):
    x = sorted(load.latency)
    print("%d answers in %.0f s (%.1f a second, %.0f new tokens a second)"
        % (len(x), seconds, len(x) / seconds, NEW * len(x) / seconds))
    print("%d refused with 503, %d failed, %d wrong; %d of rude clients"
        % (load.refused, len(load.failed), len(load.wrong), load.rude))
    print("memory: %.1f MB after the first answers, %.1f MB at the end" % memory)
    print("\n| latency | seconds |\n|---|---|")
    for name, part in (("least", 0.0), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("most", 1.0)):
        print("| %s | %.3f |" % (name, share(x, part)))
    print("")
    text = "%d clients for %.0f s, %s" % (load.clients, seconds, model)
    print("RESULT server_answers_s %.1f 1/s %s" % (len(x) / seconds, text))
    print("RESULT server_latency_median_s %.4f s %s" % (share(x, 0.5), text))
    print("RESULT server_latency_99_s %.4f s %s" % (share(x, 0.99), text))
    print("RESULT server_wrong %d answers wrong or missing of %d; memory grew by %.1f MB; target 0" %
          (len(load.wrong) + len(load.failed), len(x), memory[1] - memory[0]))


def port_of(server, log):
    until = time.monotonic() + 120
    while time.monotonic() < until:
        time.sleep(0.1)
        text = open(log).read()
        if server.poll() is not None:
            raise SystemExit("FAILED: " + text)
        found = re.search(r"listening on http://[^:]*:(\d+)", text)
        if found:
            return int(found.group(1))
    raise SystemExit("FAILED: the server does not listen after two minutes")


def run(load, pid):
    """The MB of the server after its first answers, and at the end."""
    load.ask(PROMPTS[0])
    threads = [threading.Thread(target=load.client, args=(i,)) for i in range(load.clients)]
    threads += [threading.Thread(target=load.rude_client, args=(i,)) for i in range(max(1, load.clients // 16))]
    begin = time.monotonic()
    for t in threads:
        t.start()
    time.sleep(min(5.0, (load.until - begin) / 4))
    try:
        first = resident(pid)
    finally:
        for t in threads:
            t.join()
    return first, resident(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", default="build/megalith")
    parser.add_argument("--load")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    o = parser.parse_args()
    megalith = os.path.abspath(o.megalith)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.abspath(o.load) if o.load else train(megalith, folder)
        expected = expected_texts(megalith, model, folder)
        log = open(os.path.join(folder, "log"), "w+")
        server = subprocess.Popen([megalith, "run_text_generation_server", "--load", model, "--port", "0"], stdout=log,
            stderr=log)
        try:
            load = Load(port_of(server, log.name), expected, o.clients, o.seconds)
            memory = run(load, server.pid)
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
            status = server.wait(timeout=120)
        except FileNotFoundError:
            raise SystemExit("FAILED: the server has ended: " + open(log.name).read()[-500:]) from None
        finally:
            server.kill()
        print_table(load, o.seconds, memory, "the model of " + o.load if o.load else "a Llama of 4 layers")
        if load.wrong or load.failed or not load.latency or status != 0 or memory[1] > 1.05 * memory[0] + 4:
            raise SystemExit("FAILED: status %d, %s" % (status, (load.wrong + load.failed)[:3]))


if __name__ == "__main__":
    sys.exit(main())
