#![allow(unsafe_code)]
//! The options of builtin operators, translated between the file (tables of the schema) and C (the structs that
//! `TfLiteNode::builtin_data` points to). One table states both directions.
//!
//! Operators that are neither in the table nor in `WITHOUT` have a struct that nobody documents.

mod data;
mod lists;
mod pointers;
mod values;
mod without;

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of, size_of};

use attache::model::schema::{self, BuiltinOperator, BuiltinOptions2T, BuiltinOptionsT};

pub use self::data::BuiltinData;
use self::values::Value;
use self::without::WITHOUT;
use crate::params::*;

/// The options of an operator, which are in one of the two places that the file has for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The options of most operators.
    pub first: BuiltinOptionsT,
    /// The options of operators that are newer.
    pub second: BuiltinOptions2T,
}

/// A parameter struct of C and the table of the file that it corresponds to.
trait Params: Copy {
    /// The table of the file.
    type Table: Default;
    /// The bytes that every version of TensorFlow Lite from 2.12 on has of the struct.
    const OLDEST: usize = size_of::<Self>();

    /// Returns the table; `None` if the file cannot say the same. `rank` is that of the operator's first input, for which
    /// some structs have lists without a length.
    ///
    /// # Safety
    ///
    /// Pointers in the struct are null, or lead to what the struct states.
    unsafe fn to_file(&self, rank: usize) -> Option<Self::Table>;
    /// Returns the struct; `None` if it cannot hold the table.
    fn data_of(table: &Self::Table) -> Option<BuiltinData>;
}

/// Declares, for each parameter struct: the table and the operators that have it, and the fields of both, or none if they
/// are not of the same number. Fields after `then` are later than TensorFlow Lite 2.12. They are written for other code,
/// but not read, because the struct may end before them; no operator that Attaché implements depends on them. `first` and
/// `second` are the fields of [`Options`].
macro_rules! table {
    ($($field:ident($union:ident) {$(
        $params:ident = $variant:ident($table:ident) for $($operator:ident),+
        $({ $($c:ident = $file:ident),* $(; then $late:ident = $late_file:ident)? })?
    )*})*) => {
        $($($(
            impl Params for $params {
                type Table = schema::$table;
                $(const OLDEST: usize = offset_of!($params, $late);)?

                #[allow(clippy::needless_update)]
                unsafe fn to_file(&self, _: usize) -> Option<Self::Table> {
                    Some(Self::Table { $($file: self.$c.to_file()?,)* ..Default::default() })
                }

                #[allow(clippy::needless_update)]
                fn data_of(table: &Self::Table) -> Option<BuiltinData> {
                    BuiltinData::new(&Self {
                        $($c: Value::from_file(table.$file),)*
                        $($late: Value::from_file(table.$late_file),)?
                        ..Default::default()
                    })
                }
            }
        )?)*)*

        /// Returns the options that the file would have for the `builtin_data` of a node; `None` if the operator's struct
        /// is not documented, or if it holds what the file cannot say. `rank` is that of the node's first input.
        ///
        /// # Safety
        ///
        /// `params` is null, or points to the parameter struct that TensorFlow Lite 2.12 or later has for the operator.
        #[must_use]
        pub unsafe fn options_of(operator: BuiltinOperator, params: *const c_void, rank: usize) -> Option<Options> {
            match operator {
                $($($(BuiltinOperator::$operator)|+ => {
                    // SAFETY: the caller states that the pointer is null or leads to this operator's struct.
                    let table = unsafe { read::<$params>(params)?.to_file(rank)? };
                    Some(Options { $field: $union::$variant(Box::new(table)), ..Options::default() })
                })*)*
                _ => WITHOUT.contains(&operator).then(Options::default),
            }
        }

        /// Returns the `builtin_data` of a node for the options of the file; a null pointer for an operator without
        /// parameters. Options that the file leaves out are the schema's defaults. `None` if the operator's struct is not
        /// documented, or cannot hold the options.
        #[must_use]
        pub fn params_of(operator: BuiltinOperator, options: &Options) -> Option<BuiltinData> {
            match operator {
                $($($(BuiltinOperator::$operator)|+ => match &options.$field {
                    $union::$variant(table) => <$params>::data_of(table),
                    _ => <$params>::data_of(&Default::default()),
                })*)*
                _ => WITHOUT.contains(&operator).then(BuiltinData::none),
            }
        }
    };
}

table! {
    first(BuiltinOptionsT) {
        TfLiteAddParams = AddOptions(AddOptionsT) for ADD {
            activation = fused_activation_function, pot_scale_int16 = pot_scale_int16
        }
        TfLiteArgMaxParams = ArgMaxOptions(ArgMaxOptionsT) for ARG_MAX { output_type = output_type }
        TfLiteArgMinParams = ArgMinOptions(ArgMinOptionsT) for ARG_MIN { output_type = output_type }
        TfLiteBatchMatMulParams = BatchMatMulOptions(BatchMatMulOptionsT) for BATCH_MATMUL {
            adj_x = adj_x, adj_y = adj_y, asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteBidirectionalSequenceLSTMParams = BidirectionalSequenceLSTMOptions(BidirectionalSequenceLSTMOptionsT) for BIDIRECTIONAL_SEQUENCE_LSTM {
            activation = fused_activation_function, cell_clip = cell_clip, proj_clip = proj_clip,
            merge_outputs = merge_outputs, time_major = time_major,
            asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteBidirectionalSequenceRNNParams = BidirectionalSequenceRNNOptions(BidirectionalSequenceRNNOptionsT) for BIDIRECTIONAL_SEQUENCE_RNN {
            time_major = time_major, activation = fused_activation_function, merge_outputs = merge_outputs,
            asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteBucketizeParams = BucketizeOptions(BucketizeOptionsT) for BUCKETIZE
        TfLiteCallOnceParams = CallOnceOptions(CallOnceOptionsT) for CALL_ONCE { init_subgraph_index = init_subgraph_index }
        TfLiteCastParams = CastOptions(CastOptionsT) for CAST {
            in_data_type = in_data_type, out_data_type = out_data_type
        }
        TfLiteConcatenationParams = ConcatenationOptions(ConcatenationOptionsT) for CONCATENATION {
            axis = axis, activation = fused_activation_function
        }
        TfLiteConv3DParams = Conv3DOptions(Conv3DOptionsT) for CONV_3D, CONV_3D_TRANSPOSE {
            padding = padding, stride_width = stride_w, stride_height = stride_h, stride_depth = stride_d,
            dilation_width_factor = dilation_w_factor, dilation_height_factor = dilation_h_factor,
            dilation_depth_factor = dilation_d_factor, activation = fused_activation_function
        }
        TfLiteConvParams = Conv2DOptions(Conv2DOptionsT) for CONV_2D {
            padding = padding, stride_width = stride_w, stride_height = stride_h, activation = fused_activation_function,
            dilation_width_factor = dilation_w_factor, dilation_height_factor = dilation_h_factor;
            then quantized_bias_type = quantized_bias_type
        }
        TfLiteCumsumParams = CumsumOptions(CumsumOptionsT) for CUMSUM { exclusive = exclusive, reverse = reverse }
        TfLiteDepthToSpaceParams = DepthToSpaceOptions(DepthToSpaceOptionsT) for DEPTH_TO_SPACE { block_size = block_size }
        TfLiteDepthwiseConvParams = DepthwiseConv2DOptions(DepthwiseConv2DOptionsT) for DEPTHWISE_CONV_2D {
            padding = padding, stride_width = stride_w, stride_height = stride_h, depth_multiplier = depth_multiplier,
            activation = fused_activation_function, dilation_width_factor = dilation_w_factor,
            dilation_height_factor = dilation_h_factor
        }
        TfLiteDivParams = DivOptions(DivOptionsT) for DIV { activation = fused_activation_function }
        TfLiteEmbeddingLookupSparseParams = EmbeddingLookupSparseOptions(EmbeddingLookupSparseOptionsT) for EMBEDDING_LOOKUP_SPARSE {
            combiner = combiner
        }
        TfLiteFakeQuantParams = FakeQuantOptions(FakeQuantOptionsT) for FAKE_QUANT {
            min = min, max = max, num_bits = num_bits, narrow_range = narrow_range
        }
        TfLiteFullyConnectedParams = FullyConnectedOptions(FullyConnectedOptionsT) for FULLY_CONNECTED {
            activation = fused_activation_function, weights_format = weights_format, keep_num_dims = keep_num_dims,
            asymmetric_quantize_inputs = asymmetric_quantize_inputs;
            then quantized_bias_type = quantized_bias_type
        }
        TfLiteGatherParams = GatherOptions(GatherOptionsT) for GATHER { axis = axis, batch_dims = batch_dims }
        TfLiteGeluParams = GeluOptions(GeluOptionsT) for GELU { approximate = approximate }
        TfLiteHashtableParams = HashtableOptions(HashtableOptionsT) for HASHTABLE {
            table_id = table_id, key_dtype = key_dtype, value_dtype = value_dtype
        }
        TfLiteIfParams = IfOptions(IfOptionsT) for IF {
            then_subgraph_index = then_subgraph_index, else_subgraph_index = else_subgraph_index
        }
        TfLiteL2NormParams = L2NormOptions(L2NormOptionsT) for L2_NORMALIZATION { activation = fused_activation_function }
        TfLiteLocalResponseNormParams = LocalResponseNormalizationOptions(LocalResponseNormalizationOptionsT) for LOCAL_RESPONSE_NORMALIZATION {
            radius = radius, bias = bias, alpha = alpha, beta = beta
        }
        TfLiteLSHProjectionParams = LSHProjectionOptions(LSHProjectionOptionsT) for LSH_PROJECTION { kind = type_ }
        TfLiteLSTMParams = LSTMOptions(LSTMOptionsT) for LSTM {
            activation = fused_activation_function, cell_clip = cell_clip, proj_clip = proj_clip, kernel_type = kernel_type,
            asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteLeakyReluParams = LeakyReluOptions(LeakyReluOptionsT) for LEAKY_RELU { alpha = alpha }
        TfLiteMirrorPaddingParams = MirrorPadOptions(MirrorPadOptionsT) for MIRROR_PAD { mode = mode }
        TfLiteMulParams = MulOptions(MulOptionsT) for MUL { activation = fused_activation_function }
        TfLiteOneHotParams = OneHotOptions(OneHotOptionsT) for ONE_HOT { axis = axis }
        TfLitePackParams = PackOptions(PackOptionsT) for PACK { values_count = values_count, axis = axis }
        TfLitePoolParams = Pool2DOptions(Pool2DOptionsT) for AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D {
            padding = padding, stride_width = stride_w, stride_height = stride_h, filter_width = filter_width,
            filter_height = filter_height, activation = fused_activation_function
        }
        TfLiteRandomParams = RandomOptions(RandomOptionsT) for RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL {
            seed = seed, seed2 = seed2
        }
        TfLiteReducerParams = ReducerOptions(ReducerOptionsT)
            for MEAN, SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL { keep_dims = keep_dims }
        TfLiteReshapeParams = ReshapeOptions(ReshapeOptionsT) for RESHAPE
        TfLiteResizeBilinearParams = ResizeBilinearOptions(ResizeBilinearOptionsT) for RESIZE_BILINEAR {
            align_corners = align_corners, half_pixel_centers = half_pixel_centers
        }
        TfLiteResizeNearestNeighborParams = ResizeNearestNeighborOptions(ResizeNearestNeighborOptionsT)
            for RESIZE_NEAREST_NEIGHBOR { align_corners = align_corners, half_pixel_centers = half_pixel_centers }
        TfLiteReverseSequenceParams = ReverseSequenceOptions(ReverseSequenceOptionsT) for REVERSE_SEQUENCE {
            seq_dim = seq_dim, batch_dim = batch_dim
        }
        TfLiteRNNParams = RNNOptions(RNNOptionsT) for RNN {
            activation = fused_activation_function, asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteSequenceRNNParams = SequenceRNNOptions(SequenceRNNOptionsT) for UNIDIRECTIONAL_SEQUENCE_RNN {
            time_major = time_major, activation = fused_activation_function,
            asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteSkipGramParams = SkipGramOptions(SkipGramOptionsT) for SKIP_GRAM {
            ngram_size = ngram_size, max_skip_size = max_skip_size, include_all_ngrams = include_all_ngrams
        }
        TfLiteSparseToDenseParams = SparseToDenseOptions(SparseToDenseOptionsT) for SPARSE_TO_DENSE {
            validate_indices = validate_indices
        }
        TfLiteSVDFParams = SVDFOptions(SVDFOptionsT) for SVDF {
            rank = rank, activation = fused_activation_function, asymmetric_quantize_inputs = asymmetric_quantize_inputs
        }
        TfLiteShapeParams = ShapeOptions(ShapeOptionsT) for SHAPE { out_type = out_type }
        TfLiteSoftmaxParams = SoftmaxOptions(SoftmaxOptionsT) for SOFTMAX { beta = beta }
        TfLiteSpaceToDepthParams = SpaceToDepthOptions(SpaceToDepthOptionsT) for SPACE_TO_DEPTH { block_size = block_size }
        TfLiteSplitParams = SplitOptions(SplitOptionsT) for SPLIT { num_splits = num_splits }
        TfLiteSplitVParams = SplitVOptions(SplitVOptionsT) for SPLIT_V { num_splits = num_splits }
        TfLiteSqueezeParams = SqueezeOptions(SqueezeOptionsT) for SQUEEZE
        TfLiteStridedSliceParams = StridedSliceOptions(StridedSliceOptionsT) for STRIDED_SLICE {
            begin_mask = begin_mask, end_mask = end_mask, ellipsis_mask = ellipsis_mask, new_axis_mask = new_axis_mask,
            shrink_axis_mask = shrink_axis_mask, offset = offset
        }
        TfLiteSubParams = SubOptions(SubOptionsT) for SUB {
            activation = fused_activation_function, pot_scale_int16 = pot_scale_int16
        }
        TfLiteTransposeConvParams = TransposeConvOptions(TransposeConvOptionsT) for TRANSPOSE_CONV {
            padding = padding, stride_width = stride_w, stride_height = stride_h, activation = fused_activation_function;
            then quantized_bias_type = quantized_bias_type
        }
        TfLiteUnidirectionalSequenceLSTMParams = UnidirectionalSequenceLSTMOptions(UnidirectionalSequenceLSTMOptionsT)
            for UNIDIRECTIONAL_SEQUENCE_LSTM {
                activation = fused_activation_function, cell_clip = cell_clip, proj_clip = proj_clip,
                time_major = time_major, asymmetric_quantize_inputs = asymmetric_quantize_inputs,
                diagonal_recurrent_tensors = diagonal_recurrent_tensors
            }
        TfLiteUniqueParams = UniqueOptions(UniqueOptionsT) for UNIQUE { index_out_type = idx_out_type }
        TfLiteUnpackParams = UnpackOptions(UnpackOptionsT) for UNPACK { num = num, axis = axis }
        TfLiteVarHandleParams = VarHandleOptions(VarHandleOptionsT) for VAR_HANDLE
        TfLiteWhileParams = WhileOptions(WhileOptionsT) for WHILE {
            cond_subgraph_index = cond_subgraph_index, body_subgraph_index = body_subgraph_index
        }
    }
    second(BuiltinOptions2T) {
        TfLiteReduceWindowParams = ReduceWindowOptions(ReduceWindowOptionsT) for REDUCE_WINDOW {
            reduce_function = reduce_function
        }
        TfLiteStablehloCaseParams = StablehloCaseOptions(StablehloCaseOptionsT) for STABLEHLO_CASE
        TfLiteStablehloCompositeParams = StableHLOCompositeOptions(StableHLOCompositeOptionsT) for STABLEHLO_COMPOSITE
        TfLiteStablehloGatherParams = StablehloGatherOptions(StablehloGatherOptionsT) for STABLEHLO_GATHER
        TfLiteStablehloPadParams = StablehloPadOptions(StablehloPadOptionsT) for STABLEHLO_PAD
        TfLiteStablehloReduceWindowParams = StablehloReduceWindowOptions(StablehloReduceWindowOptionsT) for STABLEHLO_REDUCE_WINDOW
        TfLiteStablehloRngBitGeneratorParams = StablehloRngBitGeneratorOptions(StablehloRngBitGeneratorOptionsT) for STABLEHLO_RNG_BIT_GENERATOR {
            algorithm = algorithm
        }
        TfLiteStablehloScatterParams = StablehloScatterOptions(StablehloScatterOptionsT) for STABLEHLO_SCATTER
    }
}

/// Reads a struct, without the fields that older versions lack; `None` for null.
///
/// # Safety
///
/// `params` is null, or points to at least `P::OLDEST` bytes of a struct of this type.
unsafe fn read<P: Params>(params: *const c_void) -> Option<P> {
    if params.is_null() {
        return None;
    }
    let mut read = MaybeUninit::<P>::zeroed();
    // SAFETY: the caller states that as many bytes can be read, and `P` has them. The structs hold integers, floats and
    // pointers, which may have any bits, and truth values, which C stores as 0 or 1; zeros are values of all of them.
    unsafe {
        std::ptr::copy_nonoverlapping(params.cast::<u8>(), read.as_mut_ptr().cast(), P::OLDEST);
        Some(read.assume_init())
    }
}

/// Operators whose subgraph is read: its inputs and outputs are those of its one operator, or none. The runtime shows no
/// delegate of C which tensors are the inputs and outputs of others.
pub const HAVE_BODIES: [BuiltinOperator; 2] = [BuiltinOperator::CALL_ONCE, BuiltinOperator::STABLEHLO_REDUCE_WINDOW];

#[cfg(test)]
mod tests {
    use attache::model::schema::{ActivationFunctionType, Padding, StableHLOCompositeOptionsT};

    use super::*;
    use crate::TfLiteType;

    /// The rank of the first input where it matters.
    const RANK: usize = 3;

    /// Translates a struct to options and back, and checks that both say the same.
    fn check<P: Params + PartialEq + std::fmt::Debug>(operator: BuiltinOperator, params: P) -> Options {
        // SAFETY: the pointer leads to the operator's struct.
        let options = unsafe { options_of(operator, (&raw const params).cast(), RANK) };
        let options = options.unwrap_or_else(|| panic!("{operator:?} has no options"));
        let data = params_of(operator, &options).unwrap_or_else(|| panic!("{operator:?} has no parameters"));
        // SAFETY: the pointer leads to the operator's struct.
        assert_eq!(unsafe { *data.as_ptr().cast::<P>() }, params, "{operator:?}");
        options
    }

    fn first(first: BuiltinOptionsT) -> Options {
        Options { first, ..Options::default() }
    }

    fn second(second: BuiltinOptions2T) -> Options {
        Options { second, ..Options::default() }
    }

    #[test]
    fn structs_are_translated_to_options_and_back() {
        let (padding, activation) = (TfLitePadding::VALID, TfLiteFusedActivation::RELU6);
        let convolution = TfLiteConvParams {
            padding,
            stride_width: 2,
            stride_height: 3,
            activation,
            dilation_width_factor: 4,
            dilation_height_factor: 5,
            quantized_bias_type: TfLiteType::FLOAT32,
        };
        let options = check(BuiltinOperator::CONV_2D, convolution);
        let BuiltinOptionsT::Conv2DOptions(options) = options.first else { panic!("options of CONV_2D") };
        assert_eq!((options.padding, options.stride_w, options.stride_h), (Padding::VALID, 2, 3));
        assert_eq!(options.fused_activation_function, ActivationFunctionType::RELU6);
        assert_eq!((options.dilation_w_factor, options.dilation_h_factor), (4, 5));
        check(BuiltinOperator::ADD, TfLiteAddParams { activation, pot_scale_int16: true });
        let cast = TfLiteCastParams { in_data_type: TfLiteType::INT8, out_data_type: TfLiteType::INT64 };
        check(BuiltinOperator::CAST, cast);
        let mode = TfLiteMirrorPaddingMode::SYMMETRIC;
        check(BuiltinOperator::MIRROR_PAD, TfLiteMirrorPaddingParams { mode });
        let shape = [1, -1, 3, 0, 0, 0, 0, 0];
        check(BuiltinOperator::RESHAPE, TfLiteReshapeParams { shape, num_dimensions: 3 });
        check(BuiltinOperator::SQUEEZE, TfLiteSqueezeParams { squeeze_dims: shape, num_squeeze_dims: 3 });
        let kernel_type = TfLiteLSTMKernelType::BASIC;
        let convolution =
            TfLiteConv3DParams { padding, stride_depth: 2, dilation_width_factor: 3, ..Default::default() };
        let options = check(BuiltinOperator::CONV_3D_TRANSPOSE, convolution);
        let BuiltinOptionsT::Conv3DOptions(options) = options.first else { panic!("options of CONV_3D_TRANSPOSE") };
        assert_eq!((options.padding, options.stride_d, options.dilation_w_factor), (Padding::VALID, 2, 3));
        let table =
            TfLiteHashtableParams { table_id: 7, key_dtype: TfLiteType::STRING, value_dtype: TfLiteType::INT64 };
        check(BuiltinOperator::HASHTABLE, table);
        let reduce_function = TfLiteReduceWindowFunction::MAX;
        check(BuiltinOperator::REDUCE_WINDOW, TfLiteReduceWindowParams { reduce_function });
        check(BuiltinOperator::LSTM, TfLiteLSTMParams { kernel_type, cell_clip: 0.5, ..Default::default() });
    }

    #[test]
    fn arrays_are_translated_to_lists_and_back() {
        let list = [2, 0, 1, 0, 0, 0, 0, 0];
        let gather = TfLiteStablehloGatherParams {
            offset_dims: [2, 0, 0, 0, 0, 0, 0, 0],
            num_offset_dims: 2,
            start_index_map: list,
            num_start_index_map: 3,
            index_vector_dim: 1,
            slice_sizes: [2, 0, 0, 0, 0, 0, 0, 0],
            num_slice_sizes: 1,
            indices_are_sorted: true,
            ..Default::default()
        };
        let BuiltinOptions2T::StablehloGatherOptions(options) = check(BuiltinOperator::STABLEHLO_GATHER, gather).second
        else {
            panic!("options of STABLEHLO_GATHER")
        };
        assert_eq!((options.offset_dims, options.collapsed_slice_dims), (Some(vec![2, 0]), Some(vec![])));
        let scatter = TfLiteStablehloScatterParams {
            inserted_window_dims: list,
            num_inserted_window_dims: 3,
            unique_indices: true,
            update_computation_subgraph_index: 4,
            ..Default::default()
        };
        check(BuiltinOperator::STABLEHLO_SCATTER, scatter);
        let branch_subgraph_indices = std::array::from_fn(|branch| if branch < 2 { 3 } else { 0 });
        let case = TfLiteStablehloCaseParams { branch_subgraph_indices, num_branches: 2 };
        check(BuiltinOperator::STABLEHLO_CASE, case);
        let algorithm = TfLiteRngAlgorithm::THREEFRY;
        check(BuiltinOperator::STABLEHLO_RNG_BIT_GENERATOR, TfLiteStablehloRngBitGeneratorParams { algorithm });
    }

    #[test]
    fn arrays_without_a_length_have_a_number_for_each_axis() {
        let pad = TfLiteStablehloPadParams { edge_padding_low: [1, -2, 3, 0, 0, 0, 0, 0], ..Default::default() };
        let BuiltinOptions2T::StablehloPadOptions(options) = check(BuiltinOperator::STABLEHLO_PAD, pad).second else {
            panic!("options of STABLEHLO_PAD")
        };
        assert_eq!((options.edge_padding_low, options.interior_padding), (Some(vec![1, -2, 3]), Some(vec![0; 3])));
        let table = schema::StablehloReduceWindowOptionsT {
            window_dimensions: Some(vec![2; RANK]),
            window_strides: Some(vec![3; RANK]),
            padding: Some(vec![0, 1, 0, 1, 0, 1]),
            body_subgraph_index: 2,
            ..Default::default()
        };
        let data = params_of(
            BuiltinOperator::STABLEHLO_REDUCE_WINDOW,
            &second(BuiltinOptions2T::StablehloReduceWindowOptions(Box::new(table.clone()))),
        );
        // SAFETY: the pointer leads to the operator's struct.
        let options =
            unsafe { options_of(BuiltinOperator::STABLEHLO_REDUCE_WINDOW, data.unwrap().as_ptr(), RANK) }.unwrap();
        let ones = Some(vec![1; RANK]);
        let table =
            schema::StablehloReduceWindowOptionsT { base_dilations: ones.clone(), window_dilations: ones, ..table };
        assert_eq!(options, second(BuiltinOptions2T::StablehloReduceWindowOptions(Box::new(table))));
    }

    #[test]
    fn what_a_struct_points_to_is_translated_and_back() {
        let texts = schema::VarHandleOptionsT { container: Some("c".into()), shared_name: Some("state".into()) };
        let floats = schema::BucketizeOptionsT { boundaries: Some(vec![-1.5, 0.0, 2.0]) };
        let cases = [
            (BuiltinOperator::VAR_HANDLE, BuiltinOptionsT::VarHandleOptions(Box::new(texts))),
            (BuiltinOperator::BUCKETIZE, BuiltinOptionsT::BucketizeOptions(Box::new(floats))),
        ];
        for (operator, options) in cases {
            let options = first(options);
            let data = params_of(operator, &options).unwrap();
            // SAFETY: the pointer leads to the operator's struct.
            assert_eq!(unsafe { options_of(operator, data.as_ptr(), RANK) }, Some(options));
        }
        let without = TfLiteBucketizeParams { num_boundaries: 1, boundaries: std::ptr::null() };
        // SAFETY: the pointer leads to the operator's struct, whose list is null.
        assert!(unsafe { options_of(BuiltinOperator::BUCKETIZE, (&raw const without).cast(), RANK) }.is_none());
    }

    #[test]
    fn seeds_are_the_lower_32_bits() {
        let options = schema::RandomOptionsT { seed: (1 << 32) + 7, seed2: -2 };
        let options = first(BuiltinOptionsT::RandomOptions(Box::new(options)));
        let data = params_of(BuiltinOperator::RANDOM_UNIFORM, &options).unwrap();
        // SAFETY: the pointer leads to the operator's struct.
        let params = unsafe { *data.as_ptr().cast::<TfLiteRandomParams>() };
        assert_eq!(params, TfLiteRandomParams { seed: 7, seed2: -2 });
    }

    #[test]
    fn every_operator_with_parameters_has_both_directions() {
        let mut with_parameters = 0;
        for code in 0..=BuiltinOperator::ENUM_MAX {
            let operator = BuiltinOperator(code);
            let Some(data) = params_of(operator, &Options::default()) else { continue };
            // SAFETY: the pointer is null or leads to the operator's struct.
            let options = unsafe { options_of(operator, data.as_ptr(), RANK) }.unwrap();
            assert_eq!(options == Options::default(), data.as_ptr().is_null(), "{operator:?}");
            with_parameters += usize::from(!data.as_ptr().is_null());
            let again = params_of(operator, &options).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { options_of(operator, again.as_ptr(), RANK) }.unwrap(), options, "{operator:?}");
        }
        assert_eq!(with_parameters, 77);
    }

    #[test]
    fn a_composite_has_its_name_and_attributes() {
        let options = StableHLOCompositeOptionsT {
            name: Some("odml.rms_norm".into()),
            decomposition_subgraph_index: 3,
            composite_attributes: Some(vec![1, 2, 3]),
            version: 2,
            ..Default::default()
        };
        let options = second(BuiltinOptions2T::StableHLOCompositeOptions(Box::new(options)));
        let data = params_of(BuiltinOperator::STABLEHLO_COMPOSITE, &options).unwrap();
        // SAFETY: the pointer leads to the operator's struct, whose name and attributes it contains.
        unsafe {
            let params = *data.as_ptr().cast::<TfLiteStablehloCompositeParams>();
            assert_eq!(std::ffi::CStr::from_ptr(params.name), c"odml.rms_norm");
            assert_eq!((params.subgraph_index, params.version), (3, 2));
            assert_eq!(std::slice::from_raw_parts(params.attributes, params.attributes_size), [1, 2, 3]);
            assert_eq!(options_of(BuiltinOperator::STABLEHLO_COMPOSITE, data.as_ptr(), RANK), Some(options));
        }
    }

    #[test]
    fn options_that_are_left_out_are_the_defaults_of_the_schema() {
        let data = params_of(BuiltinOperator::SOFTMAX, &Options::default()).unwrap();
        // SAFETY: the pointer leads to the operator's struct.
        assert_eq!(unsafe { (*data.as_ptr().cast::<TfLiteSoftmaxParams>()).beta }, 0.0);
        assert!(params_of(BuiltinOperator::EXP, &Options::default()).unwrap().as_ptr().is_null());
    }

    #[test]
    fn what_the_other_side_cannot_say_is_refused() {
        let activation = TfLiteMulParams { activation: TfLiteFusedActivation::SIGMOID };
        let padding = TfLitePoolParams { padding: TfLitePadding::UNKNOWN, ..Default::default() };
        let shape = TfLiteReshapeParams { num_dimensions: 9, ..Default::default() };
        // SAFETY: the pointers are null or lead to the operators' structs.
        unsafe {
            assert!(options_of(BuiltinOperator::MUL, (&raw const activation).cast(), RANK).is_none());
            assert!(options_of(BuiltinOperator::MAX_POOL_2D, (&raw const padding).cast(), RANK).is_none());
            assert!(options_of(BuiltinOperator::RESHAPE, (&raw const shape).cast(), RANK).is_none());
            assert!(options_of(BuiltinOperator::ADD, std::ptr::null(), RANK).is_none());
            assert!(options_of(BuiltinOperator::CONCAT_EMBEDDINGS, std::ptr::null(), RANK).is_none());
            assert!(options_of(BuiltinOperator::EXP, std::ptr::null(), RANK).is_some());
            let pad = TfLiteStablehloPadParams::default();
            assert!(options_of(BuiltinOperator::STABLEHLO_PAD, (&raw const pad).cast(), 9).is_none());
        }
        let long = schema::ReshapeOptionsT { new_shape: Some(vec![1; 9]) };
        assert!(params_of(BuiltinOperator::RESHAPE, &first(BuiltinOptionsT::ReshapeOptions(Box::new(long)))).is_none());
        assert!(params_of(BuiltinOperator::CONCAT_EMBEDDINGS, &Options::default()).is_none());
    }
}
