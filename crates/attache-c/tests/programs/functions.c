/* Calls every function that programs use, with valid and with invalid arguments.

   Arguments: a model that adds two inputs of [1,2,2,3] floats; one with a variable; one with two signatures. */

#include <limits.h>
#include <stdarg.h>

#include "attache/attache.h"
#include "check.h"
#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/delegates/nnapi/nnapi_delegate_c_api.h"
#include "tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h"

static int reported;
static char last[1024];

static void report(void* user_data, const char* format, va_list args) {
  CHECK(user_data == &reported);
  ++reported;
  vsnprintf(last, sizeof(last), format, args);
}

/* Returns how many errors were reported since the last call. */
static int errors(void) {
  const int count = reported;
  reported = 0;
  return count;
}

static TfLiteInterpreterOptions* quiet_options(void) {
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  CHECK(options != NULL);
  TfLiteInterpreterOptionsSetErrorReporter(options, report, &reported);
  return options;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  CHECK(fread(bytes, 1, *size, file) == *size);
  fclose(file);
  return bytes;
}

static void versions(void) {
  CHECK(strlen(TfLiteVersion()) > 0);
  CHECK(strlen(TfLiteExtensionApisVersion()) > 0);
  CHECK(TfLiteSchemaVersion() == 3);
  CHECK(strlen(attache_version()) > 0);
  CHECK(strcmp(TfLiteTypeGetName(kTfLiteFloat32), "FLOAT32") == 0);
  CHECK(strcmp(TfLiteTypeGetName((TfLiteType)77), "Unknown type") == 0);
}

static void models(const char* path) {
  size_t size;
  void* bytes = read_file(path, &size);
  TfLiteModel* model = TfLiteModelCreate(bytes, size);
  CHECK(model != NULL);
  TfLiteModelDelete(model);
  CHECK(TfLiteModelCreateWithErrorReporter(bytes, size / 2, report, &reported) == NULL && errors() == 1);
  CHECK(TfLiteModelCreateWithErrorReporter(bytes, 0, report, &reported) == NULL && errors() == 1);
  CHECK(TfLiteModelCreateWithErrorReporter(NULL, size, report, &reported) == NULL && errors() == 1);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter("/no/such/file", report, &reported) == NULL && errors() == 1);
  CHECK(strstr(last, "Could not open '/no/such/file'.") == last);
  CHECK(TfLiteModelCreateWithErrorReporter("no model, but 20 bytes", 20, report, &reported) == NULL && errors() == 1);
  CHECK(strcmp(last, "The model is not a valid Flatbuffer buffer") == 0);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter(NULL, report, &reported) == NULL && errors() == 1);
  free(bytes);
  TfLiteModelDelete(NULL);
}

static void options(void) {
  TfLiteInterpreterOptions* from = quiet_options();
  TfLiteInterpreterOptionsSetNumThreads(from, 2);
  TfLiteInterpreterOptionsSetEnableDelegateFallback(from, true);
  TfLiteInterpreterOptionsSetTelemetryProfiler(from, NULL);
  TfLiteInterpreterOptionsSetUseNNAPI(from, false);
  CHECK(TfLiteInterpreterOptionsEnableCancellation(from, true) == kTfLiteOk);
  CHECK(attache_interpreter_options_set_profile(from, true) == kTfLiteOk);
  CHECK(attache_interpreter_options_set_require_delegation(from, false) == kTfLiteOk);
  CHECK(errors() == 0);
  TfLiteInterpreterOptionsSetUseNNAPI(from, true);
  CHECK(errors() == 1);
  TfLiteInterpreterOptionsAddDelegate(from, NULL);
  CHECK(errors() == 1);
  TfLiteInterpreterOptionsAddOperator(from, NULL);
  CHECK(errors() == 1);
  TfLiteInterpreterOptionsAddCustomOp(from, "Mine", NULL, 1, 1);
  CHECK(errors() == 1);
  CHECK(attache_interpreter_options_set_cache(from, NULL, NULL) == kTfLiteError && errors() == 1);
  TfLiteInterpreterOptions* copy = TfLiteInterpreterOptionsCopy(from);
  CHECK(copy != NULL);
  TfLiteInterpreterOptionsDelete(from);
  TfLiteInterpreterOptionsAddDelegate(copy, NULL);
  CHECK(errors() == 1);
  TfLiteInterpreterOptionsDelete(copy);
  TfLiteInterpreterOptionsDelete(NULL);
}

static void tensors(const TfLiteInterpreter* interpreter) {
  CHECK(TfLiteInterpreterGetInputTensorCount(interpreter) == 2);
  CHECK(TfLiteInterpreterGetOutputTensorCount(interpreter) == 1);
  const int* inputs = TfLiteInterpreterInputTensorIndices(interpreter);
  const int* outputs = TfLiteInterpreterOutputTensorIndices(interpreter);
  CHECK(TfLiteInterpreterGetInputTensorIndex(interpreter, 1) == inputs[1]);
  CHECK(TfLiteInterpreterGetOutputTensorIndex(interpreter, 0) == outputs[0]);
  CHECK(TfLiteInterpreterGetInputTensorIndex(interpreter, 2) == -1);
  CHECK(TfLiteInterpreterGetOutputTensorIndex(interpreter, -1) == -1);
  CHECK(TfLiteInterpreterGetTensor(interpreter, inputs[0]) == TfLiteInterpreterGetInputTensor(interpreter, 0));
  CHECK(TfLiteInterpreterGetTensor(interpreter, outputs[0]) == TfLiteInterpreterGetOutputTensor(interpreter, 0));
  CHECK(TfLiteInterpreterGetTensor(interpreter, -1) == NULL);
  CHECK(TfLiteInterpreterGetTensor(interpreter, 1000) == NULL);
  CHECK(TfLiteInterpreterGetInputTensor(interpreter, -1) == NULL);
  CHECK(TfLiteInterpreterGetInputTensor(interpreter, 2) == NULL);
  CHECK(TfLiteInterpreterGetOutputTensor(interpreter, 1) == NULL);
  const TfLiteTensor* input = TfLiteInterpreterGetInputTensor(interpreter, 0);
  CHECK(TfLiteTensorType(input) == kTfLiteFloat32);
  CHECK(TfLiteTensorNumDims(input) == 4);
  CHECK(TfLiteTensorDim(input, 3) == 3 && TfLiteTensorDim(input, 4) == 0 && TfLiteTensorDim(input, -1) == 0);
  CHECK(TfLiteTensorByteSize(input) == 48);
  CHECK(strlen(TfLiteTensorName(input)) > 0);
  CHECK(TfLiteTensorQuantizationParams(input).scale == 0.0f);
  CHECK(TfLiteTensorGetAllocationStrategy(input) == kTfLiteAllocationStrategyArena);
  CHECK(TfLiteTensorGetBufferAddressStability(input) == kTfLiteRunStabilityUnstable);
  CHECK(TfLiteTensorGetDataStability(input) == kTfLiteRunStabilitySingleRun);
  CHECK(TfLiteTensorGetDataKnownStep(input) == kTfLiteRunStepEval);
  CHECK(TfLiteTensorGetShapeKnownStep(input) == kTfLiteRunStepPrepare);
}

static void runs(const TfLiteModel* model) {
  TfLiteInterpreterOptions* options = quiet_options();
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  CHECK(interpreter != NULL);
  tensors(interpreter);
  TfLiteTensor* a = TfLiteInterpreterGetInputTensor(interpreter, 0);
  TfLiteTensor* b = TfLiteInterpreterGetInputTensor(interpreter, 1);
  const TfLiteTensor* sum = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  float values[12], read[12];
  for (int i = 0; i < 12; ++i) values[i] = (float)i;

  /* Before tensors are allocated there is nothing to run, write or read. */
  CHECK(TfLiteTensorData(a) == NULL && errors() == 0);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteTensorCopyFromBuffer(a, values, sizeof(values)) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);

  /* Tensors have memory once they are allocated, also for those who read the struct. */
  CHECK(a->data.f != NULL && sum->data.f != NULL && a->dims_signature->size == 0);
  CHECK(TfLiteOpaqueTensorData((TfLiteOpaqueTensor*)a) == a->data.data);
  CHECK(TfLiteOpaqueTensorCopyFromBuffer((TfLiteOpaqueTensor*)a, values, sizeof(values)) == kTfLiteOk);
  CHECK(TfLiteOpaqueTensorCopyToBuffer((const TfLiteOpaqueTensor*)a, read, sizeof(read)) == kTfLiteOk && read[5] == 5.0f);
  CHECK(TfLiteTensorCopyToBuffer(sum, read, sizeof(read)) == kTfLiteOk && read[5] == 0.0f);
  CHECK(TfLiteTensorCopyFromBuffer(a, values, sizeof(values)) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(b, values, sizeof(values)) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(a, values, 47) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorCopyToBuffer(sum, read, sizeof(read)) == kTfLiteOk && read[5] == 10.0f);
  CHECK(TfLiteTensorCopyToBuffer(a, read, sizeof(read)) == kTfLiteOk && read[5] == 5.0f);
  CHECK(TfLiteTensorCopyToBuffer(sum, read, 4) == kTfLiteError && errors() == 1);

  /* Addresses stay, and what was written stays. */
  float* in = TfLiteTensorData(a);
  const float* out = TfLiteTensorData(sum);
  CHECK(in[5] == 5.0f && out[5] == 10.0f);
  CHECK((size_t)in % 64 == 0 && (size_t)out % 64 == 0);
  for (int run = 0; run < 5; ++run) {
    in[5] = (float)run;
    CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
    CHECK(out[5] == (float)run + 5.0f);
    CHECK(TfLiteTensorData(a) == in && TfLiteTensorData(sum) == out);
  }
  CHECK(TfLiteTensorCopyFromBuffer(a, values, sizeof(values)) == kTfLiteOk && in[5] == 5.0f);
  CHECK(TfLiteInterpreterEnsureTensorDataIsReadable(
      interpreter, TfLiteInterpreterGetOutputTensorIndex(interpreter, 0)) == kTfLiteOk);
  CHECK(sum->data.f == out);
  CHECK(TfLiteInterpreterEnsureTensorDataIsReadable(interpreter, 1000) == kTfLiteError && errors() == 1);

  /* A resize takes effect when tensors are allocated. */
  const int larger[4] = {1, 4, 2, 3}, wrong[4] = {1, -4, 2, 3}, huge[4] = {INT_MAX, INT_MAX, INT_MAX, 8};
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, huge, 4) == kTfLiteError && errors() == 1);
  CHECK(TfLiteTensorByteSize(a) == 48 && TfLiteTensorData(a) == in);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, wrong, 4) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 9, larger, 4) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, -1, larger, 4) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, NULL, 4) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, larger, 4) == kTfLiteOk);
  CHECK(TfLiteTensorByteSize(a) == 96 && TfLiteTensorData(a) == NULL);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) != kTfLiteOk && errors() == 1);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 1, larger, 4) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorByteSize(sum) == 96 && TfLiteTensorDim(sum, 1) == 4);
  in = TfLiteTensorData(a);
  float* other = TfLiteTensorData(b);
  for (int i = 0; i < 24; ++i) in[i] = other[i] = 1.0f;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(((const float*)TfLiteTensorData(sum))[23] == 2.0f);

  /* Reports. */
  CHECK(attache_interpreter_delegated_count(interpreter) == 0);
  CHECK(attache_interpreter_cpu_count(interpreter) == 1);
  char* placement = attache_interpreter_placement(interpreter);
  CHECK(strstr(placement, "ADD") != NULL);
  attache_text_free(placement);
  attache_text_free(attache_interpreter_profile(interpreter));

  /* Handles of buffers. */
  TfLiteBufferHandle handle = 7;
  TfLiteDelegate* delegate = NULL;
  CHECK(TfLiteInterpreterGetBufferHandle(interpreter, 0, &handle, &delegate) == kTfLiteOk && handle == -1);
  CHECK(TfLiteInterpreterGetBufferHandle(interpreter, 0, NULL, &delegate) == kTfLiteError && errors() == 1);
  TfLiteDelegate mine = TfLiteDelegateCreate(), others = TfLiteDelegateCreate();
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, a, 12, &mine) == kTfLiteOk);
  CHECK(TfLiteInterpreterGetBufferHandle(
      interpreter, TfLiteInterpreterGetInputTensorIndex(interpreter, 0), &handle, &delegate) == kTfLiteOk);
  CHECK(handle == 12 && delegate == &mine);
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, a, 1, &others) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterSetBufferHandle(interpreter, NULL, 1, &mine) == kTfLiteError && errors() == 1);
  TfLiteSetAllowBufferHandleOutput(interpreter, true);

  CHECK(TfLiteInterpreterCancel(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, NULL) == kTfLiteDelegateError && errors() == 1);
  TfLiteInterpreterDelete(interpreter);
  TfLiteInterpreterDelete(NULL);
}

static void custom_allocations(const TfLiteModel* model) {
  TfLiteInterpreterOptions* options = quiet_options();
  TfLiteInterpreterOptionsEnableCancellation(options, true);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  /* The options have no operators. */
  CHECK(TfLiteInterpreterCreateWithSelectedOps(model, options) == NULL && errors() == 1);
  CHECK(strstr(last, "Didn't find op for builtin opcode 'ADD' version '1'.") != NULL);
  TfLiteInterpreterOptionsDelete(options);
  const int* inputs = TfLiteInterpreterInputTensorIndices(interpreter);
  const int* outputs = TfLiteInterpreterOutputTensorIndices(interpreter);
  float* memory = aligned_alloc(64, 192);
  TfLiteCustomAllocation in = {memory, 64}, out = {memory + 16, 64}, small = {memory, 4}, odd = {memory + 1, 64};
  TfLiteCustomAllocation none = {NULL, 64};
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], &in, 0) == kTfLiteOk);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, outputs[0], &out, 0) == kTfLiteOk);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], &odd, 0) == kTfLiteError);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], &none, 0) == kTfLiteError);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], NULL, 0) == kTfLiteError);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, -1, &in, 0) == kTfLiteError);
  CHECK(errors() == 4);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  /* The size is checked whenever tensors are allocated. */
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], &small, 0) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError && errors() == 1);
  CHECK(TfLiteInterpreterSetCustomAllocationForTensor(interpreter, inputs[0], &in, 0) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  float* other = TfLiteTensorData(TfLiteInterpreterGetInputTensor(interpreter, 1));
  for (int i = 0; i < 12; ++i) memory[i] = other[i] = (float)i;
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(memory[16 + 7] == 14.0f);
  CHECK(TfLiteTensorData(TfLiteInterpreterGetInputTensor(interpreter, 0)) == memory);
  /* Nothing is under way, so nothing is cancelled. */
  CHECK(TfLiteInterpreterCancel(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  TfLiteInterpreterDelete(interpreter);
  free(memory);
}

static void compiled_models(const TfLiteModel* model) {
  AttacheCompiledModel* compiled = attache_compiled_model_create(model, NULL);
  CHECK(compiled != NULL);
  TfLiteInterpreter* first = attache_compiled_model_create_interpreter(compiled);
  TfLiteInterpreter* second = attache_compiled_model_create_interpreter(compiled);
  attache_compiled_model_delete(compiled);
  CHECK(TfLiteInterpreterAllocateTensors(first) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(second) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(second) == kTfLiteOk && TfLiteInterpreterInvoke(first) == kTfLiteOk);
  TfLiteInterpreterDelete(first);
  TfLiteInterpreterDelete(second);
  CHECK(attache_compiled_model_create(NULL, NULL) == NULL);
  CHECK(attache_compiled_model_create_interpreter(NULL) == NULL);
  attache_compiled_model_delete(NULL);
  attache_text_free(attache_devices());
  attache_text_free(NULL);
}

static void other_delegates(const TfLiteModel* model) {
  TfLiteXNNPackDelegateOptions xnnpack = TfLiteXNNPackDelegateOptionsDefault();
  struct TfLiteXNNPackDelegateWeightsCache* cache = TfLiteXNNPackDelegateWeightsCacheCreate();
  xnnpack.weights_cache = cache;
  TfLiteDelegate* cpu = TfLiteXNNPackDelegateCreate(&xnnpack);
  TfLiteDelegate* pooled = TfLiteXNNPackDelegateCreateWithThreadpool(NULL, NULL);
  CHECK(TfLiteXNNPackDelegateGetOptions(cpu)->weights_cache == cache);
  CHECK(TfLiteXNNPackDelegateGetFlags(pooled) == 3);
  CHECK(TfLiteXNNPackDelegateGetThreadPool(pooled) == NULL);
  TfLiteInterpreterOptions* options = quiet_options();
  TfLiteInterpreterOptionsAddDelegate(options, cpu);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, pooled) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  TfLiteXNNPackDelegateDelete(cpu);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  TfLiteInterpreterDelete(interpreter);
  TfLiteXNNPackDelegateDelete(pooled);
  CHECK(TfLiteXNNPackDelegateWeightsCacheFinalizeSoft(cache));
  CHECK(TfLiteXNNPackDelegateWeightsCacheFinalizeHard(cache));
  TfLiteXNNPackDelegateWeightsCacheDelete(cache);
  TfLiteXNNPackDelegateWeightsCacheDelete(TfLiteXNNPackDelegateWeightsCacheCreateWithSize(64));
  CHECK(!TfLiteXNNPackDelegateWeightsCacheFinalizeSoft(NULL));
  TfLiteNnapiDelegateOptions nnapi = TfLiteNnapiDelegateOptionsDefault();
  CHECK(nnapi.execution_preference == -1 && TfLiteNnapiDelegateCreate(&nnapi) == NULL);
  TfLiteNnapiDelegateDelete(NULL);
  CHECK(TfLiteDelegateCreate().Prepare == NULL);
}

static void variables(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, NULL);
  TfLiteModelDelete(model);
  CHECK(interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  const int count = TfLiteInterpreterGetVariableTensorCount(interpreter);
  CHECK(count > 0);
  CHECK(TfLiteInterpreterGetVariableTensor(interpreter, 0) != NULL);
  CHECK(TfLiteInterpreterGetVariableTensor(interpreter, count) == NULL);
  CHECK(TfLiteInterpreterGetVariableTensor(interpreter, -1) == NULL);
  const TfLiteTensor* out = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  TfLiteTensor* in = TfLiteInterpreterGetInputTensor(interpreter, 0);
  memset(TfLiteTensorData(in), 0x3e, TfLiteTensorByteSize(in));
  const size_t size = TfLiteTensorByteSize(out);
  char *first = malloc(size), *second = malloc(size), *again = malloc(size);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorCopyToBuffer(out, first, size) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorCopyToBuffer(out, second, size) == kTfLiteOk);
  CHECK(memcmp(first, second, size) != 0);
  CHECK(TfLiteInterpreterResetVariableTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorCopyToBuffer(out, again, size) == kTfLiteOk);
  CHECK(memcmp(first, again, size) == 0);
  free(first);
  free(second);
  free(again);
  TfLiteInterpreterDelete(interpreter);
}

static void signatures(const char* path) {
  TfLiteModel* model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreterOptions* options = quiet_options();
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  CHECK(interpreter != NULL);
  CHECK(TfLiteInterpreterGetSignatureCount(interpreter) == 2);
  CHECK(TfLiteInterpreterGetSignatureKey(interpreter, 2) == NULL);
  CHECK(TfLiteInterpreterGetSignatureRunner(interpreter, "none") == NULL && errors() == 1);
  TfLiteSignatureRunner* unnamed = TfLiteInterpreterGetSignatureRunner(interpreter, NULL);
  CHECK(strcmp(TfLiteSignatureRunnerGetInputName(unnamed, 0), "in") == 0);
  TfLiteSignatureRunnerDelete(unnamed);
  for (int32_t i = 0; i < 2; ++i) {
    const char* key = TfLiteInterpreterGetSignatureKey(interpreter, i);
    TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter, key);
    CHECK(runner != NULL);
    CHECK(TfLiteSignatureRunnerGetInputCount(runner) == 1 && TfLiteSignatureRunnerGetOutputCount(runner) == 1);
    CHECK(TfLiteSignatureRunnerGetInputName(runner, 1) == NULL);
    CHECK(TfLiteSignatureRunnerGetOutputName(runner, -1) == NULL);
    const char* x = TfLiteSignatureRunnerGetInputName(runner, 0);
    const char* y = TfLiteSignatureRunnerGetOutputName(runner, 0);
    CHECK(TfLiteSignatureRunnerGetInputTensor(runner, "none") == NULL);
    CHECK(TfLiteSignatureRunnerGetOutputTensor(runner, NULL) == NULL);
    CHECK(TfLiteSignatureRunnerInvoke(runner) == kTfLiteError && errors() == 1);
    const int three[1] = {3}, five[1] = {5}, other[2] = {1, 4};
    CHECK(TfLiteSignatureRunnerResizeInputTensor(runner, x, other, 2) == kTfLiteError && errors() == 1);
    CHECK(TfLiteSignatureRunnerResizeInputTensor(runner, "none", three, 1) == kTfLiteError && errors() == 1);
    CHECK(TfLiteSignatureRunnerResizeInputTensor(runner, x, i ? three : five, 1) == kTfLiteOk);
    CHECK(TfLiteSignatureRunnerAllocateTensors(runner) == kTfLiteOk);
    float* in = TfLiteTensorData(TfLiteSignatureRunnerGetInputTensor(runner, x));
    const TfLiteTensor* out = TfLiteSignatureRunnerGetOutputTensor(runner, y);
    in[2] = -4.0f;
    CHECK(TfLiteSignatureRunnerInvoke(runner) == kTfLiteOk);
    CHECK(TfLiteTensorDim(out, 0) == (i ? 3 : 5));
    const float result = ((const float*)TfLiteTensorData(out))[2];
    CHECK(result == (strcmp(key, "negate") == 0 ? 4.0f : 16.0f));
    CHECK(TfLiteSignatureRunnerCancel(runner) == kTfLiteError && errors() == 1);
    TfLiteSignatureRunnerDelete(runner);
  }
  TfLiteSignatureRunnerDelete(NULL);
  TfLiteSignatureRunner* orphan =
      TfLiteInterpreterGetSignatureRunner(interpreter, TfLiteInterpreterGetSignatureKey(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
  CHECK(TfLiteSignatureRunnerGetInputTensor(orphan, "in") == NULL);
  CHECK(TfLiteSignatureRunnerInvoke(orphan) == kTfLiteError);
  TfLiteSignatureRunnerDelete(orphan);
  TfLiteModelDelete(model);
}

/* Null and deleted objects are errors wherever they are noticed. */
static void invalid_objects(TfLiteModel* model) {
  TfLiteInterpreterOptions* options = quiet_options();
  CHECK(TfLiteInterpreterCreate(NULL, options) == NULL && errors() == 1);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterDelete(interpreter);
  TfLiteInterpreterOptionsDelete(options);
  const TfLiteInterpreter* gone[2] = {NULL, interpreter};
  for (int i = 0; i < 2; ++i) {
    TfLiteInterpreter* it = (TfLiteInterpreter*)gone[i];
    CHECK(TfLiteInterpreterInvoke(it) == kTfLiteError);
    CHECK(TfLiteInterpreterAllocateTensors(it) == kTfLiteError);
    CHECK(TfLiteInterpreterGetInputTensorCount(it) == 0);
    CHECK(TfLiteInterpreterGetOutputTensorCount(it) == 0);
    CHECK(TfLiteInterpreterGetInputTensor(it, 0) == NULL);
    CHECK(TfLiteInterpreterGetOutputTensor(it, 0) == NULL);
    CHECK(TfLiteInterpreterGetSignatureCount(it) == 0);
    CHECK(TfLiteInterpreterCancel(it) == kTfLiteError);
    CHECK(attache_interpreter_placement(it) == NULL);
  }
  TfLiteInterpreterDelete(interpreter);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteInterpreterOptionsSetNumThreads(options, 1);
  CHECK(TfLiteInterpreterOptionsCopy(options) == NULL && TfLiteInterpreterOptionsCopy(NULL) == NULL);
  CHECK(TfLiteInterpreterCreate(model, options) == NULL);
  CHECK(TfLiteTensorType(NULL) == kTfLiteNoType && TfLiteTensorNumDims(NULL) == -1);
  CHECK(TfLiteTensorByteSize(NULL) == 0 && TfLiteTensorData(NULL) == NULL && TfLiteTensorName(NULL) == NULL);
  CHECK(TfLiteTensorCopyFromBuffer(NULL, options, 4) == kTfLiteError);
  CHECK(TfLiteTensorCopyToBuffer(NULL, NULL, 4) == kTfLiteError);
  CHECK(TfLiteSignatureRunnerInvoke(NULL) == kTfLiteError && TfLiteSignatureRunnerGetInputCount(NULL) == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  versions();
  models(argv[1]);
  options();
  TfLiteModel* model = TfLiteModelCreateFromFile(argv[1]);
  runs(model);
  custom_allocations(model);
  compiled_models(model);
  other_delegates(model);
  invalid_objects(model);
  TfLiteModelDelete(model);
  variables(argv[2]);
  signatures(argv[3]);
  return 0;
}
