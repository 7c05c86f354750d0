# SPDX-License-Identifier: Apache-2.0
from hora._errors import HoraInternalError as HorovodInternalError
from hora.elastic import HostsUpdatedInterrupt


class HorovodVersionMismatchError(ImportError):
    """Another version of a framework than the one of the build. Hora never raises it: one build serves every
    version."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """The message of HorovodVersionMismatchError."""
    return f"built for {name} {version}, but {name} {installed_version} is installed"


__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]
