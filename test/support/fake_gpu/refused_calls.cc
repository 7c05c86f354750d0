// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that PyTorch 2.11 to 2.15 names and that neither Hora nor its tests call. PyTorch's
// library cannot be loaded without them. Each one does nothing and returns ncclInvalidUsage, whatever its
// arguments are: no test shows what NCCL does here. <nccl.h> is not included, because it declares those that
// its own version has.
#define REFUSE(function) \
  extern "C" int function() { return 5; /* ncclInvalidUsage */ }

REFUSE(ncclAlltoAll)
REFUSE(ncclBcast)
REFUSE(ncclCommCount)
REFUSE(ncclCommGetUniqueId)
REFUSE(ncclCommGrow)
REFUSE(ncclCommInitAll)
REFUSE(ncclCommInitRank)
REFUSE(ncclCommInitRankScalable)
REFUSE(ncclCommMemStats)
REFUSE(ncclCommResume)
REFUSE(ncclCommRevoke)
REFUSE(ncclCommShrink)
REFUSE(ncclCommSuspend)
REFUSE(ncclCommUserRank)
REFUSE(ncclDevCommCreate)
REFUSE(ncclDevCommDestroy)
REFUSE(ncclGather)
REFUSE(ncclGetLsaMultimemDevicePointer)
REFUSE(ncclGetPeerDevicePointer)
REFUSE(ncclGroupSimulateEnd)
REFUSE(ncclPutSignal)
REFUSE(ncclSignal)
REFUSE(ncclWaitSignal)
REFUSE(ncclWinGetUserPtr)
