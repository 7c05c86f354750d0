# SPDX-License-Identifier: Apache-2.0
"""The folder by which hora.run gives ranks their function: other users know its name."""

import os
import pathlib
import pickle
import subprocess
import sys

import pytest
from hora._folder import PrivateFolder
from hora._launch import CALL

OTHER_USER = 65534


def plant(folder: pathlib.Path, what: str, victim: pathlib.Path) -> None:
    """Leaves something under the name of the caller's directory, as another user would on a host that does
    not have it."""
    real = folder.with_name("real") if what == "a link" else folder
    real.mkdir(mode=0o700)
    (real / CALL).write_bytes(pickle.dumps(([], pickle.dumps((victim.write_text, ("theirs",), {})))))
    if what == "a link":
        folder.symlink_to(real)
    elif what == "a folder of theirs":
        os.chown(folder, OTHER_USER, OTHER_USER)
    else:
        folder.chmod(0o777)


@pytest.mark.parametrize("what", ["a folder of theirs", "an open folder", "a link"])
def test_a_function_from_a_folder_of_another_user_is_not_called(tmp_path: pathlib.Path, what: str):
    if what == "a folder of theirs" and os.geteuid() != 0:
        pytest.skip("only root can make one")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "call"
    plant(folder, what, victim)
    ended = subprocess.run(
        [sys.executable, "-m", "hora._rank_main", folder],
        env=os.environ | {"HORA_RANK": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert victim.read_text() == "mine"
    assert ended.returncode == 1
    assert f"hora.run: {folder} " in ended.stderr
    assert "no function is taken from there; set TMPDIR" in ended.stderr
    assert not list(folder.glob("result*"))


def test_files_are_written_for_this_user_alone_and_through_no_link(tmp_path: pathlib.Path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    place = tmp_path / "folder"
    place.mkdir(mode=0o700)
    (place / "name").symlink_to(victim)
    folder = PrivateFolder(place)
    with pytest.raises(OSError, match="symbolic link"):
        folder.read("name")
    folder.write("name", b"text")
    assert folder.read("name") == b"text"
    assert victim.read_text() == "mine"
    assert (place / "name").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileNotFoundError):
        PrivateFolder(tmp_path / "none")
