//! The parameter structs of operators, which `TfLiteNode::builtin_data` points to. Fields are those of the options in the
//! file. Operators that are not here have none, or ones that nobody documents.

use std::ffi::{c_char, c_int};

use crate::TfLiteType;
pub use crate::enums::{
    TfLiteCombinerType, TfLiteFullyConnectedWeightsFormat, TfLiteFusedActivation, TfLiteLSHProjectionType,
    TfLiteLSTMKernelType, TfLiteMirrorPaddingMode, TfLitePadding, TfLiteReduceWindowFunction, TfLiteRngAlgorithm,
};

/// Options of `ADD`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteAddParams {
    pub activation: TfLiteFusedActivation,
    pub pot_scale_int16: bool,
}

/// Options of `ARG_MAX`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteArgMaxParams {
    pub output_type: TfLiteType,
}

/// Options of `ARG_MIN`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteArgMinParams {
    pub output_type: TfLiteType,
}

/// Options of `BATCH_MATMUL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteBatchMatMulParams {
    pub adj_x: bool,
    pub adj_y: bool,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `BIDIRECTIONAL_SEQUENCE_LSTM`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteBidirectionalSequenceLSTMParams {
    pub activation: TfLiteFusedActivation,
    pub cell_clip: f32,
    pub proj_clip: f32,
    pub merge_outputs: bool,
    pub time_major: bool,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `BIDIRECTIONAL_SEQUENCE_RNN`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteBidirectionalSequenceRNNParams {
    pub time_major: bool,
    pub activation: TfLiteFusedActivation,
    pub merge_outputs: bool,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `BUCKETIZE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteBucketizeParams {
    pub num_boundaries: c_int,
    pub boundaries: *const f32,
}

/// Options of `CALL_ONCE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteCallOnceParams {
    pub init_subgraph_index: c_int,
}

/// Options of `CAST`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteCastParams {
    pub in_data_type: TfLiteType,
    pub out_data_type: TfLiteType,
}

/// Options of `CONCATENATION`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteConcatenationParams {
    pub axis: c_int,
    pub activation: TfLiteFusedActivation,
}

/// Options of `CONV_3D` and `CONV_3D_TRANSPOSE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteConv3DParams {
    pub padding: TfLitePadding,
    pub stride_width: c_int,
    pub stride_height: c_int,
    pub stride_depth: c_int,
    pub dilation_width_factor: c_int,
    pub dilation_height_factor: c_int,
    pub dilation_depth_factor: c_int,
    pub activation: TfLiteFusedActivation,
}

/// Options of `CONV_2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteConvParams {
    pub padding: TfLitePadding,
    pub stride_width: c_int,
    pub stride_height: c_int,
    pub activation: TfLiteFusedActivation,
    pub dilation_width_factor: c_int,
    pub dilation_height_factor: c_int,
    pub quantized_bias_type: TfLiteType,
}

/// Options of `CUMSUM`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteCumsumParams {
    pub exclusive: bool,
    pub reverse: bool,
}

/// Options of `DEPTH_TO_SPACE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteDepthToSpaceParams {
    pub block_size: c_int,
}

/// Options of `DEPTHWISE_CONV_2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteDepthwiseConvParams {
    pub padding: TfLitePadding,
    pub stride_width: c_int,
    pub stride_height: c_int,
    pub depth_multiplier: c_int,
    pub activation: TfLiteFusedActivation,
    pub dilation_width_factor: c_int,
    pub dilation_height_factor: c_int,
}

/// Options of `DIV`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteDivParams {
    pub activation: TfLiteFusedActivation,
}

/// Options of `EMBEDDING_LOOKUP_SPARSE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteEmbeddingLookupSparseParams {
    pub combiner: TfLiteCombinerType,
}

/// Options of `FAKE_QUANT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteFakeQuantParams {
    pub min: f32,
    pub max: f32,
    pub num_bits: c_int,
    pub narrow_range: bool,
}

/// Options of `FULLY_CONNECTED`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteFullyConnectedParams {
    pub activation: TfLiteFusedActivation,
    pub weights_format: TfLiteFullyConnectedWeightsFormat,
    pub keep_num_dims: bool,
    pub asymmetric_quantize_inputs: bool,
    pub quantized_bias_type: TfLiteType,
}

/// Options of `GATHER`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteGatherParams {
    pub axis: c_int,
    pub batch_dims: c_int,
}

/// Options of `GELU`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteGeluParams {
    pub approximate: bool,
}

/// Options of `HASHTABLE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteHashtableParams {
    pub table_id: c_int,
    pub key_dtype: TfLiteType,
    pub value_dtype: TfLiteType,
}

/// Options of `IF`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteIfParams {
    pub then_subgraph_index: c_int,
    pub else_subgraph_index: c_int,
}

/// Options of `L2_NORMALIZATION`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteL2NormParams {
    pub activation: TfLiteFusedActivation,
}

/// Options of `LOCAL_RESPONSE_NORMALIZATION`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteLocalResponseNormParams {
    pub radius: c_int,
    pub bias: f32,
    pub alpha: f32,
    pub beta: f32,
}

/// Options of `LSH_PROJECTION`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteLSHProjectionParams {
    pub kind: TfLiteLSHProjectionType,
}

/// Options of `LSTM`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteLSTMParams {
    pub activation: TfLiteFusedActivation,
    pub cell_clip: f32,
    pub proj_clip: f32,
    pub kernel_type: TfLiteLSTMKernelType,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `LEAKY_RELU`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteLeakyReluParams {
    pub alpha: f32,
}

/// Options of `MIRROR_PAD`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteMirrorPaddingParams {
    pub mode: TfLiteMirrorPaddingMode,
}

/// Options of `MUL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteMulParams {
    pub activation: TfLiteFusedActivation,
}

/// Options of `ONE_HOT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteOneHotParams {
    pub axis: c_int,
}

/// Options of `PACK`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLitePackParams {
    pub values_count: c_int,
    pub axis: c_int,
}

/// Elements of padding before an image, and how many more there are after it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLitePaddingValues {
    pub width: c_int,
    pub height: c_int,
    pub width_offset: c_int,
    pub height_offset: c_int,
}

/// Options of `AVERAGE_POOL_2D`, `MAX_POOL_2D` and `L2_POOL_2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLitePoolParams {
    pub padding: TfLitePadding,
    pub stride_width: c_int,
    pub stride_height: c_int,
    pub filter_width: c_int,
    pub filter_height: c_int,
    pub activation: TfLiteFusedActivation,
    /// Zero until the kernel of a CPU fills it.
    pub computed: TfLitePaddingValues,
}

/// Options of `RANDOM_UNIFORM`, `RANDOM_STANDARD_NORMAL` and `MULTINOMIAL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteRandomParams {
    pub seed: c_int,
    pub seed2: c_int,
}

/// Options of `MEAN`, `SUM` and the other reductions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteReducerParams {
    pub keep_dims: bool,
}

/// Options of `REDUCE_WINDOW`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteReduceWindowParams {
    pub reduce_function: TfLiteReduceWindowFunction,
}

/// Options of `RESHAPE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteReshapeParams {
    pub shape: [i32; 8],
    pub num_dimensions: c_int,
}

/// Options of `RESIZE_BILINEAR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteResizeBilinearParams {
    pub align_corners: bool,
    pub half_pixel_centers: bool,
}

/// Options of `RESIZE_NEAREST_NEIGHBOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteResizeNearestNeighborParams {
    pub align_corners: bool,
    pub half_pixel_centers: bool,
}

/// Options of `REVERSE_SEQUENCE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteReverseSequenceParams {
    pub seq_dim: c_int,
    pub batch_dim: c_int,
}

/// Options of `RNN`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteRNNParams {
    pub activation: TfLiteFusedActivation,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `UNIDIRECTIONAL_SEQUENCE_RNN`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSequenceRNNParams {
    pub time_major: bool,
    pub activation: TfLiteFusedActivation,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `SKIP_GRAM`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSkipGramParams {
    pub ngram_size: c_int,
    pub max_skip_size: c_int,
    pub include_all_ngrams: bool,
}

/// Options of `SPARSE_TO_DENSE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSparseToDenseParams {
    pub validate_indices: bool,
}

/// Options of `STABLEHLO_CASE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloCaseParams {
    pub branch_subgraph_indices: [i32; 20],
    pub num_branches: u32,
}

/// Options of `STABLEHLO_GATHER`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloGatherParams {
    pub offset_dims: [i64; 8],
    pub num_offset_dims: c_int,
    pub collapsed_slice_dims: [i64; 8],
    pub num_collapsed_slice_dims: c_int,
    pub start_index_map: [i64; 8],
    pub num_start_index_map: c_int,
    pub index_vector_dim: i64,
    pub slice_sizes: [i64; 8],
    pub num_slice_sizes: c_int,
    pub indices_are_sorted: bool,
}

/// Options of `STABLEHLO_PAD`, which has a number for each axis of its input.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloPadParams {
    pub edge_padding_low: [i64; 8],
    pub edge_padding_high: [i64; 8],
    pub interior_padding: [i64; 8],
}

/// Options of `STABLEHLO_REDUCE_WINDOW`, which has numbers for each axis of its input.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloReduceWindowParams {
    pub window_dimensions: [i64; 8],
    pub window_strides: [i64; 8],
    pub base_dilations: [i64; 8],
    pub window_dilations: [i64; 8],
    pub padding: [i64; 16],
    pub body_subgraph_index: c_int,
}

/// Options of `STABLEHLO_RNG_BIT_GENERATOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloRngBitGeneratorParams {
    pub algorithm: TfLiteRngAlgorithm,
}

/// Options of `STABLEHLO_SCATTER`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloScatterParams {
    pub indices_are_sorted: bool,
    pub update_window_dims: [i64; 8],
    pub num_update_window_dims: c_int,
    pub inserted_window_dims: [i64; 8],
    pub num_inserted_window_dims: c_int,
    pub scatter_dims_to_operand_dims: [i64; 8],
    pub num_scatter_dims_to_operand_dims: c_int,
    pub index_vector_dim: i64,
    pub unique_indices: bool,
    pub update_computation_subgraph_index: c_int,
}

/// Options of `SVDF`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSVDFParams {
    pub rank: c_int,
    pub activation: TfLiteFusedActivation,
    pub asymmetric_quantize_inputs: bool,
}

/// Options of `SHAPE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteShapeParams {
    pub out_type: TfLiteType,
}

/// Options of `SOFTMAX`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSoftmaxParams {
    pub beta: f32,
}

/// Options of `SPACE_TO_DEPTH`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSpaceToDepthParams {
    pub block_size: c_int,
}

/// Options of `SPLIT`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSplitParams {
    pub num_splits: c_int,
}

/// Options of `SPLIT_V`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSplitVParams {
    pub num_splits: c_int,
}

/// Options of `SQUEEZE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSqueezeParams {
    pub squeeze_dims: [i32; 8],
    pub num_squeeze_dims: c_int,
}

/// Options of `STABLEHLO_COMPOSITE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStablehloCompositeParams {
    pub name: *const c_char,
    pub subgraph_index: i32,
    pub version: i32,
    pub attributes: *const u8,
    pub attributes_size: usize,
}

/// Options of `STRIDED_SLICE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteStridedSliceParams {
    pub begin_mask: c_int,
    pub end_mask: c_int,
    pub ellipsis_mask: c_int,
    pub new_axis_mask: c_int,
    pub shrink_axis_mask: c_int,
    pub offset: bool,
}

/// Options of `SUB`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteSubParams {
    pub activation: TfLiteFusedActivation,
    pub pot_scale_int16: bool,
}

/// Options of `TRANSPOSE_CONV`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteTransposeConvParams {
    pub padding: TfLitePadding,
    pub stride_width: c_int,
    pub stride_height: c_int,
    pub activation: TfLiteFusedActivation,
    pub quantized_bias_type: TfLiteType,
}

/// Options of `UNIDIRECTIONAL_SEQUENCE_LSTM`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteUnidirectionalSequenceLSTMParams {
    pub activation: TfLiteFusedActivation,
    pub cell_clip: f32,
    pub proj_clip: f32,
    pub time_major: bool,
    pub asymmetric_quantize_inputs: bool,
    pub diagonal_recurrent_tensors: bool,
}

/// Options of `UNIQUE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteUniqueParams {
    pub index_out_type: TfLiteType,
}

/// Options of `UNPACK`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteUnpackParams {
    pub num: c_int,
    pub axis: c_int,
}

/// Options of `VAR_HANDLE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteVarHandleParams {
    pub container: *const c_char,
    pub shared_name: *const c_char,
}

/// Options of `WHILE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteWhileParams {
    pub cond_subgraph_index: c_int,
    pub body_subgraph_index: c_int,
}
