// Types of tensors by types of C++.

#ifndef TENSORFLOW_LITE_PORTABLE_TYPE_TO_TFLITETYPE_H_
#define TENSORFLOW_LITE_PORTABLE_TYPE_TO_TFLITETYPE_H_

#include <cstdint>

#include "tensorflow/lite/c/c_api_types.h"

namespace tflite {

// The type of tensors whose elements are of a type of C++; kTfLiteNoType if there is none.
template <typename T>
constexpr TfLiteType typeToTfLiteType() { return kTfLiteNoType; }
template <>
constexpr TfLiteType typeToTfLiteType<float>() { return kTfLiteFloat32; }
template <>
constexpr TfLiteType typeToTfLiteType<double>() { return kTfLiteFloat64; }
template <>
constexpr TfLiteType typeToTfLiteType<int8_t>() { return kTfLiteInt8; }
template <>
constexpr TfLiteType typeToTfLiteType<uint8_t>() { return kTfLiteUInt8; }
template <>
constexpr TfLiteType typeToTfLiteType<int16_t>() { return kTfLiteInt16; }
template <>
constexpr TfLiteType typeToTfLiteType<uint16_t>() { return kTfLiteUInt16; }
template <>
constexpr TfLiteType typeToTfLiteType<int32_t>() { return kTfLiteInt32; }
template <>
constexpr TfLiteType typeToTfLiteType<uint32_t>() { return kTfLiteUInt32; }
template <>
constexpr TfLiteType typeToTfLiteType<int64_t>() { return kTfLiteInt64; }
template <>
constexpr TfLiteType typeToTfLiteType<uint64_t>() { return kTfLiteUInt64; }
template <>
constexpr TfLiteType typeToTfLiteType<bool>() { return kTfLiteBool; }

}  // namespace tflite

#endif
