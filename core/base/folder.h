// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/descriptor.h"

#include <sys/types.h>

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace hora {

// Other users may write to the temporary directory. A name that they can guess there may be a link of theirs,
// or a folder of theirs with links in it. Hora writes files by this class alone: it follows no link, and
// checks a folder by its descriptor, so that no later change of a name leads elsewhere.

/// A folder, held open. Moves.
class Folder {
 public:
  /// One that the user has named; others may own it, and share it. Made (mode 0700) if it is missing.
  /// Throws Error(unavailable) with the path and the reason. A link is followed if it is this user's or
  /// root's.
  [[nodiscard]] static Folder named(const std::string& path);
  /// One of this user's that nobody else can enter: owner and mode are checked. Made if it is missing.
  /// Throws Error(unavailable) that says what is wrong with it.
  [[nodiscard]] static Folder private_at(const std::string& path);
  /// This user's private folder in a directory that others may write to: `hora-UID`; or where that is not
  /// this user's alone, another `hora-UID-XXXXXX`, which is made if there is none. Throws Error(unavailable).
  /// All processes of a user get the same one. Only two of them that make the second one at the same instant
  /// may get two.
  [[nodiscard]] static Folder of_user(const std::string& directory);

  /// A private folder in this one, made if it is missing. The name has no slash. Throws Error(unavailable).
  [[nodiscard]] Folder inner(const std::string& name) const;
  /// Writes a file, whole or not at all, in place of one that has the name; of a link with that name nothing
  /// is followed. Throws Error(unavailable).
  void write(const std::string& name, std::string_view bytes, mode_t mode = 0600) const;
  /// As `create_file`, in this folder.
  [[nodiscard]] std::ofstream create(const std::string& name) const;
  /// Removes folders in this one, with the files in them, until only so many are left, those that changed
  /// last. A file or folder that cannot be removed stays.
  void keep_newest(std::size_t folders) const;

  /// As it was opened, for messages.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Folder(Descriptor folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}

  Descriptor folder_;
  std::string path_;
};

/// Opens a file to be written anew, with the mode that the user's umask leaves. A link of another user's is
/// refused, unless that is root. A stream that has failed has its reason in errno.
[[nodiscard]] std::ofstream create_file(const std::string& path);

/// The paths of those of this user's private folders in a directory that exist; the one that `of_user` takes
/// first.
[[nodiscard]] std::vector<std::string> folders_of_user(const std::string& directory);

}  // namespace hora
