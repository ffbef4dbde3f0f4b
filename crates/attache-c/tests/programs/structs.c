/* The functions on structs that operators and delegates use. */

#include "check.h"
#include "tensorflow/lite/c/builtin_op_data.h"

/* The layout that every library built for TensorFlow Lite has, where pointers have 64 bits. */
#define SAME(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)

SIZE(TfLiteTensor, 112);
SAME(TfLiteTensor, data, 8);
SAME(TfLiteTensor, dims, 16);
SAME(TfLiteTensor, params, 24);
SAME(TfLiteTensor, allocation_type, 32);
SAME(TfLiteTensor, bytes, 40);
SAME(TfLiteTensor, name, 56);
SAME(TfLiteTensor, delegate, 64);
SAME(TfLiteTensor, buffer_handle, 72);
SAME(TfLiteTensor, is_variable, 77);
SAME(TfLiteTensor, quantization, 80);
SAME(TfLiteTensor, dims_signature, 104);
SIZE(TfLiteNode, 80);
SAME(TfLiteNode, custom_initial_data_size, 56);
SAME(TfLiteNode, might_have_side_effect, 72);
SIZE(TfLiteContext, 200);
SAME(TfLiteContext, ReplaceNodeSubsetsWithDelegateKernels, 64);
SAME(TfLiteContext, profiler, 104);
SAME(TfLiteContext, PreviewDelegatePartitioning, 152);
SAME(TfLiteContext, ReleaseSubgraphContext, 192);
SIZE(TfLiteRegistration, 88);
SAME(TfLiteRegistration, version, 56);
SAME(TfLiteRegistration, inplace_operator, 80);
SIZE(TfLiteRegistration_V3, 80);
SIZE(TfLiteRegistration_V2, 72);
SIZE(TfLiteRegistration_V1, 64);
SIZE(TfLiteDelegate, 56);
SAME(TfLiteDelegate, flags, 40);
SIZE(TfLiteDelegateParams, 32);
SIZE(TfLiteOpaqueDelegateParams, 40);
SIZE(TfLiteOpaqueDelegateBuilder, 48);
SIZE(TfLiteConvParams, 28);
SIZE(TfLitePoolParams, 40);
SIZE(TfLiteFullyConnectedParams, 16);
SIZE(TfLiteReshapeParams, 36);
SIZE(TfLiteStablehloCompositeParams, 32);
SIZE(TfLiteStridedSliceParams, 24);
SIZE(TfLiteBidirectionalSequenceLSTMParams, 16);
SIZE(TfLiteBidirectionalSequenceRNNParams, 12);
SIZE(TfLiteBucketizeParams, 16);
SIZE(TfLiteConv3DParams, 32);
SIZE(TfLiteConv3DTransposeParams, 32);
SIZE(TfLiteFakeQuantParams, 16);
SIZE(TfLiteStablehloCaseParams, 84);
SIZE(TfLiteStablehloGatherParams, 296);
SAME(TfLiteStablehloGatherParams, index_vector_dim, 216);
SIZE(TfLiteStablehloPadParams, 192);
SIZE(TfLiteStablehloReduceWindowParams, 392);
SAME(TfLiteStablehloReduceWindowParams, body_subgraph_index, 384);
SIZE(TfLiteStablehloScatterParams, 240);
SAME(TfLiteStablehloScatterParams, update_computation_subgraph_index, 236);
SIZE(TfLiteVarHandleParams, 16);

static void arrays(void) {
  TfLiteIntArray* a = TfLiteIntArrayCreate(3);
  CHECK(a->size == 3 && TfLiteIntArrayGetSizeInBytes(3) == 16);
  const int values[3] = {4, 5, 6};
  memcpy(a->data, values, sizeof(values));
  TfLiteIntArray* b = TfLiteIntArrayCopy(a);
  CHECK(TfLiteIntArrayEqual(a, b) && TfLiteIntArrayEqualsArray(a, 3, values));
  b->data[1] = 0;
  CHECK(!TfLiteIntArrayEqual(a, b) && !TfLiteIntArrayEqual(a, NULL) && !TfLiteIntArrayEqualsArray(NULL, 3, values));
  CHECK(!TfLiteIntArrayEqualsArray(a, 2, values));
  TfLiteIntArrayFree(a);
  TfLiteIntArrayFree(b);
  TfLiteIntArrayFree(NULL);
  CHECK(TfLiteIntArrayCreate(-1) == NULL && TfLiteIntArrayCopy(NULL) == NULL);
  TfLiteFloatArray* f = TfLiteFloatArrayCreate(2);
  f->data[1] = 0.5f;
  TfLiteFloatArray* g = TfLiteFloatArrayCopy(f);
  CHECK(g->data[1] == 0.5f && TfLiteFloatArrayGetSizeInBytes(2) == 12);
  TfLiteFloatArrayFree(f);
  TfLiteFloatArrayFree(g);
}

static void tensors(void) {
  TfLiteTensor t, u;
  memset(&t, 0, sizeof(t));
  memset(&u, 0, sizeof(u));
  TfLiteQuantizationParams none = {0.0f, 0};
  TfLiteIntArray* dims = TfLiteIntArrayCreate(1);
  dims->data[0] = 2;
  TfLiteTensorReset(kTfLiteFloat32, "t", dims, none, NULL, 0, kTfLiteDynamic, NULL, false, &t);
  CHECK(TfLiteTensorRealloc(8, &t) == kTfLiteOk && t.bytes == 8);
  t.data.f[0] = 1.0f;
  t.data.f[1] = 2.0f;
  CHECK(TfLiteTensorResizeMaybeCopy(16, &t, true) == kTfLiteOk && t.data.f[1] == 2.0f);
  CHECK(TfLiteTensorResizeMaybeCopy(8, &t, true) == kTfLiteOk && t.data.f[1] == 2.0f);
  TfLiteTensorReset(kTfLiteInt32, "u", NULL, none, NULL, 0, kTfLiteDynamic, NULL, false, &u);
  CHECK(TfLiteTensorCopy(&t, &u) == kTfLiteError);
  CHECK(TfLiteTensorResizeMaybeCopy(8, &u, false) == kTfLiteOk);
  CHECK(TfLiteTensorCopy(&t, &u) == kTfLiteOk && u.data.f[1] == 2.0f && u.type == kTfLiteFloat32);
  CHECK(TfLiteTensorCopy(&t, NULL) == kTfLiteOk && TfLiteTensorCopy(&t, &t) == kTfLiteOk);
  TfLiteAffineQuantization* affine = malloc(sizeof(TfLiteAffineQuantization));
  affine->scale = TfLiteFloatArrayCreate(1);
  affine->zero_point = TfLiteIntArrayCreate(1);
  u.quantization.type = kTfLiteAffineQuantization;
  u.quantization.params = affine;
  TfLiteQuantizationFree(&u.quantization);
  CHECK(u.quantization.params == NULL);
  u.sparsity = calloc(1, sizeof(TfLiteSparsity));
  u.sparsity->traversal_order = TfLiteIntArrayCreate(2);
  u.sparsity->dim_metadata_size = 2;
  u.sparsity->dim_metadata = malloc(2 * sizeof(TfLiteDimensionMetadata));
  /* A dense dimension has no arrays: what its fields hold is nothing to be freed. */
  memset(u.sparsity->dim_metadata, 0x55, 2 * sizeof(TfLiteDimensionMetadata));
  u.sparsity->dim_metadata[0].format = kTfLiteDimDense;
  u.sparsity->dim_metadata[1].format = kTfLiteDimSparseCSR;
  u.sparsity->dim_metadata[1].array_segments = TfLiteIntArrayCreate(2);
  u.sparsity->dim_metadata[1].array_indices = TfLiteIntArrayCreate(3);
  TfLiteTensorDataFree(&u);
  CHECK(u.data.raw == NULL);
  TfLiteTensorFree(&u);
  TfLiteTensorFree(&t);
  TfLiteSparsityFree(NULL);
  u.allocation_type = kTfLitePersistentRo;
  CHECK(TfLiteTensorGetAllocationStrategy(&u) == kTfLiteAllocationStrategyMalloc);
  CHECK(TfLiteTensorRealloc(8, NULL) == kTfLiteError);
}

int main(void) {
  arrays();
  tensors();
  return 0;
}
