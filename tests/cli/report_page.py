"""Reads a page of `megalith report` with Python's parser, which knows no browser: PAGE METRICS…"""
import html.parser
import json
import sys

VOID = {"meta", "br", "img", "link"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.sections, self.curves, self.rows, self.figure = [], [], {}, {}, None
        self.section = self.row = None

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = a["id"]
            self.sections.append(a["id"])
        if tag == "figure":
            self.figure = a["id"]
        if tag == "path" and a.get("class", "").startswith("c") and "h16" not in a["d"]:
            self.curves.setdefault(self.figure, []).append((a["stroke"], a["d"].count("M") + a["d"].count("L"),
                "d" in a["class"].split()))
        if tag == "tr":
            self.row = []
        if tag in ("td", "th") and self.row is not None:
            self.row.append("")

    def handle_startendtag(self, tag, attributes):
        if tag == "path":
            self.handle_starttag(tag, attributes)
            self.open.pop()

    def handle_endtag(self, tag):
        opened = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}> at {self.getpos()}"
        if tag == "tr":
            self.rows.setdefault(self.section, {})[self.row[0]] = self.row[1:]
            self.row = None

    def handle_data(self, data):
        if self.row:
            self.row[-1] += data


page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
assert page.open == [], page.open
assert page.sections == ["summary", "curves", "layout", "memory", "schedule", "machine", "configuration"], page.sections
colors = [curve[0] for curve in page.curves["learning-rate"]]
assert len(set(colors)) == 2, colors
assert [c[:1] + c[2:] for c in page.curves["loss"]] == [(colors[0], False), (colors[0], True), (colors[1], False),
    (colors[1], True)], page.curves["loss"]
for number, path in enumerate(sys.argv[2:]):
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    losses = [row["lm_loss"] for row in rows if "lm_loss" in row]
    validation = [row["validation_loss"] for row in rows if "validation_loss" in row]
    assert page.curves["loss"][2 * number][1] == len(losses) == 12, page.curves["loss"]
    assert page.curves["loss"][2 * number + 1][1] >= 3, page.curves["loss"]
    about = json.load(open(path + ".run.json", encoding="utf-8"))
    summary = {name: cells[number] for name, cells in page.rows["summary"].items()}
    assert summary["metrics file"] == path, summary
    assert abs(float(summary["last training loss"]) - losses[-1]) < 1e-4, summary
    assert abs(float(summary["lowest validation loss"]) - min(validation)) < 1e-4, summary
    assert summary["run"] == about["run"] == rows[0]["run"], summary
    assert page.rows["layout"]["pipeline stages"][number] == str(about["layout"]["pipeline"]) == str(number + 1)
    assert page.rows["machine"]["host of rank 0"][number] == about["machine"]["host"]
    total = sum(c["bytes"] for c in about["memory"]["classes"])
    value, unit = page.rows["memory"]["total"][number].split()
    assert abs(float(value) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit] / total - 1) < 0.01, (value, unit, total)
    for option in about["options"]:
        shown = page.rows["configuration"][option["option"]][number]
        assert shown == f'{option["value"]} {option["set_by"]}', (option, shown)
options = page.rows["configuration"]
assert options["seed"] == ["1234 default", "99 command line"], options["seed"]
assert options["data_parallel_size" if "data_parallel_size" in options
    else "ffn_hidden_size"][0].endswith("derived"), options["ffn_hidden_size"]
