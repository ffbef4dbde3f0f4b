// Strings in tensors, in C++. A tensor of strings holds the number of strings, the offset of each and of the end, all as
// int32_t, and then the characters. Offsets are from the start of the tensor.

#ifndef TENSORFLOW_LITE_STRING_UTIL_H_
#define TENSORFLOW_LITE_STRING_UTIL_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tensorflow/lite/c/common.h"

namespace tflite {

// Characters that belong to somebody else. No zero byte ends them.
struct StringRef {
  const char* str;
  size_t len;
};

// Collects strings, and writes them as the content of a tensor.
class DynamicBuffer {
 public:
  // An error if the content would be larger than the offsets can say.
  TfLiteStatus AddString(const char* str, size_t len) {
    const size_t most = static_cast<size_t>(std::numeric_limits<int32_t>::max());
    if (len > most || Size() + sizeof(int32_t) > most - len) return kTfLiteError;
    characters_.append(str, len);
    ends_.push_back(characters_.size());
    return kTfLiteOk;
  }
  TfLiteStatus AddString(const StringRef& string) { return AddString(string.str, string.len); }
  // Adds one string of several, with a separator between them.
  TfLiteStatus AddJoinedString(const std::vector<StringRef>& strings, char separator) {
    return AddJoinedString(strings, StringRef{&separator, 1});
  }
  TfLiteStatus AddJoinedString(const std::vector<StringRef>& strings, StringRef separator) {
    std::string joined;
    for (size_t i = 0; i < strings.size(); ++i) {
      if (i > 0) joined.append(separator.str, separator.len);
      joined.append(strings[i].str, strings[i].len);
    }
    return AddString(joined.data(), joined.size());
  }

  // Allocates the content with malloc, and returns its size in bytes; -1 if there is no memory.
  int WriteToBuffer(char** buffer) const {
    *buffer = static_cast<char*>(std::malloc(Size()));
    if (!*buffer) return -1;
    Put(*buffer, 0, ends_.size());
    Put(*buffer, 1, Head());
    for (size_t i = 0; i < ends_.size(); ++i) Put(*buffer, i + 2, Head() + ends_[i]);
    if (!characters_.empty()) std::memcpy(*buffer + Head(), characters_.data(), characters_.size());
    return static_cast<int>(Size());
  }
  // Makes a tensor that an operator writes a dynamic one with this content. The shape becomes the tensor's; null keeps it.
  TfLiteStatus WriteToTensor(TfLiteTensor* tensor, TfLiteIntArray* new_shape) const {
    char* buffer = nullptr;
    const int size = WriteToBuffer(&buffer);
    if (size < 0) return kTfLiteError;
    if (!new_shape) new_shape = TfLiteIntArrayCopy(tensor->dims);
    TfLiteTensorReset(tensor->type, tensor->name, new_shape, tensor->params, buffer, static_cast<size_t>(size),
                      kTfLiteDynamic, tensor->allocation, tensor->is_variable, tensor);
    return kTfLiteOk;
  }
  // As WriteToTensor, with the number of strings as the only extent.
  TfLiteStatus WriteToTensorAsVector(TfLiteTensor* tensor) const {
    TfLiteIntArray* shape = TfLiteIntArrayCreate(1);
    if (!shape) return kTfLiteError;
    shape->data[0] = static_cast<int>(ends_.size());
    return WriteToTensor(tensor, shape);
  }

 private:
  size_t Head() const { return sizeof(int32_t) * (ends_.size() + 2); }
  size_t Size() const { return Head() + characters_.size(); }
  static void Put(char* buffer, size_t place, size_t number) {
    const int32_t value = static_cast<int32_t>(number);
    std::memcpy(buffer + place * sizeof(value), &value, sizeof(value));
  }

  std::string characters_;
  std::vector<size_t> ends_;
};

// The number of strings in the content of a tensor.
inline int GetStringCount(const void* raw_buffer) {
  int32_t count = 0;
  std::memcpy(&count, raw_buffer, sizeof(count));
  return count;
}
inline int GetStringCount(const TfLiteTensor* tensor) { return GetStringCount(tensor->data.data); }

// A string in the content of a tensor, which has to have one at this place.
inline StringRef GetString(const void* raw_buffer, int string_index) {
  int32_t range[2];
  const char* bytes = static_cast<const char*>(raw_buffer);
  std::memcpy(range, bytes + sizeof(int32_t) * (static_cast<size_t>(string_index) + 1), sizeof(range));
  return StringRef{bytes + range[0], static_cast<size_t>(range[1] - range[0])};
}
inline StringRef GetString(const TfLiteTensor* tensor, int string_index) {
  return GetString(static_cast<const void*>(tensor->data.data), string_index);
}

}  // namespace tflite

#endif
