# SPDX-License-Identifier: Apache-2.0
"""Folders that only this user can enter (the same care as core/base/folder.h)."""

from __future__ import annotations

import os
import pathlib


class PrivateFolder:
    """A folder of this user's that nobody else can enter, held open. Files are reached by its descriptor, so
    no later change of a name leads elsewhere, and no link is followed.

    Raises:
        FileNotFoundError: there is no such folder.
        PermissionError: it is a link, belongs to another user, or is open to others: what it holds may be
            anybody's.
    """

    def __init__(self, path: str | pathlib.Path) -> None:
        self._folder = -1
        try:
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except NotADirectoryError:  # a link to a directory is none, either
            raise PermissionError(f"{path} is a link or a file, not a directory") from None
        found = os.fstat(self._folder)
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to user {found.st_uid}, not to user {os.geteuid()}")
        if found.st_mode & 0o077:
            raise PermissionError(f"{path} is open to others (mode {found.st_mode & 0o7777:04o})")

    def __del__(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        with open(
            os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder), "rb"
        ) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Writes a file (mode 0600), whole or not at all, in place of an earlier one."""
        unfinished = f".{name}.part"
        descriptor = os.open(
            unfinished,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=self._folder,
        )
        with open(descriptor, "wb") as file:
            file.write(content)
        os.rename(unfinished, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
