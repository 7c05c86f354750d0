// SPDX-License-Identifier: Apache-2.0
// A library for module_test.cc that is no module.
