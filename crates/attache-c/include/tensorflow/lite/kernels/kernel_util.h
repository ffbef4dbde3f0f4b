// What operators of a program use most, in C++.

#ifndef TENSORFLOW_LITE_KERNELS_KERNEL_UTIL_H_
#define TENSORFLOW_LITE_KERNELS_KERNEL_UTIL_H_

#include <algorithm>
#include <cstdint>

#include "tensorflow/lite/c/builtin_op_data.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/kernels/internal/tensor_ctypes.h"

namespace tflite {

inline int NumDimensions(const TfLiteTensor* tensor) { return tensor->dims->size; }
inline int SizeOfDimension(const TfLiteTensor* tensor, int axis) { return tensor->dims->data[axis]; }
inline int64_t NumElements(const TfLiteIntArray* dims) {
  int64_t count = 1;
  for (int i = 0; i < dims->size; ++i) count *= dims->data[i];
  return count;
}
inline int64_t NumElements(const TfLiteTensor* tensor) { return NumElements(tensor->dims); }
inline bool HaveSameShapes(const TfLiteTensor* a, const TfLiteTensor* b) {
  return TfLiteIntArrayEqual(a->dims, b->dims) != 0;
}
inline int NumInputs(const TfLiteNode* node) { return node->inputs ? node->inputs->size : 0; }
inline int NumOutputs(const TfLiteNode* node) { return node->outputs ? node->outputs->size : 0; }

namespace internal {

// The tensor at a place of a list; null if there is none, or if it was left out.
inline TfLiteTensor* TensorAt(const TfLiteContext* context, const TfLiteIntArray* list, int place) {
  if (!list || place < 0 || place >= list->size || list->data[place] < 0) return nullptr;
  return &context->tensors[list->data[place]];
}

}  // namespace internal

// Inputs and outputs of a node; null if there is none at the place.
inline const TfLiteTensor* GetInput(const TfLiteContext* context, const TfLiteNode* node, int index) {
  return internal::TensorAt(context, node->inputs, index);
}
inline const TfLiteTensor* GetOptionalInputTensor(const TfLiteContext* context, const TfLiteNode* node, int index) {
  return GetInput(context, node, index);
}
inline TfLiteTensor* GetVariableInput(TfLiteContext* context, const TfLiteNode* node, int index) {
  TfLiteTensor* tensor = internal::TensorAt(context, node->inputs, index);
  return tensor && tensor->is_variable ? tensor : nullptr;
}
inline TfLiteTensor* GetOutput(TfLiteContext* context, const TfLiteNode* node, int index) {
  return internal::TensorAt(context, node->outputs, index);
}
inline TfLiteTensor* GetTemporary(TfLiteContext* context, const TfLiteNode* node, int index) {
  return internal::TensorAt(context, node->temporaries, index);
}

inline TfLiteTensor* GetIntermediates(TfLiteContext* context, const TfLiteNode* node, int index) {
  return internal::TensorAt(context, node->intermediates, index);
}

// The same with a status; kTfLiteError if there is no such tensor.
inline TfLiteStatus GetInputSafe(
    const TfLiteContext* context, const TfLiteNode* node, int index, const TfLiteTensor** tensor) {
  *tensor = GetInput(context, node, index);
  return *tensor ? kTfLiteOk : kTfLiteError;
}
inline TfLiteStatus GetOutputSafe(TfLiteContext* context, const TfLiteNode* node, int index, TfLiteTensor** tensor) {
  *tensor = GetOutput(context, node, index);
  return *tensor ? kTfLiteOk : kTfLiteError;
}
inline TfLiteStatus GetTemporarySafe(
    TfLiteContext* context, const TfLiteNode* node, int index, TfLiteTensor** tensor) {
  *tensor = GetTemporary(context, node, index);
  return *tensor ? kTfLiteOk : kTfLiteError;
}

// The shape that two shapes have together where each axis of length 1 is repeated; the caller frees it.
inline TfLiteStatus CalculateShapeForBroadcast(
    TfLiteContext* context, const TfLiteTensor* a, const TfLiteTensor* b, TfLiteIntArray** shape) {
  const TfLiteIntArray *left = a->dims, *right = b->dims;
  const int rank = std::max(left->size, right->size);
  // The length of an axis, counted from the last one.
  const auto length = [](const TfLiteIntArray* dims, int axis) {
    return axis < dims->size ? dims->data[dims->size - 1 - axis] : 1;
  };
  TfLiteIntArray* together = TfLiteIntArrayCreate(rank);
  for (int axis = 0; axis < rank; ++axis) {
    const int one = length(left, axis), other = length(right, axis);
    if (one != other && one != 1 && other != 1) {
      TfLiteIntArrayFree(together);
      TF_LITE_KERNEL_LOG(context, "Shapes are not broadcastable: %d and %d elements along an axis.", one, other);
      return kTfLiteError;
    }
    together->data[rank - 1 - axis] = one == 1 ? other : one;
  }
  *shape = together;
  return kTfLiteOk;
}

inline bool IsConstantTensor(const TfLiteTensor* tensor) { return tensor->allocation_type == kTfLiteMmapRo; }
inline bool IsConstantOrPersistentTensor(const TfLiteTensor* tensor) {
  return IsConstantTensor(tensor) || tensor->allocation_type == kTfLitePersistentRo;
}
inline bool IsDynamicTensor(const TfLiteTensor* tensor) { return tensor->allocation_type == kTfLiteDynamic; }
inline void SetTensorToDynamic(TfLiteTensor* tensor) {
  if (tensor->allocation_type == kTfLiteDynamic) return;
  TfLiteTensorDataFree(tensor);
  tensor->allocation_type = kTfLiteDynamic;
  tensor->data.raw = nullptr;
}

}  // namespace tflite

#endif
