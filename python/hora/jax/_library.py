# SPDX-License-Identifier: Apache-2.0
"""The compiled functions that XLA calls: libhora_jax.so, from frameworks/jax."""

from __future__ import annotations

import ctypes
import functools
import pathlib
import threading
from typing import Any

import jax

from hora._errors import HoraUnavailableError

TARGET = "hora"  # the name of the custom call in compiled programs

_FILE = pathlib.Path(__file__).resolve().parent.parent / "libhora_jax.so"
_PLATFORMS = {"cpu": ("cpu", "hora_jax_execute_on_host"), "gpu": ("CUDA", "hora_jax_execute_on_gpu")}


_lock = threading.Lock()


def register() -> None:
    """Makes the functions known to XLA, once in a process.

    Raises:
        HoraUnavailableError: this Hora was built without them.
    """
    with _lock:
        _register()


@functools.cache
def _register() -> None:
    if not _FILE.exists():
        raise HoraUnavailableError(
            f"{_FILE} is not there: this Hora was built without jaxlib. Install a wheel of Hora, or jaxlib "
            "before you build Hora"
        )
    library = ctypes.CDLL(str(_FILE))
    # XLA wants a type before the functions that use it, and keeps this order only after its start.
    for platform in {"cpu", jax.default_backend()} & _PLATFORMS.keys():
        name, execute = _PLATFORMS[platform]
        described = {
            "type_id": _capsule(library.hora_jax_operation_id),
            "type_info": _capsule(library.hora_jax_operation_info),
        }
        jax.ffi.register_ffi_type("hora.Operation", described, platform=name)
        functions = {
            "instantiate": jax.ffi.pycapsule(library.hora_jax_instantiate),
            "execute": jax.ffi.pycapsule(getattr(library, execute)),
        }
        jax.ffi.register_ffi_target(TARGET, functions, platform=name)


def _capsule(address_of: Any) -> Any:
    """A capsule of the pointer that a function of the library returns."""
    address_of.restype = ctypes.c_void_p
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(address_of(), None, None)
