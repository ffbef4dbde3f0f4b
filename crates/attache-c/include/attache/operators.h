// The operators of the library, in C++, with their highest versions: registrations that stand for them.

#ifndef ATTACHE_OPERATORS_H_
#define ATTACHE_OPERATORS_H_

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/schema/schema_generated.h"

// Calls X(name, highest version) for each builtin operator that the library has.
#define ATTACHE_BUILTIN_OPERATORS(X) \
  X(ABS, 5) \
  X(ADD, 6) \
  X(ADD_N, 1) \
  X(ARG_MAX, 3) \
  X(ARG_MIN, 3) \
  X(ASSIGN_VARIABLE, 1) \
  X(ATAN2, 1) \
  X(AVERAGE_POOL_2D, 3) \
  X(BATCH_MATMUL, 4) \
  X(BATCH_TO_SPACE_ND, 4) \
  X(BIDIRECTIONAL_SEQUENCE_LSTM, 3) \
  X(BIDIRECTIONAL_SEQUENCE_RNN, 3) \
  X(BITCAST, 1) \
  X(BITWISE_XOR, 1) \
  X(BROADCAST_ARGS, 1) \
  X(BROADCAST_TO, 4) \
  X(BUCKETIZE, 1) \
  X(CALL_ONCE, 1) \
  X(CAST, 9) \
  X(CEIL, 1) \
  X(COMPLEX_ABS, 1) \
  X(CONCATENATION, 7) \
  X(CONV_2D, 8) \
  X(CONV_3D, 1) \
  X(CONV_3D_TRANSPOSE, 1) \
  X(COS, 2) \
  X(CUMSUM, 1) \
  X(DENSIFY, 1) \
  X(DEPTHWISE_CONV_2D, 7) \
  X(DEPTH_TO_SPACE, 2) \
  X(DEQUANTIZE, 9) \
  X(DILATE, 1) \
  X(DIV, 2) \
  X(DYNAMIC_UPDATE_SLICE, 6) \
  X(ELU, 1) \
  X(EMBEDDING_LOOKUP, 5) \
  X(EMBEDDING_LOOKUP_SPARSE, 1) \
  X(EQUAL, 5) \
  X(EXP, 2) \
  X(EXPAND_DIMS, 1) \
  X(FAKE_QUANT, 2) \
  X(FILL, 5) \
  X(FLOOR, 1) \
  X(FLOOR_DIV, 3) \
  X(FLOOR_MOD, 2) \
  X(FULLY_CONNECTED, 14) \
  X(GATHER, 8) \
  X(GATHER_ND, 6) \
  X(GELU, 3) \
  X(GREATER, 2) \
  X(GREATER_EQUAL, 3) \
  X(HARD_SWISH, 1) \
  X(HASHTABLE, 1) \
  X(HASHTABLE_FIND, 1) \
  X(HASHTABLE_IMPORT, 1) \
  X(HASHTABLE_LOOKUP, 1) \
  X(HASHTABLE_SIZE, 1) \
  X(IF, 1) \
  X(IMAG, 1) \
  X(L2_NORMALIZATION, 2) \
  X(L2_POOL_2D, 1) \
  X(LEAKY_RELU, 2) \
  X(LESS, 3) \
  X(LESS_EQUAL, 2) \
  X(LOCAL_RESPONSE_NORMALIZATION, 1) \
  X(LOG, 2) \
  X(LOGICAL_AND, 1) \
  X(LOGICAL_NOT, 1) \
  X(LOGICAL_OR, 1) \
  X(LOGISTIC, 3) \
  X(LOG_SOFTMAX, 2) \
  X(LSH_PROJECTION, 1) \
  X(LSTM, 4) \
  X(MATRIX_DIAG, 1) \
  X(MATRIX_SET_DIAG, 1) \
  X(MAXIMUM, 4) \
  X(MAX_POOL_2D, 3) \
  X(MEAN, 3) \
  X(MINIMUM, 4) \
  X(MIRROR_PAD, 3) \
  X(MUL, 8) \
  X(MULTINOMIAL, 1) \
  X(NEG, 1) \
  X(NON_MAX_SUPPRESSION_V4, 1) \
  X(NON_MAX_SUPPRESSION_V5, 1) \
  X(NOT_EQUAL, 4) \
  X(ONE_HOT, 1) \
  X(PACK, 5) \
  X(PAD, 6) \
  X(PADV2, 6) \
  X(POW, 1) \
  X(PRELU, 1) \
  X(QUANTIZE, 6) \
  X(RANDOM_STANDARD_NORMAL, 1) \
  X(RANDOM_UNIFORM, 1) \
  X(RANGE, 2) \
  X(RANK, 1) \
  X(READ_VARIABLE, 1) \
  X(REAL, 1) \
  X(REDUCE_ALL, 1) \
  X(REDUCE_ANY, 1) \
  X(REDUCE_MAX, 3) \
  X(REDUCE_MIN, 3) \
  X(REDUCE_PROD, 2) \
  X(REDUCE_WINDOW, 1) \
  X(RELU, 3) \
  X(RELU6, 3) \
  X(RELU_0_TO_1, 1) \
  X(RELU_N1_TO_1, 1) \
  X(RESHAPE, 1) \
  X(RESIZE_BILINEAR, 4) \
  X(RESIZE_NEAREST_NEIGHBOR, 4) \
  X(REVERSE_SEQUENCE, 1) \
  X(REVERSE_V2, 4) \
  X(RFFT2D, 1) \
  X(RIGHT_SHIFT, 1) \
  X(RNN, 3) \
  X(ROUND, 1) \
  X(RSQRT, 3) \
  X(SCATTER_ND, 1) \
  X(SEGMENT_SUM, 1) \
  X(SELECT, 4) \
  X(SELECT_V2, 2) \
  X(SHAPE, 1) \
  X(SIGN, 2) \
  X(SIN, 2) \
  X(SKIP_GRAM, 1) \
  X(SLICE, 8) \
  X(SOFTMAX, 4) \
  X(SPACE_TO_BATCH_ND, 4) \
  X(SPACE_TO_DEPTH, 2) \
  X(SPARSE_TO_DENSE, 3) \
  X(SPLIT, 5) \
  X(SPLIT_V, 3) \
  X(SQRT, 2) \
  X(SQUARE, 1) \
  X(SQUARED_DIFFERENCE, 2) \
  X(SQUEEZE, 2) \
  X(STABLEHLO_ADD, 1) \
  X(STABLEHLO_AND, 1) \
  X(STABLEHLO_CASE, 1) \
  X(STABLEHLO_COMPOSITE, 1) \
  X(STABLEHLO_GATHER, 1) \
  X(STABLEHLO_MAXIMUM, 1) \
  X(STABLEHLO_MINIMUM, 1) \
  X(STABLEHLO_MULTIPLY, 1) \
  X(STABLEHLO_PAD, 1) \
  X(STABLEHLO_REDUCE_WINDOW, 1) \
  X(STABLEHLO_RNG_BIT_GENERATOR, 1) \
  X(STABLEHLO_SCATTER, 1) \
  X(STABLEHLO_SHIFT_LEFT, 1) \
  X(STRIDED_SLICE, 8) \
  X(SUB, 5) \
  X(SUM, 2) \
  X(SVDF, 4) \
  X(TANH, 3) \
  X(TILE, 3) \
  X(TOPK_V2, 3) \
  X(TRANSPOSE, 9) \
  X(TRANSPOSE_CONV, 5) \
  X(UNIDIRECTIONAL_SEQUENCE_LSTM, 4) \
  X(UNIDIRECTIONAL_SEQUENCE_RNN, 3) \
  X(UNIQUE, 1) \
  X(UNPACK, 6) \
  X(UNSORTED_SEGMENT_MAX, 1) \
  X(UNSORTED_SEGMENT_MIN, 1) \
  X(UNSORTED_SEGMENT_PROD, 1) \
  X(UNSORTED_SEGMENT_SUM, 1) \
  X(VAR_HANDLE, 1) \
  X(WHERE, 2) \
  X(WHILE, 1) \
  X(ZEROS_LIKE, 1)

// Calls X(function, name) for each custom operator that the library has, in its only version.
#define ATTACHE_CUSTOM_OPERATORS(X) \
  X(AUDIO_SPECTROGRAM, "AudioSpectrogram") \
  X(CONVOLUTION_2D_TRANSPOSE_BIAS, "Convolution2DTransposeBias") \
  X(MAX_POOLING_WITH_ARGMAX_2D, "MaxPoolingWithArgmax2D") \
  X(MAX_UNPOOLING_2D, "MaxUnpooling2D") \
  X(MFCC, "Mfcc") \
  X(NUMERIC_VERIFY, "NumericVerify") \
  X(DETECTION_POSTPROCESS, "TFLite_Detection_PostProcess") \
  X(HADAMARD_ROTATION, "aeq.hadamard_rotation")

namespace tflite {
namespace internal {

// The functions of operators that the library runs itself: nothing else can call them.
inline TfLiteStatus RunByLibrary(TfLiteContext* context, TfLiteNode*) {
  TF_LITE_MAYBE_KERNEL_LOG(context, "an operator of the library runs as a part of a model only");
  return kTfLiteError;
}

// A registration that stands for an operator of the library.
inline TfLiteRegistration OfLibrary(int code, const char* custom_name) {
  TfLiteRegistration registration{};
  registration.prepare = RunByLibrary;
  registration.invoke = RunByLibrary;
  registration.builtin_code = code;
  registration.custom_name = custom_name;
  registration.version = 1;
  return registration;
}
inline bool IsOfLibrary(const TfLiteRegistration& registration) { return registration.invoke == RunByLibrary; }

}  // namespace internal

namespace ops {
namespace builtin {

#define ATTACHE_REGISTER(name, version)                                                                     \
  inline TfLiteRegistration* Register_##name() {                                                            \
    static TfLiteRegistration registration = ::tflite::internal::OfLibrary(BuiltinOperator_##name, nullptr); \
    return &registration;                                                                                   \
  }
ATTACHE_BUILTIN_OPERATORS(ATTACHE_REGISTER)
#undef ATTACHE_REGISTER

}  // namespace builtin

namespace custom {

#define ATTACHE_REGISTER(function, name)                                                            \
  inline TfLiteRegistration* Register_##function() {                                                \
    static TfLiteRegistration registration = ::tflite::internal::OfLibrary(kTfLiteBuiltinCustom, name); \
    return &registration;                                                                           \
  }
ATTACHE_CUSTOM_OPERATORS(ATTACHE_REGISTER)
#undef ATTACHE_REGISTER

}  // namespace custom
}  // namespace ops
}  // namespace tflite

#endif
