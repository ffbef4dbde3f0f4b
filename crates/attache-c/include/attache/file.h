// What a model file consists of, in C++: the tables of its format, read where they are. Names are those of the format.
//
// Nothing is checked here. Models that FlatBufferModel opened are valid.

#ifndef ATTACHE_FILE_H_
#define ATTACHE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>

#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {
namespace internal {

template <typename T>
T ReadAt(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof(T));
  return value;
}

// Returns what the offset at a place leads to.
inline const uint8_t* Follow(const uint8_t* place) { return place + ReadAt<uint32_t>(place); }

// An object of the file, whose first byte is at the address of this one.
class Part {
 public:
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 protected:
  Part() = default;
  ~Part() = default;
  const uint8_t* start() const { return reinterpret_cast<const uint8_t*>(this); }
};

// How the elements of a list are read: numbers as they are, and tables through offsets.
template <typename T>
struct Element {
  using Type = T;
  static constexpr size_t kSize = sizeof(T);
  static Type Read(const uint8_t* place) { return ReadAt<T>(place); }
};
template <typename T>
struct Element<const T*> {
  using Type = const T*;
  static constexpr size_t kSize = sizeof(uint32_t);
  static Type Read(const uint8_t* place) { return reinterpret_cast<const T*>(Follow(place)); }
};

template <typename T>
class List : public Part {
 public:
  using value_type = typename Element<T>::Type;

  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = typename List::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = value_type;
    using reference = value_type;

    Iterator() : place_(nullptr) {}
    explicit Iterator(const uint8_t* place) : place_(place) {}
    value_type operator*() const { return Element<T>::Read(place_); }
    value_type operator->() const { return Element<T>::Read(place_); }
    Iterator& operator++() {
      place_ += Element<T>::kSize;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator--(int) {
      const Iterator before = *this;
      --*this;
      return before;
    }
    Iterator& operator+=(difference_type count) {
      place_ += count * static_cast<difference_type>(Element<T>::kSize);
      return *this;
    }
    Iterator& operator-=(difference_type count) { return *this += -count; }
    Iterator operator+(difference_type count) const { return Iterator(place_) += count; }
    Iterator operator-(difference_type count) const { return Iterator(place_) -= count; }
    difference_type operator-(const Iterator& other) const {
      return (place_ - other.place_) / static_cast<difference_type>(Element<T>::kSize);
    }
    value_type operator[](difference_type index) const { return *(*this + index); }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }
    bool operator!=(const Iterator& other) const { return place_ != other.place_; }
    bool operator<(const Iterator& other) const { return place_ < other.place_; }
    bool operator>(const Iterator& other) const { return place_ > other.place_; }
    bool operator<=(const Iterator& other) const { return place_ <= other.place_; }
    bool operator>=(const Iterator& other) const { return place_ >= other.place_; }

   private:
    const uint8_t* place_;
  };

  uint32_t size() const { return ReadAt<uint32_t>(this->start()); }
  bool empty() const { return size() == 0; }
  value_type Get(uint32_t index) const { return Element<T>::Read(Data() + index * Element<T>::kSize); }
  value_type operator[](uint32_t index) const { return Get(index); }
  Iterator begin() const { return Iterator(Data()); }
  Iterator end() const { return Iterator(Data() + size() * Element<T>::kSize); }
  const uint8_t* Data() const { return this->start() + sizeof(uint32_t); }
  // The elements of a list of numbers.
  const T* data() const { return reinterpret_cast<const T*>(Data()); }
};

// A text, which a zero byte follows.
class Text : public List<char> {
 public:
  const char* c_str() const { return reinterpret_cast<const char*>(Data()); }
  std::string str() const { return std::string(c_str(), size()); }
  size_t length() const { return size(); }
};

class Table : public Part {
 protected:
  // The place of a field by its number; null if the file leaves it out.
  const uint8_t* Field(size_t number) const {
    const uint8_t* places = start() - ReadAt<int32_t>(start());
    const size_t at = 2 * sizeof(uint16_t) + number * sizeof(uint16_t);
    if (at >= ReadAt<uint16_t>(places)) return nullptr;
    const uint16_t offset = ReadAt<uint16_t>(places + at);
    return offset ? start() + offset : nullptr;
  }
  template <typename T>
  T Number(size_t number, T otherwise = T()) const {
    const uint8_t* place = Field(number);
    return place ? ReadAt<T>(place) : otherwise;
  }
  // A text, a list or a table; null if the file leaves it out.
  template <typename T>
  const T* At(size_t number) const {
    const uint8_t* place = Field(number);
    return place ? reinterpret_cast<const T*>(Follow(place)) : nullptr;
  }
};

}  // namespace internal

class OperatorCode : public internal::Table {
 public:
  int8_t deprecated_builtin_code() const { return Number<int8_t>(0); }
  const internal::Text* custom_code() const { return At<internal::Text>(1); }
  int32_t version() const { return Number<int32_t>(2, 1); }
  BuiltinOperator builtin_code() const { return static_cast<BuiltinOperator>(Number<int32_t>(3)); }
};

// The code of an operator: files for old versions have it in the field for small ones alone.
inline BuiltinOperator GetBuiltinCode(const OperatorCode* code) {
  const auto old = static_cast<BuiltinOperator>(code->deprecated_builtin_code());
  return code->builtin_code() > old ? code->builtin_code() : old;
}

class QuantizationParameters : public internal::Table {
 public:
  const internal::List<float>* min() const { return At<internal::List<float>>(0); }
  const internal::List<float>* max() const { return At<internal::List<float>>(1); }
  const internal::List<float>* scale() const { return At<internal::List<float>>(2); }
  const internal::List<int64_t>* zero_point() const { return At<internal::List<int64_t>>(3); }
  int32_t quantized_dimension() const { return Number<int32_t>(6); }
};

class Tensor : public internal::Table {
 public:
  const internal::List<int32_t>* shape() const { return At<internal::List<int32_t>>(0); }
  TensorType type() const { return static_cast<TensorType>(Number<int8_t>(1)); }
  uint32_t buffer() const { return Number<uint32_t>(2); }
  const internal::Text* name() const { return At<internal::Text>(3); }
  const QuantizationParameters* quantization() const { return At<QuantizationParameters>(4); }
  bool is_variable() const { return Number<uint8_t>(5) != 0; }
  const internal::List<int32_t>* shape_signature() const { return At<internal::List<int32_t>>(7); }
  bool has_rank() const { return Number<uint8_t>(8) != 0; }
};

class Operator : public internal::Table {
 public:
  uint32_t opcode_index() const { return Number<uint32_t>(0); }
  const internal::List<int32_t>* inputs() const { return At<internal::List<int32_t>>(1); }
  const internal::List<int32_t>* outputs() const { return At<internal::List<int32_t>>(2); }
  const internal::List<uint8_t>* custom_options() const { return At<internal::List<uint8_t>>(5); }
  const internal::List<int32_t>* intermediates() const { return At<internal::List<int32_t>>(8); }
};

class SubGraph : public internal::Table {
 public:
  const internal::List<const Tensor*>* tensors() const { return At<internal::List<const Tensor*>>(0); }
  const internal::List<int32_t>* inputs() const { return At<internal::List<int32_t>>(1); }
  const internal::List<int32_t>* outputs() const { return At<internal::List<int32_t>>(2); }
  const internal::List<const Operator*>* operators() const { return At<internal::List<const Operator*>>(3); }
  const internal::Text* name() const { return At<internal::Text>(4); }
};

class Buffer : public internal::Table {
 public:
  const internal::List<uint8_t>* data() const { return At<internal::List<uint8_t>>(0); }
  // Where the data is in the file, if it is behind the tables.
  uint64_t offset() const { return Number<uint64_t>(1); }
  uint64_t size() const { return Number<uint64_t>(2); }
};

class Metadata : public internal::Table {
 public:
  const internal::Text* name() const { return At<internal::Text>(0); }
  uint32_t buffer() const { return Number<uint32_t>(1); }
};

class TensorMap : public internal::Table {
 public:
  const internal::Text* name() const { return At<internal::Text>(0); }
  uint32_t tensor_index() const { return Number<uint32_t>(1); }
};

class SignatureDef : public internal::Table {
 public:
  const internal::List<const TensorMap*>* inputs() const { return At<internal::List<const TensorMap*>>(0); }
  const internal::List<const TensorMap*>* outputs() const { return At<internal::List<const TensorMap*>>(1); }
  const internal::Text* signature_key() const { return At<internal::Text>(2); }
  uint32_t subgraph_index() const { return Number<uint32_t>(4); }
};

class Model : public internal::Table {
 public:
  uint32_t version() const { return Number<uint32_t>(0); }
  const internal::List<const OperatorCode*>* operator_codes() const {
    return At<internal::List<const OperatorCode*>>(1);
  }
  const internal::List<const SubGraph*>* subgraphs() const { return At<internal::List<const SubGraph*>>(2); }
  const internal::Text* description() const { return At<internal::Text>(3); }
  const internal::List<const Buffer*>* buffers() const { return At<internal::List<const Buffer*>>(4); }
  const internal::List<int32_t>* metadata_buffer() const { return At<internal::List<int32_t>>(5); }
  const internal::List<const Metadata*>* metadata() const { return At<internal::List<const Metadata*>>(6); }
  const internal::List<const SignatureDef*>* signature_defs() const {
    return At<internal::List<const SignatureDef*>>(7);
  }
};

// The model in the bytes of a file.
inline const Model* GetModel(const void* bytes) {
  return reinterpret_cast<const Model*>(internal::Follow(static_cast<const uint8_t*>(bytes)));
}
inline const char* ModelIdentifier() { return "TFL3"; }
// Whether the bytes of a file, of which there are at least eight, say that they are a model.
inline bool ModelBufferHasIdentifier(const void* bytes) {
  return std::memcmp(static_cast<const char*>(bytes) + sizeof(uint32_t), ModelIdentifier(), 4) == 0;
}

}  // namespace tflite

#endif
