"""The offline questions: each verb in each of its forms over fixed inputs, and inputs that are wrong."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.archives import extract_all
from tests.goldens.places import DATA, INPUTS
from tests.goldens.servers import make_certificate
from tests.vpas import vpa_json

Json = dict[str, Any]

VERBS: Final = (
    *("run", "agent", "top", "recommend", "plan", "events", "pause", "resume", "pin", "unpin", "restore", "doctor"),
    *(
        "why",
        "audit",
        "simulate",
        "record",
        "replay",
        "webhook",
        "workloads",
        "backfill",
        "gitops",
        "buffers",
        "cost",
        "report",
        "policy",
        "ui",
    ),
    *("admission", "migrate", "retire", "settings"),
)
POLICIES: Final = ("cruise", "vpa", "crane", "plimsoll")
_SOCKET: Final = ("--socket", "agent.sock")
_OFFLINE: Final = ("--pods", "pods.json", "--node-file", "node.json", "--namespaces", "namespaces.json")
_AUDIT: Final = ("--pods", "pods.json", "--cgroup-mount", "$WORK/cgroup", "--node", "worker-7")
_CAPACITY: Final = ("--capacity-cpu", "4", "--capacity-memory", "8Gi")
_YOUNG: Final = ("--set", "recommend.minSpanSeconds=60")
_STATE: Final = ("--state-dir", "$WORK/state", "--pods", "pods.json", *_YOUNG)
_WEBHOOK: Final = ("--webhook=$URL", "--token-file=token", "--ca-file=tls.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command."""

    name: str
    words: tuple[str, ...]
    """``$WORK`` is the folder, ``$URL`` the webhook's address."""
    files: tuple[str, ...] = ()
    """What it leaves."""
    stdin: str = ""
    environment: Mapping[str, str] | None = None

    @property
    def asks_agent(self) -> bool:
        """Return whether a socket that answers is needed."""
        return "agent.sock" in self.words

    @property
    def asks_webhook(self) -> bool:
        """Return whether a webhook that answers is needed."""
        return "--webhook=$URL" in self.words


def prepare(folder: Path) -> None:
    """Put all inputs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in INPUTS.iterdir():
        if file.suffix in (".json", ".plimsoll"):
            shutil.copy(file, folder / file.name)
    with tarfile.open(INPUTS / "state.tar.gz") as archive:
        extract_all(archive, folder / "state")
    (folder / "token").write_text("good\n", encoding="utf-8")
    (folder / "junk").write_text("not what is expected\n", encoding="utf-8")
    (folder / "settings.yaml").write_text(
        "sampling: {intervalSeconds: 2}\nrecommend: {policy: vpa}\n", encoding="utf-8"
    )
    (folder / "wrong.yaml").write_text("sampling: {intervalSeconds: -2, colour: red}\nrecomend: {}\n", encoding="utf-8")
    make_certificate(folder)
    _write_trace(folder / "trace.csv")
    _write_admission(folder)
    _write_vpas(folder / "vpas.json")
    write_cgroups(folder / "cgroup")
    other = json.loads((folder / "socket.json").read_text(encoding="utf-8"))["recommend"]
    other["items"] = [{**advice, "identity": {**advice["identity"]}} for advice in other["items"]]
    (folder / "recommendations.json").write_text(json.dumps(other), encoding="utf-8")
    shutil.copy(DATA.parent / "traces" / "changes.csv.gz", folder / "changes.csv.gz")


def _write_trace(path: Path) -> None:
    """Write ten hours of two loads: one that rises by steps, one with a peak each hour."""
    lines = ["time,container,cpu_millicores,memory_bytes,psi"]
    for minute in range(600):
        at = f"2026-03-02T{minute // 60:02d}:{minute % 60:02d}:00Z"
        lines.append(f"{at},shop/web/app,{100 + 50 * (minute // 120)},{(64 + minute // 60) << 20},0.0{minute % 10}")
        lines.append(f"{at},shop/db/postgres,{900 if minute % 60 < 5 else 80},{256 << 20},0")
    text = "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    with gzip.open(path.with_suffix(".csv.gz"), "wt") as packed:
        packed.write(text)


def _write_vpas(path: Path) -> None:
    """Write an object of our recommender, one of VPA's own and one that is not understood."""
    mode, bounds = {"updateMode": "InPlaceOrRecreate"}, {"containerName": "*", "minAllowed": {"cpu": "50m"}}
    ours = vpa_json({"updatePolicy": mode, "resourcePolicy": {"containerPolicies": [bounds]}})
    theirs = vpa_json({"recommenders": []}, name="theirs")
    odd = vpa_json({"updatePolicy": {"updateMode": "Sometimes"}}, name="odd")
    path.write_text(json.dumps({"kind": "List", "items": [ours, theirs, odd]}), encoding="utf-8")


def _write_admission(folder: Path) -> None:
    app = {
        "name": "app",
        "image": "x",
        "resources": {
            "requests": {"cpu": "500m", "memory": "300M"},
            "limits": {"cpu": "1", "memory": "600M"},
        },
    }
    sidecar = {"name": "proxy", "image": "x"}
    known = {
        "namespace": "shop",
        "kind": "Deployment",
        "name": "web",
        "container": "app",
        "source": "workload",
        "policy": "cruise",
        "cpuRequestMillicores": 300,
        "memoryRequestBytes": 200_000_000,
        "memoryMaxBytes": None,
        "historySeconds": 259_200.0,
        "pods": 3,
        "newestAgeSeconds": 12.5,
    }
    orders: dict[str, dict[str, str]] = {
        "enforced": {"mode": "enforce"},
        "recommended": {"mode": "recommend"},
        "off": {"mode": "off"},
        "bounded": {"mode": "enforce", "min-cpu": "400m", "max-memory": "250M"},
        "misspelt": {"mode": "enfroce", "colour": "red", "max-cpu": "lots"},
    }
    for name, wanted in orders.items():
        notes = {f"plimsoll.dev/{key}": value for key, value in wanted.items()}
        spec = {"containers": [app, sidecar]}
        document = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"template": {"metadata": {"annotations": notes}, "spec": spec}},
        }
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "known.json").write_text(json.dumps({"estimates": [known]}), encoding="utf-8")
    limits = [{"type": "Container", "max": {"cpu": "350m"}, "min": {"memory": "220M"}}]
    (folder / "nodes.json").write_text(
        json.dumps({"kind": "List", "items": [json.loads((folder / "node.json").read_text(encoding="utf-8"))]}),
        encoding="utf-8",
    )
    (folder / "limits.json").write_text(json.dumps({"limits": limits}), encoding="utf-8")


_DEFAULTS: Final = {
    "cgroup.controllers": "cpu memory pids",
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\nnr_periods 0\nnr_throttled 0\n"
    "throttled_usec 0",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "memory.current": "67108864",
    "memory.stat": "anon 60000000\nfile 4000000\ninactive_file 1000000",
    "memory.peak": "77108864",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.oom.group": "0",
    "pids.max": "max",
    "cgroup.procs": "",
    "cgroup.events": "populated 1\nfrozen 0",
}


def write_cgroups(mount: Path) -> None:
    """Write a kubelet's tree as plain files: the pods of ``pods.json``, with one value that drifted."""
    web, database = "0f0e0d0c-0b0a-4908-8706-050403020101", "0f0e0d0c-0b0a-4908-8706-050403020102"
    burstable = "kubepods/burstable"
    cgroups: dict[str, dict[str, str]] = {
        "": {},
        "kubepods": {"cpu.weight": "157", "memory.max": str(8 << 30)},
        "kubepods/besteffort": {"cpu.weight": "1"},
        burstable: {"cpu.weight": "34"},
        f"{burstable}/pod{web}": {"cpu.weight": "24"},
        f"{burstable}/pod{web}/{'10' * 32}": {
            "cpu.weight": "59",
            "memory.max": str(512 << 20),
            "memory.oom.group": "1",
        },
        f"{burstable}/pod{web}/{'11' * 32}": {"cpu.weight": "4", "memory.oom.group": "1"},
        f"{burstable}/pod{database}": {"cpu.weight": "10"},
        f"{burstable}/pod{database}/{'20' * 32}": {"cpu.weight": "99", "memory.oom.group": "1"},
    }
    for path, values in cgroups.items():
        folder = mount / path
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in {**_DEFAULTS, **values}.items():
            (folder / file).write_text(text + "\n", encoding="utf-8")


def _forms(name: str, words: tuple[str, ...], *forms: str, files: tuple[str, ...] = ()) -> list[Case]:
    """Ask the same in several forms of output."""
    return [Case(name=f"{name}-{form}", words=(*words, "-o", form), files=files) for form in forms]


def _socket_cases() -> list[Case]:
    top, recommend, plan, events, why = ((verb, *_SOCKET) for verb in ("top", "recommend", "plan", "events", "why"))
    views = [
        Case(name="top-wide", words=(*top, "--once", "--width", "200")),
        Case(name="top-narrow", words=(*top, "--once", "--width", "60", "--pods-only")),
        Case(name="top-filtered", words=(*top, "--once", "--filter", "ns=shop", "--sort", "memory", "--reverse")),
        Case(name="top-limited", words=(*top, "--once", "--limit", "2", "--sort", "name")),
        Case(name="top-past", words=(*top, "--once", "--at", "5m ago")),
        Case(name="top-nothing", words=(*top, "--once", "--pod", "nobody")),
        Case(name="recommend-wide", words=(*recommend, "--width", "200")),
        Case(name="recommend-narrow", words=(*recommend, "--width", "70")),
        Case(name="recommend-cpu", words=(*recommend, "--sort", "cpu", "-n", "shop")),
        Case(name="recommend-nothing", words=(*recommend, "-n", "nowhere")),
        Case(name="plan-invariants", words=(*plan, "--invariants", "--width", "200")),
        Case(name="plan-what-if", words=(*plan, "--what-if", "--width", "90")),
        Case(name="plan-pod", words=(*plan, "--pod", "cache-0")),
        Case(name="plan-nobody", words=(*plan, "--pod", "nobody")),
        Case(name="events-all", words=(*events, "--all", "--limit", "0")),
        Case(name="events-asked", words=(*events, "--pod", "web", "-n", "shop", "--since", "1h", "--limit", "3")),
        Case(name="events-outcome", words=(*events, "--outcome", "rejected,conflict", "--action", "resize")),
        Case(name="events-narrow", words=(*events, "--width", "70")),
        Case(name="why-plot", words=(*why, "web", "--plot", "--since", "2h")),
        Case(name="why-narrow", words=(*why, "web/app", "--width", "70")),
        Case(name="why-picture", words=(*why, "web", "--png", "why.png")),
    ]
    return [
        *_forms("top", (*top, "--once"), "table", "json", "csv", "openmetrics"),
        *_forms("recommend", recommend, "table", "json", "yaml", "csv", "html", "patch"),
        *_forms("plan", plan, "table", "json", "csv", "patch"),
        *_forms("events", events, "table", "json"),
        *_forms("why", (*why, "web"), "table", "json"),
        *views,
    ]


def _file_cases() -> list[Case]:
    replay, state_why = ("replay", "node.plimsoll"), ("why", *_STATE)
    asked = [
        Case(name=f"replay-recommend-{policy}", words=(*replay, "recommend", "-o", "json", "--policy", policy, *_YOUNG))
        for policy in POLICIES
    ]
    asked += [
        Case(name=f"replay-why-{policy}", words=(*replay, "why", "web/app", "--policy", policy, *_YOUNG))
        for policy in POLICIES
    ]
    asked += [
        Case(name=f"state-recommend-{policy}", words=("recommend", *_STATE, "--policy", policy)) for policy in POLICIES
    ]
    return [
        *_forms("replay", replay, "table", "json"),
        *_forms("replay-recommend", (*replay, "recommend", *_YOUNG), "table", "yaml", "csv", "html", "patch"),
        *_forms("replay-why", (*replay, "why", "web", *_YOUNG), "json"),
        *asked,
        Case(name="replay-past", words=(*replay, "--at", "2m ago", "recommend", *_YOUNG)),
        Case(name="replay-plot", words=(*replay, "why", "db", "--plot", *_YOUNG)),
        Case(
            name="replay-bounds",
            words=(
                *replay,
                "recommend",
                *_YOUNG,
                "--bounds-max-cpu-millicores",
                "200",
                "--cruise-neighbour-hours",
                "0",
            ),
        ),
        *_forms("state-recommend", ("recommend", *_STATE), "json", "csv"),
        *_forms("state-why", (*state_why, "shop/web-7d9c5b8f4-x2x9k/app"), "table", "json"),
        *_forms("state-events", ("events", "--state-dir", "$WORK/state", "--all"), "table", "json"),
        Case(name="record-state", words=("record", *_STATE, "-o", "new.plimsoll")),
        *_forms("plan-files", ("plan", *_OFFLINE, "--recommendations", "recommendations.json"), "table", "json", "csv"),
        *_forms("plan-bare", ("plan", *_OFFLINE, "--invariants", "--what-if"), "table", "json", "csv", "patch"),
        *_forms("audit", ("audit", *_AUDIT, *_CAPACITY), "table", "json"),
        Case(name="audit-all", words=("audit", *_AUDIT, "--all")),
        Case(
            name="audit-kubelet",
            words=(
                *("audit", *_AUDIT, *_CAPACITY, "--all", "--memory-throttling-factor", "0.9", "--pod-pids-limit", "99"),
                *("--kube-reserved", "cpu=100m,memory=200Mi", "--memory-reservation-policy", "TieredReservation"),
                *("--single-process-oom-kill", "--no-cpu-cfs-quota"),
            ),
        ),
        Case(name="simulate", words=("simulate", "trace.csv", "--html", "report.html"), files=("report.html",)),
        Case(name="simulate-json", words=("simulate", "trace.csv.gz", "-o", "json", "--cpu-request", "500m")),
        Case(name="simulate-rules", words=("simulate", "trace.csv", "--policy", "vpa,crane", "--cool-down", "0")),
        Case(name="simulate-changes", words=("simulate", "changes.csv.gz", "-o", "json")),
        Case(name="simulate-recording", words=("simulate", "node.plimsoll", "--policy", "cruise")),
    ]


def _admission_cases() -> list[Case]:
    words = ("--history", "known.json", "--namespaces", "namespaces.json")
    cases = []
    for name in ("enforced", "recommended", "off", "bounded", "misspelt"):
        cases += _forms(f"admission-{name}", ("admission", "--pod", f"{name}.json", *words), "table", "json")
    return [
        *cases,
        Case(name="admission-what-if", words=("admission", "--pod", "recommended.json", *words, "--what-if")),
        Case(name="admission-nodes", words=("admission", "--pod", "enforced.json", *words, "--nodes", "nodes.json")),
        Case(name="admission-bare", words=("admission", "--pod", "enforced.json", "--server-version", "v1.34.1")),
        Case(name="admission-pods", words=("admission", "--pod", "pods.json", *words, "--width", "90")),
    ]


def _webhook_cases() -> list[Case]:
    return [
        *_forms("workloads", ("workloads", *_WEBHOOK), "table", "json"),
        *_forms("workload", ("workloads", "shop/Deployment/web", *_WEBHOOK), "table", "json"),
        *_forms("policy", ("policy", "shop/Deployment/web", *_WEBHOOK), "table", "json"),
        *_forms("workloads-worst", ("workloads", "--worst", "5", *_WEBHOOK), "table", "json"),
        *_forms("cost", ("cost", *_WEBHOOK), "table", "json", "csv"),
        *_forms("cluster-events", ("events", "--cluster", *_WEBHOOK), "table", "json", "csv"),
        *_forms("report", ("report", "--weekly", *_WEBHOOK), "md", "html", "json"),
        *_forms("migrate", ("migrate", "vpa", "--file", "vpas.json"), "table", "json"),
        *_forms("buffers", ("buffers", *_WEBHOOK), "table", "json"),
        *_forms("buffer", ("buffers", "shop/room", *_WEBHOOK), "table", "json"),
        Case(name="workload-policy", words=("workloads", "shop/Deployment/web", "--policy", "vpa", *_WEBHOOK)),
        Case(name="workload-picture", words=("workloads", "shop/Deployment/web", "--png=w.png", *_WEBHOOK)),
        Case(name="workloads-namespace", words=("workloads", "-n", "shop", "--width", "70", *_WEBHOOK)),
        Case(name="workload-unknown", words=("workloads", "shop/Job/nix", *_WEBHOOK)),
        Case(name="workload-short", words=("policy", "shop/web", *_WEBHOOK)),
        Case(name="buffers-namespace", words=("buffers", "-n", "shop", *_WEBHOOK)),
        Case(name="buffer-unknown", words=("buffers", "shop/none", *_WEBHOOK)),
        Case(name="forget", words=("workloads", "--forget", "shop/Deployment/web", "--yes", *_WEBHOOK)),
        Case(name="forget-node", words=("workloads", "--forget", "--node", "a", "--since", "2d", "--yes", *_WEBHOOK)),
        Case(name="forget-unsure", words=("workloads", "--forget", "shop/Deployment/web", *_WEBHOOK), stdin="no\n"),
    ]


def _settings_cases() -> list[Case]:
    return [
        Case(name="settings", words=("settings",)),
        Case(name="settings-webhook", words=("settings", "--webhook")),
        Case(name="settings-in-force", words=("settings", "--in-force", "--state-dir", "none")),
        Case(name="settings-webhook-in-force", words=("settings", "--webhook", "--in-force")),
        Case(
            name="settings-sources",
            words=("settings", "--in-force", "--settings", "settings.yaml", "--state-dir", "none", "--port", "1"),
            environment={"PLIMSOLL_SAMPLING_INTERVAL_SECONDS": "3", "PLIMSOLL_SERVING_PORT": "2"},
        ),
    ]


_FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "": ("", "draw", "--colour", "--version extra"),
    "run": ("--for never", "--sort size", "--width 3", "--interval 0", "--port 70000", "--sampler fast", "--limit -1"),
    "agent": (
        *("--set colour=red", "--set sampling", "--settings wrong.yaml", "--settings none.yaml", "--scope moon"),
        *("--cgroup-mount relative", "--cgroup-mount $WORK/none", "--kubeconfig $WORK/junk --node a", "extra"),
        *("--set recommend.policy=best", "--set plan.fitRule=x", "--address nowhere", "--pods $WORK/junk"),
    ),
    "top": (
        *("--at soon", "-o xml", "--filter colour=red", "--socket none.sock --once", "--socket $WORK/none.sock --once"),
        *("--once --self --cgroup-mount $WORK/none", "--interval nan", "--sort size", "--limit many"),
    ),
    "recommend": (
        *("--socket $WORK/none.sock", "--policy best", "--state-dir $WORK/none", "-o xml", "--sort size"),
        *("--vpa-target-cpu-percentile 3", "--cruise-min-cpu 5", "--filter colour=red", "--pods none.json"),
        *("--state-dir $WORK/state --pods junk", "--bounds-min-cpu-millicores 9 --bounds-max-cpu-millicores 3"),
    ),
    "plan": (
        *("--socket $WORK/none.sock", "--pods pods.json", "--node-file node.json", "--pods junk --node-file node.json"),
        *("--pods pods.json --node-file junk", "--pods pods.json --node-file pods.json", "-o xml", "--width 2"),
        *("--pods pods.json --node-file node.json --recommendations junk", "--pods none.json --node-file node.json"),
        *("--pods pods.json --node-file node.json --namespaces node.json", "--set plan.fitRule=literal"),
        *("--pods - --node-file -", "--recommendations recommendations.json"),
    ),
    "events": (
        *("--socket $WORK/none.sock", "--limit many", "--action dance", "--outcome fine", "--since soon", "-o xml"),
        *("--state-dir $WORK/none", "--state-dir none", "--state-dir $WORK/state --pod nobody --since 1h"),
    ),
    "pause": ("--socket $WORK/none.sock", "30m", "--for ever", "--socket none"),
    "resume": ("--socket $WORK/none.sock", "now"),
    "pin": ("--socket $WORK/none.sock web", "web --for 0s", "web 30m", "a b"),
    "unpin": ("--socket $WORK/none.sock web", "", "web --all"),
    "restore": ("--socket $WORK/none.sock web", "", "web --all", "--all --socket $WORK/none.sock"),
    "doctor": ("-o xml", "--set colour=red", "--scope moon", "extra"),
    "why": (
        *("", "web --socket $WORK/none.sock", "web --since 8d", "web --policy best", "web --png none/x.png"),
        *("web --state-dir $WORK/none", "nobody --state-dir $WORK/state --pods pods.json", "web --vpa-target 1"),
    ),
    "audit": (
        *("", "--pods none.json", "--pods junk", "--pods pods.json --cgroup-mount $WORK/none", "--driver docker"),
        *("--pods pods.json --capacity-cpu lots", "--pods pods.json --kube-reserved cpu", "--pods pods.json --node b"),
        *("--pods pods.json --qos-reserved memory=200%", "--pods pods.json --cpu-cfs-period 5s", "-o csv"),
    ),
    "simulate": (
        *("", "none.csv", "junk", "trace.csv --policy best", "trace.csv --decision-interval 30", "trace.csv -o csv"),
        *("trace.csv --html none/x.html", "trace.csv --cpu-request lots", "trace.csv --memory-limit-ratio 0"),
        *("trace.csv trace.csv", "state", "trace.csv --cool-down -1", "pods.json"),
    ),
    "record": (
        *("", "-o none/r.plimsoll", "-o .", "-o r.plimsoll --for ever", "-o r.plimsoll --state-dir $WORK/none"),
        *("-o r.plimsoll --state-dir $WORK/state --pod nobody", "-o r.plimsoll --filter colour=red"),
    ),
    "replay": (
        *("", "none.plimsoll", "junk", "node.plimsoll forecast", "node.plimsoll --at noon recommend"),
        *("node.plimsoll --at 1m", "node.plimsoll -o json recommend", "node.plimsoll --at 1d recommend"),
        *("node.plimsoll why", "node.plimsoll why nobody", "node.plimsoll recommend --state-dir /tmp", "pods.json"),
        *("node.plimsoll recommend --policy best", "node.plimsoll recommend --socket /x"),
    ),
    "webhook": (
        *("--listen here", "--listen 0.0.0.0:99999", "--tls-cert tls.crt", "--tls-cert none --tls-key none"),
        *("--set colour=red", "--database mysql://h/n --listen 127.0.0.1:0", "--kubeconfig junk --listen 127.0.0.1:0"),
        *("--set listening.workers=0 --set access.bodyBytes=1", "--settings wrong.yaml"),
    ),
    "workloads": (
        *("", "--token-file none", "--token-file token --webhook http://h", "--token-file token --ca-file junk"),
        *("shop --token-file token", "shop/web -n bank --token-file token", "--png x.png --token-file token"),
        *("--forget --token-file token", "--since 1d --token-file token", "--kubeconfig junk", "--yes"),
        *("--token-file token --webhook https://127.0.0.1:1", "--account nobody --kubeconfig junk"),
    ),
    "backfill": (
        *("", "--prometheus ftp://h", "--prometheus http://h --days 15", "--prometheus http://h --label a"),
        *("--prometheus http://h --bearer-file none", "--prometheus http://h --progress junk"),
        *("--prometheus http://h --token-file none", "--prometheus http://127.0.0.1:1 --dry-run"),
    ),
    "buffers": ("", "a/b/c --token-file token", "shop/room -n team --token-file token", "room --token-file token"),
    "policy": ("", "shop --token-file token", "a/b/c/d --token-file token", "shop/web --token-file none"),
    "admission": (
        *("", "--pod none.json", "--pod junk", "--pod node.json", "--pod enforced.json --history junk", "-o csv"),
        *("--pod enforced.json --namespaces pods.json", "--pod enforced.json --nodes junk", "--pod - --history -"),
        *("--pod enforced.json --server-version new", "--pod enforced.json --set admission.colour=red"),
    ),
    "migrate": (
        "",
        "deployments",
        "vpa --kubeconfig junk",
        "vpa --file none",
        "vpa --file junk",
        "vpa --file node.json",
    ),
    "retire": ("", "--kubeconfig junk", "--timeout soon", "--kubeconfig none", "extra"),
    "settings": ("--settings wrong.yaml", "--webhook --settings wrong.yaml", "--set a=b", "--port x --interval y"),
}


def _fault_cases() -> list[Case]:
    return [
        Case(
            name=f"fault-{verb or 'plimsoll'}-{number:02d}",
            words=tuple([verb, *words.split()] if verb else words.split()),
        )
        for verb, faults in _FAULTS.items()
        for number, words in enumerate(faults)
    ]


def all_cases() -> list[Case]:
    """Return every case; names are unique, and those of the files that are written."""
    cases = [
        Case(name="help", words=("--help",)),
        Case(name="version", words=("--version",)),
        *(Case(name=f"help-{verb}", words=(verb, "--help")) for verb in VERBS),
        *_settings_cases(),
        *_socket_cases(),
        *_file_cases(),
        *_admission_cases(),
        *_webhook_cases(),
        *_fault_cases(),
    ]
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
    return cases
