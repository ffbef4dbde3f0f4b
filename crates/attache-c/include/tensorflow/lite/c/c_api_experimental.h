/* The part of TensorFlow Lite's C API that it calls experimental. */

#ifndef TENSORFLOW_LITE_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_LITE_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Variables keep their values from run to run. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterResetVariableTensors(TfLiteInterpreter* interpreter);
TFL_CAPI_EXPORT int32_t TfLiteInterpreterGetVariableTensorCount(const TfLiteInterpreter* interpreter);
TFL_CAPI_EXPORT TfLiteTensor* TfLiteInterpreterGetVariableTensor(
    const TfLiteInterpreter* interpreter, int32_t input_index);
TFL_CAPI_EXPORT int32_t TfLiteInterpreterGetInputTensorIndex(
    const TfLiteInterpreter* interpreter, int32_t input_index);
TFL_CAPI_EXPORT int32_t TfLiteInterpreterGetOutputTensorIndex(
    const TfLiteInterpreter* interpreter, int32_t output_index);

/* Operators of the program's. Registrations and what they refer to stay valid as long as interpreters that use them. */
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsAddBuiltinOp(
    TfLiteInterpreterOptions* options, TfLiteBuiltinOperator op, const TfLiteRegistration* registration,
    int32_t min_version, int32_t max_version);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsAddCustomOp(
    TfLiteInterpreterOptions* options, const char* name, const TfLiteRegistration* registration,
    int32_t min_version, int32_t max_version);

/* Functions that find operators. They are asked for each operator of a model when an interpreter is made; what they do
   not find is the library's own. */
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolver(
    TfLiteInterpreterOptions* options,
    const TfLiteRegistration* (*find_builtin_op)(void* user_data, TfLiteBuiltinOperator op, int version),
    const TfLiteRegistration* (*find_custom_op)(void* user_data, const char* custom_op, int version),
    void* op_resolver_user_data);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolverExternal(
    TfLiteInterpreterOptions* options,
    const TfLiteOperator* (*find_builtin_op)(void* user_data, int op, int version),
    const TfLiteOperator* (*find_custom_op)(void* user_data, const char* custom_op, int version),
    void* op_resolver_user_data);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolverExternalWithFallback(
    TfLiteInterpreterOptions* options,
    const TfLiteOperator* (*find_builtin_op_external)(void* user_data, int op, int version),
    const TfLiteOperator* (*find_custom_op_external)(void* user_data, const char* custom_op, int version),
    const TfLiteRegistration* (*find_builtin_op)(void* user_data, TfLiteBuiltinOperator op, int version),
    const TfLiteRegistration* (*find_custom_op)(void* user_data, const char* op, int version),
    void* op_resolver_user_data);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolverV3(
    TfLiteInterpreterOptions* options,
    const TfLiteRegistration_V3* (*find_builtin_op_v3)(void* user_data, TfLiteBuiltinOperator op, int version),
    const TfLiteRegistration_V3* (*find_custom_op_v3)(void* user_data, const char* op, int version),
    void* op_resolver_user_data);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolverV2(
    TfLiteInterpreterOptions* options,
    const TfLiteRegistration_V2* (*find_builtin_op_v2)(void* user_data, TfLiteBuiltinOperator op, int version),
    const TfLiteRegistration_V2* (*find_custom_op_v2)(void* user_data, const char* op, int version),
    void* op_resolver_user_data);
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetOpResolverV1(
    TfLiteInterpreterOptions* options,
    const TfLiteRegistration_V1* (*find_builtin_op_v1)(void* user_data, TfLiteBuiltinOperator op, int version),
    const TfLiteRegistration_V1* (*find_custom_op_v1)(void* user_data, const char* op, int version),
    void* op_resolver_user_data);

/* As TfLiteInterpreterCreate: the library's own operators are there in any case. */
TFL_CAPI_EXPORT TfLiteInterpreter* TfLiteInterpreterCreateWithSelectedOps(
    const TfLiteModel* model, const TfLiteInterpreterOptions* options);

/* NNAPI is part of Android; elsewhere the CPU is used. */
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetUseNNAPI(TfLiteInterpreterOptions* options, bool enable);
/* Lets the CPU take over if a delegate fails. */
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetEnableDelegateFallback(
    TfLiteInterpreterOptions* options, bool enable);

/* Adds a delegate and prepares the interpreter again. Inputs keep their values. On an error the interpreter stays as it
   was. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterModifyGraphWithDelegate(
    const TfLiteInterpreter* interpreter, TfLiteDelegate* delegate);

/* Memory of the program's, which stays valid until the interpreter is deleted. */
typedef struct TfLiteCustomAllocation {
  void* data;
  size_t bytes;
} TfLiteCustomAllocation;

typedef enum TfLiteCustomAllocationFlags {
  kTfLiteCustomAllocationFlagsNone = 0,
  kTfLiteCustomAllocationFlagsSkipAlignCheck = 1
} TfLiteCustomAllocationFlags;

/* Puts an input or an output into memory of the program's, aligned to 64 bytes. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterSetCustomAllocationForTensor(
    TfLiteInterpreter* interpreter, int tensor_index, const TfLiteCustomAllocation* allocation, int64_t flags);

/* Handles of a delegate's buffers. The delegate frees one when another is set for the tensor, and when the interpreter is
   deleted. It copies the buffer of a tensor whose field data_is_stale is set, before a run that reads the tensor and in
   TfLiteInterpreterEnsureTensorDataIsReadable. After a run, outputs are in memory in any case. */
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterSetBufferHandle(
    TfLiteInterpreter* interpreter, TfLiteTensor* tensor, TfLiteBufferHandle buffer_handle,
    TfLiteOpaqueDelegate* delegate);
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterGetBufferHandle(
    TfLiteInterpreter* interpreter, int tensor_index, TfLiteBufferHandle* buffer_handle,
    TfLiteOpaqueDelegate** delegate);
TFL_CAPI_EXPORT void TfLiteSetAllowBufferHandleOutput(
    const TfLiteInterpreter* interpreter, bool allow_buffer_handle_output);
TFL_CAPI_EXPORT TfLiteStatus TfLiteInterpreterEnsureTensorDataIsReadable(
    TfLiteInterpreter* interpreter, int tensor_index);

/* A profiler is accepted and never called. */
struct TfLiteTelemetryProfilerStruct;
TFL_CAPI_EXPORT void TfLiteInterpreterOptionsSetTelemetryProfiler(
    TfLiteInterpreterOptions* options, struct TfLiteTelemetryProfilerStruct* profiler);

#ifdef __cplusplus
}
#endif

#endif
