/* Operators of the program's, for TfLiteInterpreterOptionsAddOperator and for the kernels of opaque delegates.

   Asynchronous kernels are never called. */

#ifndef TENSORFLOW_LITE_C_OPERATOR_H_
#define TENSORFLOW_LITE_C_OPERATOR_H_

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In C++, the user data may be left out. */
#ifdef __cplusplus
TFL_CAPI_EXPORT TfLiteOperator* TfLiteOperatorCreate(
    TfLiteBuiltinOperator code, const char* name, int version, void* user_data = nullptr);
#else
TFL_CAPI_EXPORT TfLiteOperator* TfLiteOperatorCreate(
    TfLiteBuiltinOperator code, const char* name, int version, void* user_data);
#endif
TFL_CAPI_EXPORT TfLiteOperator* TfLiteOperatorCreateWithData(
    TfLiteBuiltinOperator code, const char* name, int version, void* user_data);
TFL_CAPI_EXPORT void TfLiteOperatorDelete(TfLiteOperator* registration);
TFL_CAPI_EXPORT TfLiteBuiltinOperator TfLiteOperatorGetBuiltInCode(const TfLiteOperator* registration);
TFL_CAPI_EXPORT const char* TfLiteOperatorGetCustomName(const TfLiteOperator* registration);
TFL_CAPI_EXPORT int TfLiteOperatorGetVersion(const TfLiteOperator* registration);
TFL_CAPI_EXPORT void* TfLiteOperatorGetUserData(const TfLiteOperator* registration);
TFL_CAPI_EXPORT void TfLiteOperatorSetInit(
    TfLiteOperator* registration, void* (*init)(TfLiteOpaqueContext* context, const char* buffer, size_t length));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetInitWithData(
    TfLiteOperator* registration,
    void* (*init_with_data)(void* user_data, TfLiteOpaqueContext* context, const char* buffer, size_t length));
TFL_CAPI_EXPORT void TfLiteOperatorSetFree(
    TfLiteOperator* registration, void (*free)(TfLiteOpaqueContext* context, void* data));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetFreeWithData(
    TfLiteOperator* registration, void (*free_with_data)(void* user_data, TfLiteOpaqueContext* context, void* data));
TFL_CAPI_EXPORT void TfLiteOperatorSetPrepare(
    TfLiteOperator* registration, TfLiteStatus (*prepare)(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetPrepareWithData(
    TfLiteOperator* registration,
    TfLiteStatus (*prepare_with_data)(void* user_data, TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT void TfLiteOperatorSetInvoke(
    TfLiteOperator* registration, TfLiteStatus (*invoke)(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetInvokeWithData(
    TfLiteOperator* registration,
    TfLiteStatus (*invoke_with_data)(void* user_data, TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT void TfLiteOperatorSetAsyncKernel(
    TfLiteOperator* registration, TfLiteAsyncKernel* (*kernel)(TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetAsyncKernelWithData(
    TfLiteOperator* registration,
    TfLiteAsyncKernel* (*kernel)(void* user_data, TfLiteOpaqueContext* context, TfLiteOpaqueNode* node));
TFL_CAPI_EXPORT void TfLiteOperatorSetInplaceOperator(TfLiteOperator* registration, uint64_t inplace);

#ifdef __cplusplus
}
#endif

#endif
