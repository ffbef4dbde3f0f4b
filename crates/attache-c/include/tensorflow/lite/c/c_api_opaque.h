/* What opaque delegates and operators call: the structs of common.h behind functions, so that their layout may change. */

#ifndef TENSORFLOW_LITE_C_C_API_OPAQUE_H_
#define TENSORFLOW_LITE_C_C_API_OPAQUE_H_

#include <stdarg.h>
#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/c/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TfLiteOpaqueTensorBuilder TfLiteOpaqueTensorBuilder;

/* Tensors. */
TFL_CAPI_EXPORT TfLiteType TfLiteOpaqueTensorType(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT int32_t TfLiteOpaqueTensorNumDims(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT int32_t TfLiteOpaqueTensorDim(const TfLiteOpaqueTensor* tensor, int32_t place);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetNumDimsSignature(const TfLiteOpaqueTensor* tensor, int32_t* count);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetDimSignature(
    const TfLiteOpaqueTensor* tensor, int32_t place, int32_t* length);
TFL_CAPI_EXPORT int TfLiteOpaqueTensorIsVariable(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT size_t TfLiteOpaqueTensorByteSize(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT void* TfLiteOpaqueTensorData(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteAllocationType TfLiteOpaqueTensorGetAllocationType(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteAllocationStrategy TfLiteOpaqueTensorGetAllocationStrategy(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteRunStability TfLiteOpaqueTensorGetBufferAddressStability(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteRunStability TfLiteOpaqueTensorGetDataStability(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteRunStep TfLiteOpaqueTensorGetDataKnownStep(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteRunStep TfLiteOpaqueTensorGetShapeKnownStep(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT const char* TfLiteOpaqueTensorName(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteQuantization TfLiteOpaqueTensorGetQuantization(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteQuantizationParams TfLiteOpaqueTensorGetQuantizationParams(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorCopyFromBuffer(
    TfLiteOpaqueTensor* tensor, const void* buffer, size_t size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorCopyToBuffer(
    const TfLiteOpaqueTensor* tensor, void* buffer, size_t size);
TFL_CAPI_EXPORT void TfLiteOpaqueTensorSetAllocationTypeToDynamic(TfLiteOpaqueTensor* tensor);
/* Says that the bytes are not in memory of the host's. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorSetNonCpuAllocation(TfLiteOpaqueTensor* tensor);

/* Elements of tensors of the type kTfLiteString. */
TFL_CAPI_EXPORT int TfLiteOpaqueTensorGetStringCount(const TfLiteOpaqueTensor* tensor);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorGetString(
    const TfLiteOpaqueTensor* tensor, int place, const char** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorWriteStrings(
    TfLiteOpaqueTensor* tensor, const char* const* texts, int count, const int* lengths);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueTensorWriteString(TfLiteOpaqueTensor* tensor, const char* text, int length);

/* Tensors that a delegate adds. */
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderCreate(void);
TFL_CAPI_EXPORT void TfLiteOpaqueTensorBuilderDelete(TfLiteOpaqueTensorBuilder* builder);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetType(
    TfLiteOpaqueTensorBuilder* builder, TfLiteType kind);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetData(
    TfLiteOpaqueTensorBuilder* builder, void* data);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetAllocationType(
    TfLiteOpaqueTensorBuilder* builder, TfLiteAllocationType allocation_type);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetQuantizationParams(
    TfLiteOpaqueTensorBuilder* builder, TfLiteQuantizationParams params);
TFL_CAPI_EXPORT TfLiteOpaqueTensorBuilder* TfLiteOpaqueTensorBuilderSetQuantization(
    TfLiteOpaqueTensorBuilder* builder, TfLiteQuantization quantization);

/* Nodes. */
TFL_CAPI_EXPORT TfLiteOpaqueTensor* TfLiteOpaqueNodeGetInput(
    const TfLiteOpaqueContext* context, const TfLiteOpaqueNode* node, int place);
TFL_CAPI_EXPORT TfLiteOpaqueTensor* TfLiteOpaqueNodeGetOutput(
    TfLiteOpaqueContext* context, const TfLiteOpaqueNode* node, int place);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeNumberOfInputs(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeNumberOfOutputs(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT void* TfLiteOpaqueNodeGetUserData(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT void* TfLiteOpaqueNodeGetBuiltinData(const TfLiteOpaqueNode* node);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeGetCustomInitialData(
    const TfLiteOpaqueNode* node, const void** data, int* size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeInputs(const TfLiteOpaqueNode* node, const int** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeOutputs(const TfLiteOpaqueNode* node, const int** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeTemporaries(
    const TfLiteOpaqueNode* node, const int** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueNodeSetTemporaries(
    TfLiteOpaqueNode* node, const int* temporaries, int count);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeGetInputTensorIndex(const TfLiteOpaqueNode* node, int place);
TFL_CAPI_EXPORT int TfLiteOpaqueNodeGetOutputTensorIndex(const TfLiteOpaqueNode* node, int place);

/* The context. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetExecutionPlan(TfLiteOpaqueContext* context, TfLiteIntArray** plan);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetExternalContext(
    TfLiteOpaqueContext* context, void** external, TfLiteExternalContextType kind);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetNodeAndRegistration(
    TfLiteOpaqueContext* context, int index, TfLiteOpaqueNode** node, TfLiteOperator** registration);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(
    TfLiteOpaqueContext* context, TfLiteOperator* registration, const TfLiteIntArray* nodes,
    TfLiteOpaqueDelegate* delegate);
TFL_CAPI_EXPORT TfLiteOpaqueTensor* TfLiteOpaqueContextGetOpaqueTensor(const TfLiteOpaqueContext* context, int index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetInputs(
    const TfLiteOpaqueContext* context, const int** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetOutputs(
    const TfLiteOpaqueContext* context, const int** start, int* length);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetVariables(
    const TfLiteOpaqueContext* context, const int** start, int* length);
TFL_CAPI_EXPORT size_t TfLiteOpaqueContextGetNumNodes(const TfLiteOpaqueContext* context);
TFL_CAPI_EXPORT size_t TfLiteOpaqueContextGetNumTensors(const TfLiteOpaqueContext* context);
TFL_CAPI_EXPORT const char* TfLiteOpaqueContextGetName(const TfLiteOpaqueContext* context);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextResizeTensor(
    TfLiteOpaqueContext* context, TfLiteOpaqueTensor* tensor, TfLiteIntArray* dims);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextAcquireSubgraphContext(
    TfLiteOpaqueContext* context, int index, TfLiteOpaqueContext** acquired);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextReleaseSubgraphContext(TfLiteOpaqueContext* context, int index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextMarkSubgraphAsDelegationSkippable(
    TfLiteOpaqueContext* context, int index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetNodeInitDataMmapInfo(
    const TfLiteOpaqueContext* context, const TfLiteOpaqueNode* node, int* file, int64_t* offset, int64_t* size);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextAddTensor(
    TfLiteOpaqueContext* context, TfLiteOpaqueTensorBuilder* builder, int* index);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetSizeOfType(
    TfLiteOpaqueContext* context, TfLiteType kind, size_t* bytes);
TFL_CAPI_EXPORT TfLiteStatus TfLiteOpaqueContextGetMetadata(
    TfLiteOpaqueContext* context, const char* name, const char** start, size_t* size);
TFL_CAPI_EXPORT void TfLiteOpaqueContextReportErrorVa(TfLiteOpaqueContext* context, const char* format, va_list args);
TFL_CAPI_EXPORT void TfLiteOpaqueContextReportError(TfLiteOpaqueContext* context, const char* format, ...);

/* Delegates. */
TFL_CAPI_EXPORT TfLiteOpaqueDelegate* TfLiteOpaqueDelegateCreate(const TfLiteOpaqueDelegateBuilder* builder);
TFL_CAPI_EXPORT void TfLiteOpaqueDelegateDelete(TfLiteOpaqueDelegate* delegate);
TFL_CAPI_EXPORT void* TfLiteOpaqueDelegateGetData(const TfLiteOpaqueDelegate* delegate);

/* Checks in operators and kernels, as those of common.h. */

#ifndef TF_LITE_STRIP_ERROR_STRINGS
#define TF_LITE_OPAQUE_KERNEL_LOG(context, ...)             \
  do {                                                      \
    TfLiteOpaqueContextReportError((context), __VA_ARGS__); \
  } while (false)

#define TF_LITE_OPAQUE_MAYBE_KERNEL_LOG(context, ...)         \
  do {                                                        \
    if ((context) != NULL) {                                  \
      TfLiteOpaqueContextReportError((context), __VA_ARGS__); \
    }                                                         \
  } while (false)
#else
#define TF_LITE_OPAQUE_KERNEL_LOG(context, ...) ((void)(context))
#define TF_LITE_OPAQUE_MAYBE_KERNEL_LOG(context, ...) ((void)(context))
#endif

#define TF_LITE_OPAQUE_ENSURE_MSG(context, value, ...)   \
  do {                                                   \
    if (!(value)) {                                      \
      TF_LITE_OPAQUE_KERNEL_LOG((context), __VA_ARGS__); \
      return kTfLiteError;                               \
    }                                                    \
  } while (false)

#define TF_LITE_OPAQUE_ENSURE(context, a) \
  TF_LITE_OPAQUE_ENSURE_MSG((context), (a), "%s:%d: %s was not true.", __FILE__, __LINE__, #a)

#define TF_LITE_OPAQUE_ENSURE_EQ(context, a, b)                                                                   \
  TF_LITE_OPAQUE_ENSURE_MSG((context), (a) == (b), "%s:%d: %s != %s (%d != %d)", __FILE__, __LINE__, #a, #b, \
                            (int)(a), (int)(b))

#define TF_LITE_OPAQUE_ENSURE_TYPES_EQ(context, a, b)                                                        \
  TF_LITE_OPAQUE_ENSURE_MSG((context), (a) == (b), "%s:%d: %s != %s (%s != %s)", __FILE__, __LINE__, #a, #b, \
                            TfLiteTypeGetName((TfLiteType)(a)), TfLiteTypeGetName((TfLiteType)(b)))

#define TF_LITE_OPAQUE_ENSURE_NEAR(context, a, b, epsilon)                                                 \
  TF_LITE_OPAQUE_ENSURE_MSG((context), ((a) > (b) ? (a) - (b) : (b) - (a)) <= (epsilon),                   \
                            "%s:%d: %s not near %s (%f != %f)", __FILE__, __LINE__, #a, #b, (double)(a), \
                            (double)(b))

#ifdef __cplusplus
}
#endif

#endif
