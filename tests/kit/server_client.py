"""Asks a running text generation server, as clients that are right, wrong, many, or gone. Used by test_server.sh of
tests/cli and
tests/ranks.

usage: server_client.py PORT ask [field=json ...]      prints the answer of one request, its texts one a line
       server_client.py PORT clients EXPECTED.json     many clients at once: {"prompt": "text", ...}, the texts that are
       right
       server_client.py PORT slow COUNT SECONDS         so many clients that take longer than the server allows
       server_client.py PORT idle COUNT SECONDS         so many clients keep their connections after an answer; all get
       one in time
       server_client.py PORT mistakes                  requests that are refused, and those of clients that are gone
"""

import http.client
import json
import socket
import sys
import threading
import time


def ask(port, body, method="PUT", path="/api", timeout=60):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        c.request(method, path, body, {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, r.read().decode()
    finally:
        c.close()


def answer_of(port, **fields):
    status, text = ask(port, json.dumps(fields))
    if status != 200:
        raise SystemExit("status %d: %s" % (status, text))
    return json.loads(text)


def clients(port, expected):
    wrong, busy = [], []

    def client(number):
        prompts = sorted(expected)
        for k in range(3):
            prompt = prompts[(number + k) % len(prompts)]
            status, text = ask(port, json.dumps({"prompts": [prompt], "tokens_to_generate": 12, "top_k": 1}))
            if status == 503:
                busy.append(number)
            elif status != 200 or json.loads(text)["text"] != [expected[prompt]]:
                wrong.append((status, text))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise SystemExit("wrong answers: %s" % wrong[:3])
    print("%d of 36 requests were refused because others waited" % len(busy))


def hang_up(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(data)


def slow(port, count, seconds):
    """Clients that send a byte now and then, each in another part of its request; another client is answered all the
    same."""
    whole = b"PUT /api HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    sockets = []
    for i in range(count):
        s = socket.socket()
        s.setblocking(False)  # those beyond the server's limit wait in the system's queue
        s.connect_ex(("127.0.0.1", port))
        sockets.append(s)
    ends = time.monotonic() + seconds
    sent, answers = 0, []

    def right():
        fields = {"prompts": ["ab"], "tokens_to_generate": 3, "top_k": 1}
        answers.append(ask(port, json.dumps(fields), timeout=seconds + 50))

    other = threading.Thread(target=right)
    other.start()
    while other.is_alive() and time.monotonic() < ends + 50:
        for i, s in enumerate(sockets):
            try:
                s.send(whole[: 1 + i % 50] if sent == 0 else b"x")
            except OSError:
                pass
        sent += 1
        time.sleep(0.3)  # how slow these clients are; nothing is waited for
    other.join()
    for s in sockets:
        s.close()
    if [status for status, _ in answers] != [200]:
        raise SystemExit("beside %d slow clients: %s" % (count, answers))
    print("answered beside %d slow clients" % count)


def idle(port, count, seconds):
    """Clients that keep their connections open: one after the other, then as many at once; and one more that wants a
    text."""
    began = time.monotonic()
    kept = []
    for _ in range(count):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        c.request("GET", "/")
        c.getresponse().read()
        kept.append(c)
    sockets = []
    for _ in range(count):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", port))
        sockets.append(s)
    for s in sockets:
        s.settimeout(seconds)
        s.sendall(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
    for s in sockets:
        if not s.recv(65536).startswith(b"HTTP/1.1 404 "):
            raise SystemExit("one of %d clients at once is not answered" % count)
    answer_of(port, prompts=["ab"], tokens_to_generate=3, top_k=1)
    took = time.monotonic() - began
    if took > seconds:
        raise SystemExit("%d idle clients hold the others up: %.1f s" % (count, took))
    print("answered beside %d idle clients" % count)


def mistakes(port):
    right = {"prompts": ["ab"], "tokens_to_generate": 3, "top_k": 1}
    for change, status, part in (
        ({"prompts": None}, 400, "prompts"),
        ({"max_len": 5}, 400, "tokens_to_generate"),
        ({"sentences": ["a"]}, 400, "prompts"),
        ({"prompts": "ab"}, 400, "1 to 128"),
        ({"prompts": []}, 400, "1 to 128"),
        ({"prompts": ["a"] * 129}, 400, "1 to 128"),
        ({"prompts": [5]}, 400, "texts alone"),
        ({"prompts": ["a\0b"]}, 400, "no JSON"),
        ({"prompts": [""]}, 200, "add_BOS"),
        ({"tokens_to_generate": -1}, 200, "tokens_to_generate"),
        ({"tokens_to_generate": 1.5}, 200, "tokens_to_generate"),
        ({"tokens_to_generate": 0}, 200, "logprobs"),
        ({"tokens_to_generate": 100000}, 200, "positions"),
        ({"logprobs": 1}, 200, "logprobs"),
        ({"temperature": 0}, 200, "temperature"),
        ({"temperature": 101}, 200, "temperature"),
        ({"top_k": 1001}, 200, "top_k"),
        ({"top_p": 0.5}, 200, "top_k"),
        ({"top_k": 0, "top_p": 1.5}, 200, "top_p"),
        ({"top_p_decay": 0.5}, 200, "top_p"),
        ({"top_k": 0, "top_p": 0.5, "top_p_bound": 0.6}, 200, "top_p_bound"),
        ({"add_BOS": "yes"}, 200, "add_BOS"),
        ({"random_seed": -1}, 200, "random_seed"),
        ({"beam_width": 0}, 200, "beam_width"),
        ({"beam_width": 2, "prompts": ["a", "b"]}, 200, "one prompt"),
        ({"beam_width": 200, "top_k": 0}, 200, "--num-beams"),
        ({"beam_width": 5000}, 200, "1 to 256"),
        ({"beam_width": 2, "top_k": 0, "stop_token": 99999}, 200, "stop_token: expected an id below"),
        ({"prompts": ["ab"], "top_k": 10**400}, 400, "too big integer"),
        ({"beam_width": 2, "length_penalty": "1"}, 200, "length_penalty"),
        ({"max_tokens": 5}, 400, "max_tokens: expected tokens_to_generate instead"),
        ({"tokens_to_generat": 5}, 400, "tokens_to_generate instead"),
        ({"Temperatur": 1}, 400, "temperature instead"),
        ({"add_bos": True}, 400, "add_BOS instead"),
        ({"stream": True}, 400, "stream: expected one of prompts, tokens_to_generate,"),
        ({"x" * 5000: 1}, 400, "one of prompts"),
        ({"": 1}, 400, "one of prompts"),
        ({"stop_on_double_eol": False, "stop_token": 5, "length_penalty": 1, "top_p_bound": None, "no_log": 3}, 200,
            "no_log"),
        # known fields that would have no effect
        ({"stop_token": 5}, 400, "stop_token: expected beam_width beside it"),
        ({"length_penalty": 2.5}, 400, "length_penalty: expected beam_width beside it"),
        ({"beam_width": 2}, 400, "top_k: expected no beam_width beside it"),
        ({"beam_width": 2, "top_k": 0, "top_p": 0.5}, 400, "top_p: expected no beam_width"),
        ({"beam_width": 2, "top_k": 0, "temperature": 0.5}, 400, "temperature: expected no beam_width"),
        ({"beam_width": 2, "top_k": 0, "random_seed": 5}, 400, "random_seed: expected no beam_width"),
        ({"beam_width": 2, "top_k": 0, "logprobs": True}, 400, "logprobs: expected no beam_width"),
        ({"beam_width": 2, "top_k": 0, "stop_on_eol": True}, 400, "stop_on_eol: expected no beam_width"),
        ({"beam_width": 2, "top_k": 0, "stop_on_double_eol": True}, 400, "stop_on_double_eol: expected no beam_width"),
    ):
        got, text = ask(port, json.dumps({**right, **change}))
        if got != status or not isinstance(json.loads(text), str) or part not in text:
            raise SystemExit("%s: status %d, %s" % (change, got, text))
    for body, method, path, status in (
        ("{", "PUT", "/api", 400),
        ("", "PUT", "/api", 400),
        ("[1]", "PUT", "/api", 400),
        ('{"prompts": ["\\ud800"]}', "PUT", "/api", 400),
        (b'{"prompts": ["\xff\xfe"]}', "PUT", "/api", 400),
        ("[" * 100000, "PUT", "/api", 400),
        ("x" * 3000000, "PUT", "/api", 413),
        (iter([b"x" * 1000000] * 3), "PUT", "/api", 413),
        (json.dumps(right), "PUT", "/api?tokens_to_generate=2", 400),
        ("{}", "GET", "/api", 405),
        ("{}", "DELETE", "/api", 405),
        ("{}", "PUT", "/other", 404),
        (None, "GET", "/../../etc/passwd", 404),
    ):
        try:
            got, text = ask(port, body, method, path)
        except (BrokenPipeError, ConnectionResetError):
            got = 413  # the server has closed before all was sent
        if got != status:
            raise SystemExit("%s %s: status %d, expected %d" % (method, path, got, status))
    got, page = ask(port, None, "GET", "/")
    if got != 200 or "<form>" not in page:
        raise SystemExit("the page: %d" % got)
    whole = json.dumps({"prompts": ["abc"], "tokens_to_generate": 12}).encode()
    head = b"PUT /api HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(whole)
    for data in (b"", b"PUT /a", b"\x00\x01\x02\r\n\r\n", head, head + whole[:9], head + whole, head + whole,
        b"A" * 100000):
        try:
            hang_up(port, data)
        except (BrokenPipeError, ConnectionResetError):
            pass
    # Two lengths, or one and chunks: 400, and what follows is not taken for a request.
    for lengths in (b"Content-Length: 2\r\nContent-Length: 9", b"content-length: 2\r\nContent-Length: 2",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(b"PUT /api HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\n\r\n{}GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b"".join(iter(lambda: s.recv(65536), b""))
        if not got.startswith(b"HTTP/1.1 400 ") or b"Content-Length" not in got.split(b"\r\n\r\n",
            1)[1] or got.count(b"HTTP/1.1 ") != 1:
            raise SystemExit("%s: %s" % (lengths, got))
    # What a Megatron client sends, and values that say what is done anyway.
    for fields in (
        {"tokens_to_generate": 3},
        {"tokens_to_generate": 3, "top_k": 1, "temperature": 0.5, "random_seed": 5, "length_penalty": 1.0,
            "stop_token": None},
        {"tokens_to_generate": 3, "beam_width": 2, "stop_token": 5, "length_penalty": 0.5, "temperature": 1.0,
            "top_k": 0,
         "logprobs": False, "stop_on_eol": False, "add_BOS": True, "prevent_newline_after_colon": True, "no_log": True},
    ):
        if not isinstance(answer_of(port, prompts=["ab"], **fields), dict):
            raise SystemExit("refused: %s: %s" % (fields, answer_of(port, prompts=["ab"], **fields)))
    answer = answer_of(port, **right)
    if len(answer["text"]) != 1 or answer["logprobs"] is not None:
        raise SystemExit("after these: %s" % answer)
    print("all refused, and the next request is answered")


def main():
    port, what = int(sys.argv[1]), sys.argv[2]
    if what == "ask":
        answer = answer_of(port, **{f.split("=", 1)[0]: json.loads(f.split("=", 1)[1]) for f in sys.argv[3:]})
        if isinstance(answer, str):
            raise SystemExit(answer)
        for text, segments in zip(answer["text"], answer["segments"]):
            if "\ufffd" not in text and "".join(segments) != text:
                raise SystemExit("segments %s of %s" % (segments, text))
            print(json.dumps(text, ensure_ascii=False))
        for key in ("logprobs", "scores"):
            if answer.get(key):
                print(key, json.dumps(answer[key]), [len(s) for s in answer["segments"]])
    elif what == "clients":
        clients(port, json.load(open(sys.argv[3])))
    elif what == "idle":
        idle(port, int(sys.argv[3]), float(sys.argv[4]))
    elif what == "slow":
        slow(port, int(sys.argv[3]), float(sys.argv[4]))
    else:
        mistakes(port)


main()
