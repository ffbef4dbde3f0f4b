// An opaque delegate that takes ADD and MUL of floats, through functions of the runtime alone. Compiled with STABLE it is a
// stable delegate, else a plug-in.
#include "abi.h"

typedef struct TfLiteOperator TfLiteOperator;

extern TfLiteIntArray* TfLiteIntArrayCreate(int size);
extern TfLiteIntArray* TfLiteIntArrayCopy(const TfLiteIntArray*);
extern int TfLiteIntArrayEqual(const TfLiteIntArray*, const TfLiteIntArray*);
extern void TfLiteIntArrayFree(TfLiteIntArray*);
extern const char* TfLiteTypeGetName(int type);
extern TfLiteStatus TfLiteTensorRealloc(size_t bytes, TfLiteTensor*);
extern void TfLiteTensorDataFree(TfLiteTensor*);
extern void TfLiteQuantizationFree(TfLiteQuantization*);
extern TfLiteDelegate* TfLiteOpaqueDelegateCreate(const TfLiteOpaqueDelegateBuilder*);
extern void TfLiteOpaqueDelegateDelete(TfLiteDelegate*);
extern void* TfLiteOpaqueDelegateGetData(const TfLiteDelegate*);
extern TfLiteStatus TfLiteOpaqueContextGetExecutionPlan(void* context, TfLiteIntArray**);
extern TfLiteStatus TfLiteOpaqueContextGetNodeAndRegistration(void* context, int, void** node, TfLiteOperator**);
extern TfLiteStatus TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(void* context, TfLiteOperator*,
                                                                             const TfLiteIntArray*, TfLiteDelegate*);
extern void* TfLiteOpaqueContextGetOpaqueTensor(const void* context, int);
extern void TfLiteOpaqueContextReportError(void* context, const char*, ...);
extern size_t TfLiteOpaqueContextGetNumTensors(const void* context);
extern int TfLiteOperatorGetBuiltInCode(const TfLiteOperator*);
extern TfLiteOperator* TfLiteOperatorCreate(int code, const char* name, int version, void* user_data);
extern TfLiteStatus TfLiteOperatorSetInitWithData(TfLiteOperator*, void* (*)(void*, void*, const char*, size_t));
extern TfLiteStatus TfLiteOperatorSetFreeWithData(TfLiteOperator*, void (*)(void*, void*, void*));
extern TfLiteStatus TfLiteOperatorSetPrepareWithData(TfLiteOperator*, TfLiteStatus (*)(void*, void*, void*));
extern TfLiteStatus TfLiteOperatorSetInvokeWithData(TfLiteOperator*, TfLiteStatus (*)(void*, void*, void*));
extern void* TfLiteOpaqueTensorBuilderCreate(void);
extern void TfLiteOpaqueTensorBuilderDelete(void*);
extern void* TfLiteOpaqueTensorBuilderSetType(void*, int);
extern void* TfLiteOpaqueTensorBuilderSetAllocationType(void*, int);
extern void* TfLiteOpaqueTensorBuilderSetData(void*, void*);
extern TfLiteStatus TfLiteOpaqueContextAddTensor(void* context, void* builder, int* index);
extern TfLiteStatus TfLiteOpaqueTensorGetNumDimsSignature(const void* tensor, int32_t*);
extern TfLiteStatus TfLiteOpaqueTensorGetDimSignature(const void* tensor, int32_t place, int32_t*);
extern int TfLiteOpaqueNodeNumberOfInputs(const void* node);
extern const void* TfLiteOpaqueNodeGetInput(const void* context, const void* node, int);
extern void* TfLiteOpaqueNodeGetOutput(void* context, const void* node, int);
extern int TfLiteOpaqueNodeGetInputTensorIndex(const void* node, int);
extern int TfLiteOpaqueNodeGetOutputTensorIndex(const void* node, int);
extern void* TfLiteOpaqueNodeGetUserData(const void* node);
extern void* TfLiteOpaqueNodeGetBuiltinData(const void* node);
extern int TfLiteOpaqueTensorType(const void*);
extern int32_t TfLiteOpaqueTensorNumDims(const void*);
extern int32_t TfLiteOpaqueTensorDim(const void*, int32_t);
extern size_t TfLiteOpaqueTensorByteSize(const void*);
extern void* TfLiteOpaqueTensorData(const void*);

typedef struct {
  int count;
  int (*steps)[4];
  float** made;
} Kernel;

static int g_data = 42;

static bool SameShape(const void* a, const void* b) {
  int rank = TfLiteOpaqueTensorNumDims(a);
  if (rank != TfLiteOpaqueTensorNumDims(b)) return false;
  for (int i = 0; i < rank; ++i) {
    if (TfLiteOpaqueTensorDim(a, i) != TfLiteOpaqueTensorDim(b, i)) return false;
  }
  return true;
}

static void* Init(void* user_data, void* context, const char* buffer, size_t length) {
  const TfLiteOpaqueDelegateParams* params = (const TfLiteOpaqueDelegateParams*)buffer;
  (void)length;
  if (user_data != &g_data || params->delegate_data != &g_data) abort();
  Kernel* kernel = calloc(1, sizeof(Kernel));
  kernel->count = params->nodes_to_replace->size;
  kernel->steps = calloc((size_t)kernel->count, sizeof(int[4]));
  kernel->made = calloc((size_t)kernel->count, sizeof(float*));
  for (int i = 0; i < kernel->count; ++i) {
    void* node;
    TfLiteOperator* op;
    if (TfLiteOpaqueContextGetNodeAndRegistration(context, params->nodes_to_replace->data[i], &node, &op)) abort();
    kernel->steps[i][0] = TfLiteOperatorGetBuiltInCode(op);
    kernel->steps[i][1] = TfLiteOpaqueNodeGetInputTensorIndex(node, 0);
    kernel->steps[i][2] = TfLiteOpaqueNodeGetInputTensorIndex(node, 1);
    kernel->steps[i][3] = TfLiteOpaqueNodeGetOutputTensorIndex(node, 0);
  }
  return kernel;
}

static void Free(void* user_data, void* context, void* data) {
  Kernel* kernel = data;
  (void)user_data;
  (void)context;
  for (int i = 0; i < kernel->count; ++i) free(kernel->made[i]);
  free(kernel->made);
  free(kernel->steps);
  free(kernel);
}

static TfLiteStatus PrepareKernel(void* user_data, void* context, void* node) {
  Kernel* kernel = TfLiteOpaqueNodeGetUserData(node);
  (void)user_data;
  for (int i = 0; i < kernel->count; ++i) {
    kernel->made[i] = malloc(TfLiteOpaqueTensorByteSize(TfLiteOpaqueContextGetOpaqueTensor(context, kernel->steps[i][3])));
  }
  return kTfLiteOk;
}

static const float* Data(void* context, const Kernel* kernel, int step, int tensor) {
  for (int i = 0; i < step; ++i) {
    if (kernel->steps[i][3] == tensor) return kernel->made[i];
  }
  return TfLiteOpaqueTensorData(TfLiteOpaqueContextGetOpaqueTensor(context, tensor));
}

static TfLiteStatus Invoke(void* user_data, void* context, void* node) {
  Kernel* kernel = TfLiteOpaqueNodeGetUserData(node);
  (void)user_data;
  for (int i = 0; i < kernel->count; ++i) {
    const float* a = Data(context, kernel, i, kernel->steps[i][1]);
    const float* b = Data(context, kernel, i, kernel->steps[i][2]);
    void* output = TfLiteOpaqueContextGetOpaqueTensor(context, kernel->steps[i][3]);
    size_t elements = TfLiteOpaqueTensorByteSize(output) / sizeof(float);
    for (size_t j = 0; j < elements; ++j) {
      kernel->made[i][j] = kernel->steps[i][0] == kAdd ? a[j] + b[j] : a[j] * b[j];
    }
    if (TfLiteOpaqueTensorData(output) != NULL) {
      memcpy(TfLiteOpaqueTensorData(output), kernel->made[i], elements * sizeof(float));
    }
  }
  return kTfLiteOk;
}

enum { kMmapRo = 1 };
int TfLiteOpaqueTensorGetAllocationType(const void* tensor);

// Aborts if the context adds a tensor that it should refuse, or refuses one that it should add.
static void CheckAdded(void* context, int allocation_type, void* data, TfLiteStatus expected) {
  void* builder = TfLiteOpaqueTensorBuilderCreate();
  TfLiteOpaqueTensorBuilderSetType(builder, kFloat32);
  TfLiteOpaqueTensorBuilderSetAllocationType(builder, allocation_type);
  TfLiteOpaqueTensorBuilderSetData(builder, data);
  if (TfLiteOpaqueContextAddTensor(context, builder, NULL) != expected) abort();
  TfLiteOpaqueTensorBuilderDelete(builder);
}

static void CheckTensors(void* context, const void* constant) {
  static float data;
  CheckAdded(context, kMmapRo, &data, kTfLiteError);
  CheckAdded(context, kDynamic, NULL, kTfLiteError);
  CheckAdded(context, kDynamic, malloc(sizeof(float)), kTfLiteOk);
  CheckAdded(context, kArenaRw, &data, kTfLiteError);
  CheckAdded(context, kArenaRw, NULL, kTfLiteOk);
  // The file has no signatures. Constants have none in any file.
  int32_t count = 7, extent = 7;
  if (TfLiteOpaqueTensorGetNumDimsSignature(constant, &count) != kTfLiteOk || count != -1) abort();
  const void* input = TfLiteOpaqueContextGetOpaqueTensor(context, 0);
  if (TfLiteOpaqueTensorGetNumDimsSignature(input, &count) != kTfLiteOk || count != 0) abort();
  if (TfLiteOpaqueTensorGetDimSignature(input, 0, &extent) != kTfLiteOk || extent != -1) abort();
}

// Aborts if a function on arrays and tensors that are the delegate's own does not work.
static void CheckOwn(const TfLiteIntArray* plan) {
  TfLiteIntArray* copy = TfLiteIntArrayCopy(plan);
  if (!TfLiteIntArrayEqual(plan, copy)) abort();
  TfLiteIntArrayFree(copy);
  if (strcmp(TfLiteTypeGetName(kFloat32), "FLOAT32") != 0) abort();
  TfLiteTensor tensor = {.allocation_type = kDynamic};
  if (TfLiteTensorRealloc(16, &tensor) != kTfLiteOk || tensor.data.raw == NULL) abort();
  TfLiteTensorDataFree(&tensor);
  TfLiteQuantizationFree(&tensor.quantization);
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteDelegate* delegate, void* data) {
  TfLiteIntArray* plan;
  if (data != &g_data || TfLiteOpaqueDelegateGetData(delegate) != &g_data) abort();
  if (TfLiteOpaqueContextGetExecutionPlan(context, &plan) != kTfLiteOk) return kTfLiteError;
  CheckOwn(plan);
  TfLiteIntArray* taken = TfLiteIntArrayCreate(plan->size);
  taken->size = 0;
  for (int i = 0; i < plan->size; ++i) {
    void* node;
    TfLiteOperator* op;
    if (TfLiteOpaqueContextGetNodeAndRegistration(context, plan->data[i], &node, &op)) return kTfLiteError;
    int code = TfLiteOperatorGetBuiltInCode(op);
    if ((code != kAdd && code != kMul) || TfLiteOpaqueNodeNumberOfInputs(node) != 2) continue;
    const void* a = TfLiteOpaqueNodeGetInput(context, node, 0);
    const void* b = TfLiteOpaqueNodeGetInput(context, node, 1);
    if (i == 0 && TfLiteOpaqueTensorGetAllocationType(b) == kMmapRo) CheckTensors(context, b);
    const TfLiteActivationParams* params = TfLiteOpaqueNodeGetBuiltinData(node);
    bool is_float = TfLiteOpaqueTensorType(a) == kFloat32 && TfLiteOpaqueTensorType(b) == kFloat32;
    if (is_float && params->activation == 0 && SameShape(a, b)) taken->data[taken->size++] = plan->data[i];
  }
  TfLiteOperator* kernel = TfLiteOperatorCreate(kDelegate, "Opaque", 1, &g_data);
  TfLiteOperatorSetInitWithData(kernel, Init);
  TfLiteOperatorSetFreeWithData(kernel, Free);
  TfLiteOperatorSetPrepareWithData(kernel, PrepareKernel);
  TfLiteOperatorSetInvokeWithData(kernel, Invoke);
  TfLiteStatus status = TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(context, kernel, taken, delegate);
  TfLiteIntArrayFree(taken);
  if (TfLiteOpaqueContextGetNumTensors(context) == 0) {
    TfLiteOpaqueContextReportError(context, "%zu tensors", (size_t)0);
    return kTfLiteError;
  }
  return status;
}

static TfLiteDelegate* Create(void) {
  TfLiteOpaqueDelegateBuilder builder = {.data = &g_data, .Prepare = Prepare};
  return TfLiteOpaqueDelegateCreate(&builder);
}

#ifdef STABLE
typedef struct {
  TfLiteDelegate* (*create)(const void* settings);
  void (*destroy)(TfLiteDelegate*);
  int (*get_delegate_errno)(TfLiteDelegate*);
} Plugin;

// The settings are a flatbuffer: an offset to a table, which begins with the distance to a list of fields.
static TfLiteDelegate* CreateStable(const void* settings) {
  uint32_t root;
  int32_t distance;
  memcpy(&root, settings, sizeof(root));
  memcpy(&distance, (const char*)settings + root, sizeof(distance));
  uint16_t size;
  memcpy(&size, (const char*)settings + root - distance, sizeof(size));
  return size >= 4 ? Create() : NULL;
}

static int Errno(TfLiteDelegate* delegate) {
  (void)delegate;
  return 0;
}

static const Plugin plugin = {CreateStable, TfLiteOpaqueDelegateDelete, Errno};

const struct {
  const char* delegate_abi_version;
  const char* delegate_name;
  const char* delegate_version;
  const Plugin* delegate_plugin;
} TFL_TheStableDelegate = {"1.0.0", "stable_arithmetic", "1.2.3", &plugin};
#else
TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  (void)keys;
  (void)values;
  (void)count;
  (void)report;
  return Create();
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { TfLiteOpaqueDelegateDelete(delegate); }
#endif
