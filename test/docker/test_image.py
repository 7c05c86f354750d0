# SPDX-License-Identifier: Apache-2.0
"""The files in docker/ fit each other and the rest of the tree. test/docker/image.py builds the image, which
takes minutes."""

import pathlib
import re
import subprocess
from typing import Any

import pytest
import yaml
from image import DOCKERFILE, instructions

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker/compose.yaml"
Compose = dict[str, dict[str, Any]]
KNOWN = {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "CMD"}


@pytest.fixture(scope="module")
def compose() -> Compose:
    return yaml.safe_load(COMPOSE.read_text())


def test_lines_of_the_dockerfile_are_instructions():
    steps = instructions(DOCKERFILE.read_text())
    assert {name for name, _ in steps} == KNOWN
    assert steps[0] == ("FROM", "debian:bookworm-slim AS build")


def test_what_run_says_is_shell():
    for name, rest in instructions(DOCKERFILE.read_text()):
        if name == "RUN":
            assert (
                subprocess.run(["sh", "-n", "-c", rest], capture_output=True, text=True, check=False).stderr
                == ""
            )


def test_the_image_has_the_packages_and_the_pytorch_of_the_project():
    text = DOCKERFILE.read_text()
    assert (
        "sed 's/#.*//' docker/packages.txt | xargs apt-get install -y --no-install-recommends libopenmpi-dev "
        in text
    )
    pinned = re.search(r"^torch==(.*)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert f"ARG TORCH={pinned[1]}\n" in text


def test_what_is_copied_is_there():
    for name, rest in instructions(DOCKERFILE.read_text()):
        if name == "COPY" and not rest.startswith("--from"):
            assert (ROOT / rest.split()[0]).exists()


def test_the_two_hosts_differ_in_their_names_alone(compose: Compose):
    a, b = compose["services"]["a"], compose["services"]["b"]
    assert (a.pop("hostname"), b.pop("hostname")) == ("a", "b")
    assert a == b


def test_every_service_runs_the_image_that_the_dockerfile_makes(compose: Compose):
    for service in compose["services"].values():
        assert service["image"] == "hora:cpu"
        build = service["build"]
        assert (COMPOSE.parent / build["context"]).resolve() == ROOT
        assert ROOT / build["dockerfile"] == DOCKERFILE


def test_a_service_waits_for_those_that_are_there(compose: Compose):
    services = compose["services"]
    waits = {name: set(service.get("depends_on", {})) for name, service in services.items()}
    assert waits == {"keys": set(), "a": {"keys"}, "b": {"keys"}, "hrun": {"a", "b"}}
    for service in services.values():
        assert [str(volume).split(":")[0] for volume in service["volumes"]] == list(compose["volumes"])


def test_there_are_no_keys_in_the_repository():
    found = subprocess.run(
        ["git", "grep", "-lE", "BEGIN [A-Z]+ PRIVATE KEY"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == ""


def test_the_program_that_it_trains_is_in_the_image(compose: Compose):
    command = compose["services"]["hrun"]["command"]
    assert (ROOT / command[-1]).exists()
    assert "cp -r examples /opt/hora/" in DOCKERFILE.read_text()
