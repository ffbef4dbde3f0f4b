// TensorFlow Lite's binary interface as a delegate of somebody else's declares it: written from the published names and
// layouts, apart from the headers and the Rust code of this repository, so that the tests compare two readings.
#ifndef TESTS_ABI_H
#define TESTS_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum { kTfLiteOk, kTfLiteError } TfLiteStatus;
enum { kFloat32 = 1, kInt8 = 9, kArenaRw = 2, kDynamic = 4, kAdd = 0, kMul = 18, kDelegate = 51, kAllowDynamic = 1 };

typedef struct TfLiteIntArray { int size; int data[]; } TfLiteIntArray;
typedef struct TfLiteQuantizationParams { float scale; int32_t zero_point; } TfLiteQuantizationParams;
typedef struct TfLiteQuantization { int type; void* params; } TfLiteQuantization;
struct TfLiteDelegate;
struct TfLiteContext;

typedef struct TfLiteTensor {
  int type;
  union { void* raw; float* f; int32_t* i32; } data;
  TfLiteIntArray* dims;
  TfLiteQuantizationParams params;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct TfLiteDelegate* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  TfLiteQuantization quantization;
  void* sparsity;
  const TfLiteIntArray* dims_signature;
} TfLiteTensor;

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  TfLiteIntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
  struct TfLiteDelegate* delegate;
  bool might_have_side_effect;
} TfLiteNode;

typedef struct TfLiteRegistration {
  void* (*init)(struct TfLiteContext*, const char* buffer, size_t length);
  void (*free)(struct TfLiteContext*, void*);
  TfLiteStatus (*prepare)(struct TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(struct TfLiteContext*, TfLiteNode*);
  const char* (*profiling_string)(const struct TfLiteContext*, const TfLiteNode*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* async_kernel;
  uint64_t inplace_operator;
} TfLiteRegistration;

typedef struct TfLiteDelegateParams {
  struct TfLiteDelegate* delegate;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteDelegateParams;

typedef struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext*, TfLiteIntArray**);
  TfLiteTensor* tensors;
  void* impl_;
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext*, TfLiteTensor*, TfLiteIntArray*);
  void (*ReportError)(struct TfLiteContext*, const char* format, ...);
  TfLiteStatus (*AddTensors)(struct TfLiteContext*, int count, int* first);
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext*, int, TfLiteNode**, TfLiteRegistration**);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext*, TfLiteRegistration,
                                                        const TfLiteIntArray*, struct TfLiteDelegate*);
  int recommended_num_threads;
  void* (*GetExternalContext)(struct TfLiteContext*, int);
  void (*SetExternalContext)(struct TfLiteContext*, int, void*);
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* micro[4];
  TfLiteStatus (*ResizeTensorExplicit)(struct TfLiteContext*, TfLiteTensor*, int, const int*);
  TfLiteStatus (*PreviewDelegatePartitioning)(struct TfLiteContext*, const TfLiteIntArray*, TfLiteDelegateParams**,
                                              int*);
  TfLiteTensor* (*GetTensor)(const struct TfLiteContext*, int);
  void* GetEvalTensor;
  TfLiteStatus (*GetModelMetadata)(const struct TfLiteContext*, const char*, const char**, size_t*);
  TfLiteStatus (*AcquireSubgraphContext)(struct TfLiteContext*, int, struct TfLiteContext**);
  TfLiteStatus (*ReleaseSubgraphContext)(struct TfLiteContext*, int);
} TfLiteContext;

typedef struct TfLiteOpaqueDelegateBuilder {
  void* data;
  TfLiteStatus (*Prepare)(TfLiteContext*, struct TfLiteDelegate*, void* data);
  void* copy[2];
  void* free_handle;
  int64_t flags;
} TfLiteOpaqueDelegateBuilder;

typedef struct TfLiteDelegate {
  void* data_;
  TfLiteStatus (*Prepare)(TfLiteContext*, struct TfLiteDelegate*);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext*, struct TfLiteDelegate*, int handle, TfLiteTensor*);
  void* CopyToBufferHandle;
  void* FreeBufferHandle;
  int64_t flags;
  TfLiteOpaqueDelegateBuilder* opaque_delegate_builder;
} TfLiteDelegate;

typedef struct TfLiteOpaqueDelegateParams {
  TfLiteDelegate* delegate;
  void* delegate_data;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteOpaqueDelegateParams;

// What ADD and MUL have as builtin_data begins with the fused activation.
typedef struct TfLiteActivationParams { int activation; } TfLiteActivationParams;

#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
AT(TfLiteTensor, data, 8);
AT(TfLiteTensor, dims, 16);
AT(TfLiteTensor, params, 24);
AT(TfLiteTensor, allocation_type, 32);
AT(TfLiteTensor, bytes, 40);
AT(TfLiteTensor, name, 56);
AT(TfLiteTensor, buffer_handle, 72);
AT(TfLiteTensor, data_is_stale, 76);
AT(TfLiteTensor, is_variable, 77);
AT(TfLiteTensor, quantization, 80);
AT(TfLiteTensor, dims_signature, 104);
AT(TfLiteNode, user_data, 32);
AT(TfLiteNode, builtin_data, 40);
AT(TfLiteNode, custom_initial_data_size, 56);
AT(TfLiteNode, might_have_side_effect, 72);
AT(TfLiteRegistration, builtin_code, 40);
AT(TfLiteRegistration, custom_name, 48);
AT(TfLiteRegistration, registration_external, 64);
AT(TfLiteRegistration, inplace_operator, 80);
AT(TfLiteContext, ResizeTensor, 32);
AT(TfLiteContext, ReplaceNodeSubsetsWithDelegateKernels, 64);
AT(TfLiteContext, allow_fp32_relax_to_fp16, 96);
AT(TfLiteContext, ResizeTensorExplicit, 144);
AT(TfLiteContext, PreviewDelegatePartitioning, 152);
AT(TfLiteContext, GetTensor, 160);
AT(TfLiteContext, ReleaseSubgraphContext, 192);
AT(TfLiteDelegate, flags, 40);
AT(TfLiteDelegate, opaque_delegate_builder, 48);
_Static_assert(sizeof(TfLiteTensor) == 112 && sizeof(TfLiteNode) == 80 && sizeof(TfLiteRegistration) == 88, "sizes");
_Static_assert(sizeof(TfLiteContext) == 200 && sizeof(TfLiteDelegate) == 56, "sizes");

static inline TfLiteIntArray* NewIntArray(int size) {
  TfLiteIntArray* array = malloc(sizeof(TfLiteIntArray) + sizeof(int) * (size_t)size);
  array->size = size;
  return array;
}

static inline size_t Elements(const TfLiteIntArray* dims) {
  size_t count = 1;
  for (int i = 0; i < dims->size; ++i) count *= (size_t)dims->data[i];
  return count;
}

#endif
