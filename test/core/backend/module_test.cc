// SPDX-License-Identifier: Apache-2.0
#include "core/backend/module.h"

#include <hora/hora.h>

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace hora {
namespace {

std::string why_no_module(const std::string& name) {
  try {
    static_cast<void>(load_module(name, {.absent = "paint it green", .unloadable = "paint it blue"}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    return error.what();
  }
  return "";
}

TEST(Module, IsFoundBesideTheLibrary) {
  const Module module = load_module("test_module", {});
  EXPECT_TRUE(module.path.ends_with("/libhora_test_module.so"));
  EXPECT_STREQ(static_cast<const char*>(module.functions), "at your service");
}

TEST(Module, KeepsAStandardLibraryOfItsOwnToItself) {
  std::string path = load_module("test_module", {}).path;
  path.replace(path.find("test_module"), std::string("test_module").size(), "test_static");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_NE(::dlsym(library, "length_of"), nullptr);
  const void* function = ::dlsym(library, "_ZNSt6localeD1Ev");  // std::locale::~locale()
  Dl_info home{};
  ASSERT_TRUE(function == nullptr || ::dladdr(function, &home) != 0);
  EXPECT_TRUE(function == nullptr || path != home.dli_fname);
  // The library stays loaded, because its standard library never frees what it keeps for exceptions.
}

TEST(Module, ThatIsNowhereIsMissedWithTheRemedy) {
  EXPECT_THAT(why_no_module("nowhere"),
              testing::AllOf(testing::StartsWith("cannot load libhora_nowhere.so: not in "),
                             testing::HasSubstr("cannot open shared object file"),
                             testing::EndsWith("paint it green")));
}

TEST(Module, WhoseLibrariesAreNotThereIsMissedWithAnotherRemedy) {
  EXPECT_THAT(
      why_no_module("test_unresolved"),
      testing::AllOf(testing::StartsWith("cannot load libhora_test_unresolved.so: "),
                     testing::HasSubstr("no_library_has_this"), testing::EndsWith("; paint it blue")));
}

TEST(Module, OfAnotherVersionIsRefused) {
  EXPECT_THAT(
      why_no_module("test_stale"),
      testing::AllOf(testing::HasSubstr("libhora_test_stale.so belongs to Hora 0.0.1, and this is Hora"),
                     testing::HasSubstr(version()), testing::EndsWith("install both from one build")));
}

TEST(Module, WithoutTheEntryFunctionIsNone) {
  EXPECT_THAT(why_no_module("test_empty"), testing::StartsWith("libhora_test_empty.so is no module of Hora"));
}

}  // namespace
}  // namespace hora
