/* The native functions of the Java classes, over the C library. The classes check their arguments; here they are passed on.
   No function throws, apart from lack of memory: errors are values, and takeMessage returns the text. */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attache/attache.h"
#include "attache/graph.h"
#include "org_tensorflow_lite_attache_Natives.h"
#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/delegates/gpu/delegate.h"

#define IGNORED __attribute__((unused))
#define NATIVE(type, name, ...) \
  JNIEXPORT type JNICALL Java_org_tensorflow_lite_attache_Natives_##name( \
      IGNORED JNIEnv* env, IGNORED jclass natives, ##__VA_ARGS__)

/* Addresses travel through Java as numbers. */
#define POINTER(type, handle) ((type*)(intptr_t)(handle))
#define HANDLE(pointer) ((jlong)(intptr_t)(pointer))

/* What was reported in this thread since the last call of forget. */
static _Thread_local char message[4096];

static void forget(void) { message[0] = 0; }

static void report(IGNORED void* user_data, const char* format, va_list arguments) {
  size_t used = strlen(message);
  if (used > 0 && used + 2 < sizeof(message)) {
    message[used++] = '\n';
    message[used] = 0;
  }
  vsnprintf(message + used, sizeof(message) - used, format, arguments);
}

/* Returns a text as bytes of Java's; null for null, and without memory. */
static jbyteArray bytes_of(JNIEnv* env, const char* text) {
  if (!text) return NULL;
  const jsize length = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, length);
  if (bytes) (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte*)text);
  return bytes;
}

/* Returns a copy of a text, to be freed; null for null, and without memory. */
static char* text_of(JNIEnv* env, jbyteArray bytes) {
  if (!bytes) return NULL;
  const jsize length = (*env)->GetArrayLength(env, bytes);
  char* text = malloc((size_t)length + 1);
  if (!text) return NULL;
  (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte*)text);
  text[length] = 0;
  return text;
}

static jintArray integers_of(JNIEnv* env, const TfLiteIntArray* list) {
  const jsize length = list ? list->size : 0;
  jintArray integers = (*env)->NewIntArray(env, length);
  if (integers && length > 0) (*env)->SetIntArrayRegion(env, integers, 0, length, (const jint*)list->data);
  return integers;
}

NATIVE(jbyteArray, takeMessage) {
  jbyteArray bytes = bytes_of(env, message);
  forget();
  return bytes;
}

NATIVE(jbyteArray, runtimeVersion) { return bytes_of(env, TfLiteVersion()); }

NATIVE(jint, schemaVersion) { return TfLiteSchemaVersion(); }

/* Models */

NATIVE(jlong, openFile, jbyteArray path) {
  forget();
  char* text = text_of(env, path);
  TfLiteModel* model = TfLiteModelCreateFromFileWithErrorReporter(text, report, NULL);
  free(text);
  return HANDLE(model);
}

NATIVE(jlong, openMemory, jobject buffer) {
  forget();
  const void* data = (*env)->GetDirectBufferAddress(env, buffer);
  const jlong size = (*env)->GetDirectBufferCapacity(env, buffer);
  return HANDLE(TfLiteModelCreateWithErrorReporter(data, size < 0 ? 0 : (size_t)size, report, NULL));
}

NATIVE(void, deleteModel, jlong model) { TfLiteModelDelete(POINTER(TfLiteModel, model)); }

/* Interpreters */

/* Adds delegates to options. Returns false without memory, with an exception. */
static bool add_delegates(JNIEnv* env, TfLiteInterpreterOptions* options, jlongArray delegates) {
  const jsize count = (*env)->GetArrayLength(env, delegates);
  for (jsize i = 0; i < count; ++i) {
    jlong delegate = 0;
    (*env)->GetLongArrayRegion(env, delegates, i, 1, &delegate);
    TfLiteInterpreterOptionsAddDelegate(options, POINTER(TfLiteDelegate, delegate));
    /* An address that is no delegate's is reported. */
    if (message[0]) return false;
  }
  return true;
}

NATIVE(jlong, createInterpreter, jlong model, jint threads, jboolean is_cancellable, jlongArray delegates) {
  forget();
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetErrorReporter(options, report, NULL);
  TfLiteInterpreterOptionsSetNumThreads(options, threads);
  TfLiteInterpreterOptionsEnableCancellation(options, is_cancellable);
  TfLiteInterpreter* interpreter = NULL;
  if (add_delegates(env, options, delegates)) {
    interpreter = TfLiteInterpreterCreate(POINTER(TfLiteModel, model), options);
  }
  TfLiteInterpreterOptionsDelete(options);
  return HANDLE(interpreter);
}

NATIVE(void, deleteInterpreter, jlong interpreter) {
  TfLiteInterpreterDelete(POINTER(TfLiteInterpreter, interpreter));
}

NATIVE(jboolean, allocate, jlong interpreter) {
  forget();
  return TfLiteInterpreterAllocateTensors(POINTER(TfLiteInterpreter, interpreter)) == kTfLiteOk;
}

NATIVE(jint, invoke, jlong interpreter) {
  forget();
  return TfLiteInterpreterInvoke(POINTER(TfLiteInterpreter, interpreter));
}

NATIVE(void, cancel, jlong interpreter) { TfLiteInterpreterCancel(POINTER(TfLiteInterpreter, interpreter)); }

NATIVE(jboolean, resetVariables, jlong interpreter) {
  forget();
  return TfLiteInterpreterResetVariableTensors(POINTER(TfLiteInterpreter, interpreter)) == kTfLiteOk;
}

NATIVE(jint, inputCount, jlong interpreter) {
  return TfLiteInterpreterGetInputTensorCount(POINTER(TfLiteInterpreter, interpreter));
}

NATIVE(jint, outputCount, jlong interpreter) {
  return TfLiteInterpreterGetOutputTensorCount(POINTER(TfLiteInterpreter, interpreter));
}

NATIVE(jlong, input, jlong interpreter, jint position) {
  return HANDLE(TfLiteInterpreterGetInputTensor(POINTER(TfLiteInterpreter, interpreter), position));
}

NATIVE(jlong, output, jlong interpreter, jint position) {
  return HANDLE(TfLiteInterpreterGetOutputTensor(POINTER(TfLiteInterpreter, interpreter), position));
}

NATIVE(jbyteArray, placement, jlong interpreter) {
  forget();
  char* text = attache_interpreter_placement(POINTER(TfLiteInterpreter, interpreter));
  jbyteArray bytes = bytes_of(env, text);
  attache_text_free(text);
  return bytes;
}

/* Signatures */

NATIVE(jint, signatureCount, jlong interpreter) {
  return TfLiteInterpreterGetSignatureCount(POINTER(TfLiteInterpreter, interpreter));
}

NATIVE(jbyteArray, signatureKey, jlong interpreter, jint position) {
  return bytes_of(env, TfLiteInterpreterGetSignatureKey(POINTER(TfLiteInterpreter, interpreter), position));
}

NATIVE(jlong, createRunner, jlong interpreter, jbyteArray key) {
  forget();
  char* text = text_of(env, key);
  TfLiteSignatureRunner* runner = NULL;
  if (text) runner = TfLiteInterpreterGetSignatureRunner(POINTER(TfLiteInterpreter, interpreter), text);
  free(text);
  return HANDLE(runner);
}

NATIVE(void, deleteRunner, jlong runner) { TfLiteSignatureRunnerDelete(POINTER(TfLiteSignatureRunner, runner)); }

NATIVE(jboolean, allocateRunner, jlong runner) {
  forget();
  return TfLiteSignatureRunnerAllocateTensors(POINTER(TfLiteSignatureRunner, runner)) == kTfLiteOk;
}

NATIVE(jint, invokeRunner, jlong runner) {
  forget();
  return TfLiteSignatureRunnerInvoke(POINTER(TfLiteSignatureRunner, runner));
}

NATIVE(jint, runnerInputCount, jlong runner) {
  return (jint)TfLiteSignatureRunnerGetInputCount(POINTER(TfLiteSignatureRunner, runner));
}

NATIVE(jint, runnerOutputCount, jlong runner) {
  return (jint)TfLiteSignatureRunnerGetOutputCount(POINTER(TfLiteSignatureRunner, runner));
}

NATIVE(jbyteArray, runnerInputName, jlong runner, jint position) {
  return bytes_of(env, TfLiteSignatureRunnerGetInputName(POINTER(TfLiteSignatureRunner, runner), position));
}

NATIVE(jbyteArray, runnerOutputName, jlong runner, jint position) {
  return bytes_of(env, TfLiteSignatureRunnerGetOutputName(POINTER(TfLiteSignatureRunner, runner), position));
}

NATIVE(jlong, runnerInput, jlong runner, jbyteArray name) {
  char* text = text_of(env, name);
  TfLiteTensor* tensor = TfLiteSignatureRunnerGetInputTensor(POINTER(TfLiteSignatureRunner, runner), text);
  free(text);
  return HANDLE(tensor);
}

NATIVE(jlong, runnerOutput, jlong runner, jbyteArray name) {
  char* text = text_of(env, name);
  const TfLiteTensor* tensor = TfLiteSignatureRunnerGetOutputTensor(POINTER(TfLiteSignatureRunner, runner), text);
  free(text);
  return HANDLE(tensor);
}

/* Tensors */

NATIVE(jint, type, jlong tensor) { return (jint)TfLiteTensorType(POINTER(TfLiteTensor, tensor)); }

NATIVE(jbyteArray, name, jlong tensor) {
  const char* name = TfLiteTensorName(POINTER(TfLiteTensor, tensor));
  return bytes_of(env, name ? name : "");
}

NATIVE(jintArray, shape, jlong tensor) { return integers_of(env, POINTER(TfLiteTensor, tensor)->dims); }

NATIVE(jintArray, shapeSignature, jlong handle) {
  const TfLiteTensor* tensor = POINTER(TfLiteTensor, handle);
  const TfLiteIntArray* signature = tensor->dims_signature;
  return integers_of(env, signature && signature->size > 0 ? signature : tensor->dims);
}

NATIVE(jlong, byteSize, jlong tensor) { return (jlong)TfLiteTensorByteSize(POINTER(TfLiteTensor, tensor)); }

NATIVE(jfloat, scale, jlong tensor) {
  return TfLiteTensorQuantizationParams(POINTER(TfLiteTensor, tensor)).scale;
}

NATIVE(jint, zeroPoint, jlong tensor) {
  return TfLiteTensorQuantizationParams(POINTER(TfLiteTensor, tensor)).zero_point;
}

NATIVE(jint, index, jlong handle, jlong tensor) {
  const TfLiteInterpreter* interpreter = POINTER(TfLiteInterpreter, handle);
  const int32_t subgraphs = attache_interpreter_subgraph_count(interpreter);
  for (int32_t subgraph = 0; subgraph < subgraphs; ++subgraph) {
    const int32_t tensors = attache_interpreter_tensor_count(interpreter, subgraph);
    for (int32_t index = 0; index < tensors; ++index) {
      if (HANDLE(attache_interpreter_tensor(interpreter, subgraph, index)) == tensor) return index;
    }
  }
  return -1;
}

NATIVE(jboolean, resize, jlong tensor, jintArray shape) {
  forget();
  const jsize length = (*env)->GetArrayLength(env, shape);
  int* dims = malloc(((size_t)length + 1) * sizeof(int));
  if (!dims) return JNI_FALSE;
  (*env)->GetIntArrayRegion(env, shape, 0, length, (jint*)dims);
  const TfLiteStatus status = attache_tensor_resize(POINTER(TfLiteTensor, tensor), dims, length);
  free(dims);
  return status == kTfLiteOk;
}

NATIVE(jboolean, isConstant, jlong tensor) {
  return POINTER(TfLiteTensor, tensor)->allocation_type == kTfLiteMmapRo;
}

NATIVE(jobject, memory, jlong handle) {
  const TfLiteTensor* tensor = POINTER(TfLiteTensor, handle);
  void* data = TfLiteTensorData(tensor);
  const size_t size = TfLiteTensorByteSize(tensor);
  /* Buffers of Java's have no more bytes. */
  return data && size <= INT32_MAX ? (*env)->NewDirectByteBuffer(env, data, (jlong)size) : NULL;
}

NATIVE(jbyteArray, strings, jlong handle) {
  const TfLiteTensor* tensor = POINTER(TfLiteTensor, handle);
  const void* data = TfLiteTensorData(tensor);
  const size_t size = TfLiteTensorByteSize(tensor);
  /* Offsets have 31 bits. */
  jbyteArray content = data && size <= INT32_MAX ? (*env)->NewByteArray(env, (jsize)size) : NULL;
  if (content) (*env)->SetByteArrayRegion(env, content, 0, (jsize)size, data);
  return content;
}

NATIVE(jboolean, setStrings, jlong tensor, jbyteArray content) {
  forget();
  jbyte* bytes = (*env)->GetByteArrayElements(env, content, NULL);
  if (!bytes) return JNI_FALSE;
  const size_t size = (size_t)(*env)->GetArrayLength(env, content);
  const TfLiteStatus status = TfLiteTensorCopyFromBuffer(POINTER(TfLiteTensor, tensor), bytes, size);
  (*env)->ReleaseByteArrayElements(env, content, bytes, JNI_ABORT);
  return status == kTfLiteOk;
}

/* The GPU */

NATIVE(jlong, createGpuDelegate, jboolean is_precision_loss_allowed, jint inference_preference, jlong experimental_flags,
       jbyteArray folder, jbyteArray token) {
  forget();
  char* serialization_dir = text_of(env, folder);
  char* model_token = text_of(env, token);
  TfLiteGpuDelegateOptionsV2 options = TfLiteGpuDelegateOptionsV2Default();
  options.is_precision_loss_allowed = is_precision_loss_allowed;
  options.inference_preference = inference_preference;
  options.experimental_flags = experimental_flags;
  options.serialization_dir = serialization_dir;
  options.model_token = model_token;
  TfLiteDelegate* delegate = attache_gpu_delegate_create(&options, report, NULL);
  free(serialization_dir);
  free(model_token);
  return HANDLE(delegate);
}

NATIVE(void, deleteGpuDelegate, jlong delegate) { TfLiteGpuDelegateV2Delete(POINTER(TfLiteDelegate, delegate)); }
