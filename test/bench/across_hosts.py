# SPDX-License-Identifier: Apache-2.0
"""Compares allreduce between two hosts with what the link allows, with Open MPI over TCP, and with Gloo.

The hosts are network namespaces, joined by a link of a given rate (tbf) and, where the kernel has netem, delay. Hora, the
raw link and Open MPI take turns in the same processes; Gloo, in processes of its own, takes turns with all of them. Needs
root. On one machine both hosts share its cores: see the raw column for what they allow at best.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import stat
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SUBNET = "10.213.7"
HOSTS = ("a", "b")


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


def inside(name: str) -> list[str]:
    return ["ip", "netns", "exec", name]


@contextlib.contextmanager
def two_hosts(prefix: str, rate: str, delay: str) -> Iterator[bool]:
    """Two namespaces and the link between them; whether it has the delay."""
    names = [f"{prefix}-{host}" for host in HOSTS]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            for interface in ("lo", "eth0"):
                ip("-n", name, "link", "set", interface, "up")
        yield all([shape(name, rate, delay) for name in names])
    finally:
        for name in names:
            ip("netns", "delete", name, check=False)


def shape(name: str, rate: str, delay: str) -> bool:
    """Limits what leaves a host. The bucket is a millisecond's worth."""
    device = [*inside(name), "tc", "qdisc", "add", "dev", "eth0"]
    delayed = subprocess.run([*device, "root", "handle", "1:", "netem", "delay", delay], capture_output=True, check=False).returncode == 0
    parent = ["parent", "1:"] if delayed else ["root"]
    number, unit = re.fullmatch(r"(\d+)([mg])bit", rate).groups()  # type: ignore[union-attr]
    burst = int(number) * (10**9 if unit == "g" else 10**6) // 8 // 1000
    subprocess.run([*device, *parent, "tbf", "rate", rate, "burst", str(max(burst, 16000)), "latency", "20ms"], check=True)
    return delayed


def ssh_stand_in(folder: str, prefix: str) -> str:
    """What mpirun calls as `ssh HOST COMMAND`: enters the namespace that has that address, under a name of its own."""
    script = pathlib.Path(folder, "enter")
    script.write_text(
        f'#!/bin/sh\nhost=$1; shift\ncase $host in *.1) name={prefix}-a;; *) name={prefix}-b;; esac\nexec ip netns exec $name unshare --uts sh -c "hostname $name; $*"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def run_bench(bench: str, folder: str, prefix: str, per_host: int, options: list[str]) -> list[dict[str, object]]:
    result = pathlib.Path(folder, "bench.json")
    mpirun = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "--map-by",
        "slot",
        "--bind-to",
        "none",
        "--host",
        ",".join(f"{SUBNET}.{number}:{per_host}" for number in (1, 2)),
        "-np",
        str(2 * per_host),
    ]
    settings = {
        "plm_rsh_agent": ssh_stand_in(folder, prefix),
        "btl": "tcp,self",
        "pml": "ob1",
        "btl_tcp_if_include": f"{SUBNET}.0/24",
        "oob_tcp_if_include": f"{SUBNET}.0/24",
    }
    for name, value in settings.items():
        mpirun += ["--mca", name, value]
    command = [bench, "allreduce", "--level", "hosts", "--peer", "mpi", "--json", str(result), *options]
    start = f'hostname {prefix}-a; exec "$@"'
    subprocess.run([*inside(f"{prefix}-a"), "unshare", "--uts", "sh", "-c", start, "sh", *mpirun, *command], check=True, stdout=subprocess.DEVNULL, timeout=1200)
    rows: list[dict[str, object]] = json.loads(result.read_text())["rows"]
    return rows


def run_gloo(prefix: str, per_host: int, port: int, iterations: int, sizes: list[int]) -> dict[str, float]:
    ranks = 2 * per_host
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    processes = []
    for rank in range(ranks):
        command = [
            *inside(f"{prefix}-{HOSTS[rank // per_host]}"),
            sys.executable,
            str(HERE / "gloo_times.py"),
            str(rank),
            str(ranks),
            f"{SUBNET}.1:{port}",
            str(iterations),
            *map(str, sizes),
        ]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=1200)[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        raise SystemExit("Gloo failed")
    times: dict[str, float] = json.loads(outputs[0].splitlines()[-1])
    return times


def compare(arguments: argparse.Namespace, rate: str, per_host: int) -> None:
    sizes = [int(size) for size in arguments.sizes.split(",")]
    collected: dict[int, dict[str, list[float]]] = {size: {} for size in sizes}
    with two_hosts(arguments.prefix, rate, arguments.delay) as delayed, tempfile.TemporaryDirectory() as folder:
        for turn in range(arguments.turns):
            for size in sizes:
                iterations = arguments.iterations if size > 1 << 16 else 20 * arguments.iterations
                options = ["-b", str(size), "-e", str(size), "-n", str(iterations), "--blocks", "2"]
                row = run_bench(arguments.bench, folder, arguments.prefix, per_host, options)[0]
                for name, figure in row.items():
                    if isinstance(figure, dict):
                        collected[size].setdefault(name, []).append(figure["us"])
            if arguments.gloo:
                for size, time in run_gloo(arguments.prefix, per_host, 29600 + turn, arguments.iterations, sizes).items():
                    collected[int(size)].setdefault("gloo", []).append(time)
    show(rate, per_host, arguments.delay if delayed else "no delay: this kernel has no netem", collected)


def show(rate: str, per_host: int, delay: str, collected: dict[int, dict[str, list[float]]]) -> None:
    print(f"\n{rate}, {delay}, {per_host} rank(s) per host; median of turns, in brackets the range; times in us")
    for size, columns in collected.items():
        times = {name: statistics.median(values) for name, values in columns.items()}
        ratios = {
            "of the raw link": times["raw"] / times["hora"],
            "fp16 wire": times["hora"] / times["half"],
            "x Open MPI": times["mpi"] / times["hora"],
        }
        if "gloo" in times:
            ratios["x Gloo"] = times["gloo"] / times["hora"]
        print(f"{size:>11} B  " + "  ".join(f"{name} {times[name]:.0f} [{min(values):.0f}-{max(values):.0f}]" for name, values in columns.items()))
        print(" " * 15 + "  ".join(f"{value:.2f} {name}" for name, value in ratios.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1gbit,10gbit", help="of the link, such as 1gbit (default: %(default)s)")
    parser.add_argument("--bench", default=str(ROOT / "build/bin/hora_bench"), help="the program (default: %(default)s)")
    parser.add_argument("--delay", default="50us", help="in each direction (default: %(default)s)")
    parser.add_argument("--per-host", default="1,2,4", help="ranks on each host (default: %(default)s)")
    parser.add_argument("--sizes", default="8,4096,1048576,16777216,67108864", help="bytes (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=5, help="for large sizes in each block (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="in which all contenders take part (default: %(default)s)")
    parser.add_argument("--no-gloo", dest="gloo", action="store_false", help="leave Gloo out")
    parser.add_argument("--prefix", default="hora-bench", help="of the namespaces' names (default: %(default)s)")
    arguments = parser.parse_args()
    for rate in arguments.rates.split(","):
        for per_host in map(int, arguments.per_host.split(",")):
            compare(arguments, rate, per_host)


if __name__ == "__main__":
    main()
