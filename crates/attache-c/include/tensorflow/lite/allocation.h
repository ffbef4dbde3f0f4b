// The bytes of model files, in C++.

#ifndef TENSORFLOW_LITE_ALLOCATION_H_
#define TENSORFLOW_LITE_ALLOCATION_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#ifndef _WIN32
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "tensorflow/lite/error_reporter.h"

namespace tflite {

// Bytes that stay where they are and unchanged as long as the object exists.
class Allocation {
 public:
  enum class Type { kMMap, kFileCopy, kMemory };

  virtual ~Allocation() = default;
  virtual const void* base() const = 0;
  virtual size_t bytes() const = 0;
  // Whether there are bytes.
  virtual bool valid() const = 0;
  Type type() const { return type_; }

 protected:
  Allocation(ErrorReporter* error_reporter, Type type)
      : error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()), type_(type) {}

  ErrorReporter* error_reporter_;

 private:
  const Type type_;
};

// Bytes of the caller's.
class MemoryAllocation : public Allocation {
 public:
  MemoryAllocation(const void* data, size_t size, ErrorReporter* error_reporter)
      : Allocation(error_reporter, Type::kMemory), data_(data), size_(size) {}
  const void* base() const override { return data_; }
  size_t bytes() const override { return size_; }
  bool valid() const override { return data_ != nullptr; }

 private:
  const void* data_;
  size_t size_;
};

// A copy of a file.
class FileCopyAllocation : public Allocation {
 public:
  FileCopyAllocation(const char* filename, ErrorReporter* error_reporter)
      : Allocation(error_reporter, Type::kFileCopy) {
    std::FILE* file = filename ? std::fopen(filename, "rb") : nullptr;
    if (!file) {
      error_reporter_->Report("Could not open '%s'.", filename ? filename : "");
      return;
    }
    // In units of eight bytes, for the alignment of numbers in the file.
    uint64_t block[512];
    while (const size_t count = std::fread(block, 1, sizeof(block), file)) {
      data_.insert(data_.end(), block, block + (count + 7) / 8);
      size_ += count;
      if (count < sizeof(block)) break;
    }
    is_valid_ = !std::ferror(file);
    std::fclose(file);
  }
  const void* base() const override { return data_.data(); }
  size_t bytes() const override { return size_; }
  bool valid() const override { return is_valid_; }

 private:
  std::vector<uint64_t> data_;
  size_t size_ = 0;
  bool is_valid_ = false;
};

// A file, or a part of one, that is mapped into memory. The file must not be changed meanwhile.
class MMAPAllocation : public Allocation {
 public:
  MMAPAllocation(const char* filename, ErrorReporter* error_reporter)
      : MMAPAllocation(filename, 0, 0, error_reporter) {}
  // A length of 0 stands for the rest of the file.
  MMAPAllocation(const char* filename, size_t offset, size_t length, ErrorReporter* error_reporter)
      : Allocation(error_reporter, Type::kMMap) {
#ifndef _WIN32
    // What is no file, such as a pipe, does not make it wait.
    const int file = filename ? open(filename, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (file < 0) {
      error_reporter_->Report("Could not open '%s'.", filename ? filename : "");
      return;
    }
    Map(file, offset, length);
#else
    (void)offset;
    (void)length;
    error_reporter_->Report("Could not map '%s': files are not mapped on this system.", filename ? filename : "");
#endif
  }
  // The descriptor stays the caller's.
  MMAPAllocation(int fd, ErrorReporter* error_reporter) : MMAPAllocation(fd, 0, 0, error_reporter) {}
  MMAPAllocation(int fd, size_t offset, size_t length, ErrorReporter* error_reporter)
      : Allocation(error_reporter, Type::kMMap) {
#ifndef _WIN32
    const int file = dup(fd);
    if (file < 0) {
      error_reporter_->Report("Could not use the file descriptor %d.", fd);
      return;
    }
    Map(file, offset, length);
#else
    (void)offset;
    (void)length;
    error_reporter_->Report("Could not map the file descriptor %d: files are not mapped on this system.", fd);
#endif
  }
  ~MMAPAllocation() override {
#ifndef _WIN32
    if (mapped_) munmap(mapped_, mapped_size_);
    if (file_ >= 0) close(file_);
#endif
  }
  MMAPAllocation(const MMAPAllocation&) = delete;
  MMAPAllocation& operator=(const MMAPAllocation&) = delete;

  const void* base() const override { return mapped_ ? static_cast<const char*>(mapped_) + before_ : nullptr; }
  size_t bytes() const override { return size_; }
  bool valid() const override { return mapped_ != nullptr; }
  // A descriptor of the object's own; -1 if there is none.
  int fd() const { return file_; }
  // Where the bytes begin in the file.
  size_t offset() const { return offset_; }

  static bool IsSupported() {
#ifndef _WIN32
    return true;
#else
    return false;
#endif
  }

 private:
#ifndef _WIN32
  void Map(int file, size_t offset, size_t length) {
    file_ = file;
    struct stat about;
    const bool is_known = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= 0;
    const size_t size = is_known ? static_cast<size_t>(about.st_size) : 0;
    if (offset >= size || length > size - offset) {
      error_reporter_->Report("The file has no %zu bytes at %zu, or none at all.", length, offset);
      return;
    }
    size_ = length ? length : size - offset;
    offset_ = offset;
    before_ = offset % static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_size_ = size_ + before_;
    void* mapped = mmap(nullptr, mapped_size_, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset - before_));
    if (mapped != MAP_FAILED) {
      mapped_ = mapped;
    } else {
      size_ = 0;
      error_reporter_->Report("The file could not be mapped into memory.");
    }
  }
#endif

  int file_ = -1;
  void* mapped_ = nullptr;
  size_t mapped_size_ = 0;
  // The number of mapped bytes before the first one.
  size_t before_ = 0;
  size_t size_ = 0;
  size_t offset_ = 0;
};

}  // namespace tflite

#endif
