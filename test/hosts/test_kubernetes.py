# SPDX-License-Identifier: Apache-2.0
"""The manifests of examples/kubernetes have the settings that the ranks need to find each other. No cluster
is at hand."""

import pathlib
import re
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs pyyaml: requirements.txt lists it")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/kubernetes"
CONFIG = (ROOT / "core/base/config.cc").read_text()


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


def of_kind(name: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents(name) if each["kind"] == kind]
    return found


def test_an_indexed_job_starts_every_rank_once():
    job = of_kind("indexed-job.yaml", "Job")
    assert job["apiVersion"] == "batch/v1"
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    assert spec["template"]["spec"]["restartPolicy"] in ("Never", "OnFailure")  # a Job takes no other
    (container,) = spec["template"]["spec"]["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["HORA_SIZE"]["value"] == str(spec["completions"])
    assert (
        variables["HORA_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
        == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )
    assert all(
        isinstance(each.get("value", ""), str) for each in container["env"]
    )  # Kubernetes refuses numbers


def test_an_indexed_job_finds_rank_0_by_the_name_of_its_pod():
    service, job = of_kind("indexed-job.yaml", "Service"), of_kind("indexed-job.yaml", "Job")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert service["spec"]["clusterIP"] == "None"  # headless: the pods' names lead to the pods
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {
        "job-name": job["metadata"]["name"]
    }  # a label that every Job gives its pods
    variables = {each["name"]: each.get("value") for each in container["env"]}
    host, _, port = variables["HORA_COORDINATOR"].partition(":")
    assert host == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert container["ports"] == [{"containerPort": int(port)}]


def test_an_indexed_job_mounts_a_secret_for_one_user():
    pod = of_kind("indexed-job.yaml", "Job")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert volume["secret"]["defaultMode"] & 0o077 == 0
    assert "fsGroup" not in pod.get("securityContext", {})
    assert mount["name"] == volume["name"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    key = re.search(
        rf"create secret generic {volume['secret']['secretName']} --from-file=(\w+)",
        (FOLDER / "indexed-job.yaml").read_text(),
    )
    assert key
    assert variables["HORA_SECRET_FILE"] == f"{mount['mountPath']}/{key[1]}"


def test_an_mpi_job_has_what_the_operator_wants():
    job = of_kind("mpijob.yaml", "MPIJob")
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    spec = job["spec"]
    replicas = spec["mpiReplicaSpecs"]
    assert set(replicas) == {"Launcher", "Worker"}
    assert replicas["Launcher"]["replicas"] == 1
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
    (worker,) = replicas["Worker"]["template"]["spec"]["containers"]
    ranks = re.search(r"exec hrun -np (\d+) --hostfile /etc/mpi/hostfile ", launcher["command"][-1])
    assert ranks
    assert int(ranks[1]) == spec["slotsPerWorker"] * replicas["Worker"]["replicas"]
    assert spec["mpiImplementation"] == "OpenMPI"  # whose hostfile hrun reads: host slots=N
    assert "sshd" in worker["command"][-1]
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 22}
    assert spec["sshAuthMountPath"] == "/root/.ssh"


@pytest.mark.parametrize("name", ["trainer-torch.yaml", "trainer-mpi.yaml"])
def test_a_job_of_trainer_fits_its_runtime(name: str):
    runtime, job = of_kind(name, "ClusterTrainingRuntime"), of_kind(name, "TrainJob")
    assert runtime["apiVersion"] == job["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    trainer = job["spec"]["trainer"]
    assert trainer["numNodes"] == runtime["spec"]["mlPolicy"]["numNodes"]
    jobs = {each["name"]: each["template"] for each in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    # Trainer puts the job's settings into the container `node` of the part that has this label.
    step = "trainer.kubeflow.org/trainjob-ancestor-step"
    (of_trainer,) = [each for each in jobs.values() if step in each.get("metadata", {}).get("labels", {})]
    (container,) = of_trainer["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "node"
    ranks = trainer["numNodes"] * trainer["numProcPerNode"]
    if "mpi" in runtime["spec"]["mlPolicy"]:
        assert runtime["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] == trainer["numProcPerNode"]
        assert f"exec hrun -np {ranks} --hostfile /etc/mpi/hostfile " in container["command"][-1]
        (node,) = jobs["node"]["spec"]["template"]["spec"]["containers"]
        assert "sshd" in node["command"][-1]
    else:
        assert container["command"][0] == "torchrun"  # which reads PET_NNODES and the others


@pytest.mark.parametrize(
    "name", ["indexed-job.yaml", "mpijob.yaml", "trainer-torch.yaml", "trainer-mpi.yaml"]
)
def test_manifests_set_no_variable_that_means_nothing_and_run_what_the_image_has(name: str):
    text = (FOLDER / name).read_text()
    for variable in re.findall(r"\bHORA_[A-Z_]+", text):
        assert f'"{variable}"' in CONFIG, variable
    for program in re.findall(r"examples/[\w/]+\.py", text):
        assert (ROOT / program).exists()
