"""Reads the files that tests/cli/test_monitors.sh made with the packages that they are for: RUN OF JSON, RUN OF MEGATRON. Reads
the CSV files too, whose values the others must equal."""
import csv
import glob
import json
import subprocess
import sys

rows = list(csv.reader(open("csv/first/Train_Samples_train_loss.csv")))
losses = [(int(step), float(value)) for step, value in rows[1:9]]
assert rows[0] == ["step", "train_loss"] and len(losses) == 8, rows

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import metadata
except ImportError:
    print("SKIPPED: tensorboard is not installed")
else:
    def load(folder):
        board = event_accumulator.EventAccumulator(folder)
        board.Reload()
        content = board.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        return board, metadata.parse_session_start_info_plugin_data(content).hparams

    first = min(glob.glob("board/first/events*"))
    board, settings = load(first)
    found = [(e.step, e.value) for e in board.Scalars("Train/Samples/train_loss")]
    assert [s for s, _ in found] == [s for s, _ in losses], found
    assert all(abs(a - b) < 1e-5 for (_, a), (_, b) in zip(found, losses)), (found, losses)
    assert settings["num_layers"].number_value == 2 and settings["lr"].number_value == 1e-3
    assert settings["monitor_csv"].bool_value and settings["optimizer"].string_value == "adam"
    board, settings = load("board/megatron")
    norms = {(x, n): board.Scalars(f"optimizer/{x}_{n}") for x in ("variance", "variance_sqrt", "momentum", "weight")
        for n in ("l2", "l1", "abs_max")}
    assert all([e.step for e in values] == [3, 6] for values in norms.values()), norms
    assert all(e.step == 16 * 2 * k for k, e in zip((3, 6), board.Scalars("optimizer/weight_l2 vs tokens")))
    for k in (0, 1):  # what holds between norms of the same numbers
        value = {of: values[k].value for of, values in norms.items()}
        assert abs(value["variance_sqrt", "l2"] ** 2 / value["variance", "l1"] - 1) < 1e-5, value
        assert abs(value["variance_sqrt", "abs_max"] ** 2 / value["variance", "abs_max"] - 1) < 1e-5, value
        assert all(value[x, "abs_max"] < value[x, "l2"] < value[x, "l1"] for x, _ in value), value
    assert "lm loss" in board.Tags()["scalars"] and settings["wandb_project"].string_value == "verses"

try:
    import wandb
    import yaml
    from wandb.proto import wandb_internal_pb2
except ImportError:
    print("SKIPPED: wandb is not installed")
else:
    ours, megatron = sys.argv[1], sys.argv[2]
    settings = yaml.safe_load(open(glob.glob(ours + "/files/config.yaml")[0]))
    assert settings["lr"]["value"] == 1e-3 and settings["adam_eps"]["value"] == 1e-8, settings
    summary = json.load(open(ours + "/files/wandb-summary.json"))
    assert summary["Train/Samples/train_loss"] == losses[-1][1] and summary["_step"] == 64, summary

    def inspect(run):
        done = subprocess.run([sys.executable, "-m", "wandb", "leet", "inspect", "--json", run], capture_output=True,
            text=True)
        if "No such command" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def old_reader(run):  # of the packages before wandb-core
        from wandb.sdk.internal.datastore import DataStore

        store = DataStore()
        store.open_for_scan(glob.glob(run + "/*.wandb")[0])
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            yield record

    records = inspect(ours)
    if records is None:
        records = list(old_reader(ours))
        history = [{i.key: json.loads(i.value_json) for i in r.history.item} for r in records
            if r.WhichOneof("record_type") == "history"]
        assert records[1].run.project == "poems", records[1]
    else:
        text = json.dumps(records)
        assert '"poems"' in text and '"exit"' in text, text[:2000]
        history = [r["history"]["item"] for r in records if r["type"] == "history"]
        assert '"verses"' in json.dumps(inspect(megatron)) and '"lm loss"' in json.dumps(inspect(megatron))
    found = [(row["_step"], row["Train/Samples/train_loss"]) for row in history if "Train/Samples/train_loss" in row]
    assert found == losses, (found, losses)
    synced = subprocess.run([sys.executable, "-m", "wandb", "sync", "--dry-run", ours], capture_output=True, text=True)
    assert "1 run" in synced.stdout + synced.stderr, synced
