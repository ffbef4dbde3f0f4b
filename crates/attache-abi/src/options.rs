#![allow(unsafe_code)]
//! The options of builtin operators, translated between the file (tables of the schema) and C (the structs that
//! `TfLiteNode::builtin_data` points to). One table states both directions.
//!
//! Operators that are neither in the table nor in `WITHOUT` have a struct that nobody documents.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of};

use attache::model::schema::{
    self, ActivationFunctionType, BuiltinOperator, BuiltinOptionsT, FullyConnectedOptionsWeightsFormat, LSTMKernelType,
    MirrorPadMode, Padding, StableHLOCompositeOptionsT, TensorType,
};

use crate::TfLiteType;
use crate::params::*;
use crate::report::text_of_c;

/// A value that the file and C store in different types.
trait Value<File>: Sized {
    /// Returns the value of the file; `None` if the file has none for it.
    fn to_file(self) -> Option<File>;
    /// Returns the value of C.
    fn from_file(value: File) -> Self;
}

/// States that the file and C store values of this type alike.
macro_rules! same {
    ($($type:ty),*) => {$(
        impl Value<$type> for $type {
            fn to_file(self) -> Option<$type> {
                Some(self)
            }

            fn from_file(value: $type) -> Self {
                value
            }
        }
    )*};
}

same!(bool, i32, f32);

/// States for an enum of C how much greater its numbers are than those of the file, and the greatest of the file.
macro_rules! numbers {
    ($($c:ident, $file:ident: $more:literal, $last:literal;)*) => {$(
        impl Value<$file> for $c {
            fn to_file(self) -> Option<$file> {
                let number = self.0.checked_sub($more).filter(|number| (0..=$last).contains(number))?;
                Some($file(number as i8))
            }

            fn from_file(value: $file) -> Self {
                Self(c_int::from(value.0) + $more)
            }
        }
    )*};
}

numbers! {
    TfLiteFullyConnectedWeightsFormat, FullyConnectedOptionsWeightsFormat: 0, 1;
    TfLiteFusedActivation, ActivationFunctionType: 0, 5;
    TfLiteLSTMKernelType, LSTMKernelType: 0, 1;
    TfLiteMirrorPaddingMode, MirrorPadMode: 1, 1;
    TfLitePadding, Padding: 1, 1;
}

impl Value<TensorType> for TfLiteType {
    /// A type that is not stated is FLOAT32, the default of the schema.
    fn to_file(self) -> Option<TensorType> {
        match self.data_type() {
            Some(data_type) => Some(TensorType(data_type.code())),
            None => (self == Self::NO_TYPE).then_some(TensorType::FLOAT32),
        }
    }

    fn from_file(value: TensorType) -> Self {
        attache::DataType::from_code(value.0).map_or(Self::NO_TYPE, Self::from)
    }
}

/// A parameter struct of C and the table of the file that it corresponds to.
trait Params: Copy + Default {
    /// The table of the file.
    type Table: Default;
    /// The bytes that every version of TensorFlow Lite from 2.12 on has of the struct.
    const OLDEST: usize = size_of::<Self>();

    /// Returns the table; `None` if the file cannot say the same.
    fn to_file(self) -> Option<Self::Table>;
    /// Returns the struct; `None` if it cannot hold the table.
    fn from_file(table: &Self::Table) -> Option<Self>;
}

/// Declares, for each parameter struct: the table and the operators that have it, and the fields of both, or none if they
/// are not of the same number. Fields after `then` are later than TensorFlow Lite 2.12. They are written for other code,
/// but not read, because the struct may end before them; no operator that Attaché implements depends on them.
macro_rules! table {
    ($(
        $params:ident = $variant:ident($table:ident) for $($operator:ident),+
        $({ $($c:ident = $file:ident),* $(; then $late:ident = $late_file:ident)? })?
    )*) => {
        $($(
            impl Params for $params {
                type Table = schema::$table;
                $(const OLDEST: usize = offset_of!($params, $late);)?

                #[allow(clippy::needless_update)]
                fn to_file(self) -> Option<Self::Table> {
                    Some(Self::Table { $($file: self.$c.to_file()?,)* ..Default::default() })
                }

                #[allow(clippy::needless_update)]
                fn from_file(table: &Self::Table) -> Option<Self> {
                    Some(Self {
                        $($c: Value::from_file(table.$file),)*
                        $($late: Value::from_file(table.$late_file),)?
                        ..Default::default()
                    })
                }
            }
        )?)*

        /// Returns the options that the file would have for the `builtin_data` of a node; `None` if the operator's struct
        /// is not documented, or if it holds what the file cannot say.
        ///
        /// # Safety
        ///
        /// `params` is null, or points to the parameter struct that TensorFlow Lite 2.12 or later has for the operator.
        #[must_use]
        pub unsafe fn options_of(operator: BuiltinOperator, params: *const c_void) -> Option<BuiltinOptionsT> {
            match operator {
                $($(BuiltinOperator::$operator)|+ => {
                    // SAFETY: the caller states that the pointer is null or leads to this operator's struct.
                    let params = unsafe { read::<$params>(params) }?;
                    Some(BuiltinOptionsT::$variant(Box::new(params.to_file()?)))
                })*
                _ => WITHOUT.contains(&operator).then_some(BuiltinOptionsT::NONE),
            }
        }

        /// Returns the `builtin_data` of a node for the options of the file; a null pointer for an operator without
        /// parameters. Options that the file leaves out are the schema's defaults. `None` if the operator's struct is not
        /// documented, or cannot hold the options.
        #[must_use]
        pub fn params_of(operator: BuiltinOperator, options: &BuiltinOptionsT) -> Option<BuiltinData> {
            match operator {
                $($(BuiltinOperator::$operator)|+ => {
                    BuiltinData::new(&match options {
                        BuiltinOptionsT::$variant(table) => <$params>::from_file(table)?,
                        _ => <$params>::from_file(&Default::default())?,
                    })
                })*
                _ => WITHOUT.contains(&operator).then_some(BuiltinData(std::ptr::null_mut())),
            }
        }
    };
}

table! {
    TfLiteAddParams = AddOptions(AddOptionsT) for ADD {
        activation = fused_activation_function, pot_scale_int16 = pot_scale_int16
    }
    TfLiteArgMaxParams = ArgMaxOptions(ArgMaxOptionsT) for ARG_MAX { output_type = output_type }
    TfLiteArgMinParams = ArgMinOptions(ArgMinOptionsT) for ARG_MIN { output_type = output_type }
    TfLiteBatchMatMulParams = BatchMatMulOptions(BatchMatMulOptionsT) for BATCH_MATMUL {
        adj_x = adj_x, adj_y = adj_y, asymmetric_quantize_inputs = asymmetric_quantize_inputs
    }
    TfLiteCallOnceParams = CallOnceOptions(CallOnceOptionsT) for CALL_ONCE { init_subgraph_index = init_subgraph_index }
    TfLiteCastParams = CastOptions(CastOptionsT) for CAST {
        in_data_type = in_data_type, out_data_type = out_data_type
    }
    TfLiteConcatenationParams = ConcatenationOptions(ConcatenationOptionsT) for CONCATENATION {
        axis = axis, activation = fused_activation_function
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
    TfLiteFullyConnectedParams = FullyConnectedOptions(FullyConnectedOptionsT) for FULLY_CONNECTED {
        activation = fused_activation_function, weights_format = weights_format, keep_num_dims = keep_num_dims,
        asymmetric_quantize_inputs = asymmetric_quantize_inputs;
        then quantized_bias_type = quantized_bias_type
    }
    TfLiteGatherParams = GatherOptions(GatherOptionsT) for GATHER { axis = axis, batch_dims = batch_dims }
    TfLiteGeluParams = GeluOptions(GeluOptionsT) for GELU { approximate = approximate }
    TfLiteIfParams = IfOptions(IfOptionsT) for IF {
        then_subgraph_index = then_subgraph_index, else_subgraph_index = else_subgraph_index
    }
    TfLiteL2NormParams = L2NormOptions(L2NormOptionsT) for L2_NORMALIZATION { activation = fused_activation_function }
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
    TfLiteReducerParams = ReducerOptions(ReducerOptionsT)
        for MEAN, SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL { keep_dims = keep_dims }
    TfLiteReshapeParams = ReshapeOptions(ReshapeOptionsT) for RESHAPE
    TfLiteResizeBilinearParams = ResizeBilinearOptions(ResizeBilinearOptionsT) for RESIZE_BILINEAR {
        align_corners = align_corners, half_pixel_centers = half_pixel_centers
    }
    TfLiteResizeNearestNeighborParams = ResizeNearestNeighborOptions(ResizeNearestNeighborOptionsT)
        for RESIZE_NEAREST_NEIGHBOR { align_corners = align_corners, half_pixel_centers = half_pixel_centers }
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
    TfLiteUnpackParams = UnpackOptions(UnpackOptionsT) for UNPACK { num = num, axis = axis }
    TfLiteWhileParams = WhileOptions(WhileOptionsT) for WHILE {
        cond_subgraph_index = cond_subgraph_index, body_subgraph_index = body_subgraph_index
    }
}

impl Params for TfLiteReshapeParams {
    type Table = schema::ReshapeOptionsT;

    fn to_file(self) -> Option<Self::Table> {
        Some(schema::ReshapeOptionsT { new_shape: Some(list(&self.shape, self.num_dimensions)?) })
    }

    fn from_file(table: &Self::Table) -> Option<Self> {
        let (shape, num_dimensions) = array(table.new_shape.as_deref())?;
        Some(Self { shape, num_dimensions })
    }
}

impl Params for TfLiteSqueezeParams {
    type Table = schema::SqueezeOptionsT;

    fn to_file(self) -> Option<Self::Table> {
        Some(schema::SqueezeOptionsT { squeeze_dims: Some(list(&self.squeeze_dims, self.num_squeeze_dims)?) })
    }

    fn from_file(table: &Self::Table) -> Option<Self> {
        let (squeeze_dims, num_squeeze_dims) = array(table.squeeze_dims.as_deref())?;
        Some(Self { squeeze_dims, num_squeeze_dims })
    }
}

/// Returns the elements in use of an array of C; `None` if it has fewer.
fn list(array: &[i32; 8], count: c_int) -> Option<Vec<i32>> {
    Some(array.get(..usize::try_from(count).ok()?)?.to_vec())
}

/// Returns a list as an array of C and the number of its elements in use; `None` if it is too long.
fn array(list: Option<&[i32]>) -> Option<([i32; 8], c_int)> {
    let (list, mut array) = (list.unwrap_or_default(), [0; 8]);
    array.get_mut(..list.len())?.copy_from_slice(list);
    Some((array, list.len() as c_int))
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
    let mut read = P::default();
    // SAFETY: the caller states that as many bytes can be read, and `P` has them. The structs hold integers and floats,
    // which may have any bits, and truth values, which C stores as 0 or 1.
    unsafe { std::ptr::copy_nonoverlapping(params.cast::<u8>(), (&raw mut read).cast(), P::OLDEST) };
    Some(read)
}

/// The `builtin_data` of a node: a parameter struct in memory of `malloc`, or null.
#[derive(Debug)]
pub struct BuiltinData(*mut c_void);

// SAFETY: the memory belongs to this value alone, and holds numbers and what their addresses lead to.
unsafe impl Send for BuiltinData {}
// SAFETY: as above; nothing changes it through a shared reference.
unsafe impl Sync for BuiltinData {}

impl BuiltinData {
    /// Copies a struct to memory of `malloc`; `None` where there is none.
    fn new<P: Params>(params: &P) -> Option<Self> {
        // SAFETY: malloc has no preconditions.
        let memory = unsafe { libc::malloc(size_of::<P>()) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: the memory is as large as the struct, is aligned for any type, and nobody else has it.
        unsafe { memory.cast::<P>().write(*params) };
        Some(Self(memory))
    }

    /// Returns the address of the struct, which stays valid as long as this value; null if the operator has none.
    #[must_use]
    pub fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

impl Drop for BuiltinData {
    fn drop(&mut self) {
        // SAFETY: the memory is of malloc, or the pointer is null, and it is freed once.
        unsafe { libc::free(self.0) };
    }
}

/// Whether this is the operator that [`composite_params_of`] returns the struct of.
#[must_use]
pub fn is_composite(operator: BuiltinOperator) -> bool {
    operator == BuiltinOperator::STABLEHLO_COMPOSITE
}

/// Returns the struct of a `STABLEHLO_COMPOSITE`, whose options are in a place of the file of their own. The name and the
/// attributes, which are null if the file has none, are in memory of the struct's. `None` where there is no memory.
#[must_use]
pub fn composite_params_of(options: &StableHLOCompositeOptionsT) -> Option<BuiltinData> {
    let name = text_of_c(options.name.as_deref().unwrap_or_default());
    let name = name.as_bytes_with_nul();
    let attributes = options.composite_attributes.as_deref().unwrap_or_default();
    let size = size_of::<TfLiteStablehloCompositeParams>();
    // SAFETY: malloc has no preconditions.
    let memory = unsafe { libc::malloc(size + name.len() + attributes.len()) };
    if memory.is_null() {
        return None;
    }
    // SAFETY: the memory has room for the struct, the text and the bytes, one after the other, and nobody else has it.
    unsafe {
        let (text, bytes) = (memory.cast::<u8>().add(size), memory.cast::<u8>().add(size + name.len()));
        text.copy_from_nonoverlapping(name.as_ptr(), name.len());
        bytes.copy_from_nonoverlapping(attributes.as_ptr(), attributes.len());
        memory.cast::<TfLiteStablehloCompositeParams>().write(TfLiteStablehloCompositeParams {
            name: text.cast(),
            subgraph_index: options.decomposition_subgraph_index,
            version: options.version,
            attributes: if attributes.is_empty() { std::ptr::null() } else { bytes },
            attributes_size: attributes.len(),
        });
    }
    Some(BuiltinData(memory))
}

/// Operators without a parameter struct: their `builtin_data` is null, and the file has no options that matter. Those of
/// StableHLO that the file gives options which runtimes do not pass on are left out.
static WITHOUT: &[BuiltinOperator] = &[
    BuiltinOperator::DEQUANTIZE,
    BuiltinOperator::EMBEDDING_LOOKUP,
    BuiltinOperator::FLOOR,
    BuiltinOperator::HASHTABLE_LOOKUP,
    BuiltinOperator::LOGISTIC,
    BuiltinOperator::RELU,
    BuiltinOperator::RELU_N1_TO_1,
    BuiltinOperator::RELU6,
    BuiltinOperator::TANH,
    BuiltinOperator::PAD,
    BuiltinOperator::BATCH_TO_SPACE_ND,
    BuiltinOperator::SPACE_TO_BATCH_ND,
    BuiltinOperator::TRANSPOSE,
    BuiltinOperator::EXP,
    BuiltinOperator::TOPK_V2,
    BuiltinOperator::LOG_SOFTMAX,
    BuiltinOperator::PRELU,
    BuiltinOperator::MAXIMUM,
    BuiltinOperator::MINIMUM,
    BuiltinOperator::LESS,
    BuiltinOperator::NEG,
    BuiltinOperator::PADV2,
    BuiltinOperator::GREATER,
    BuiltinOperator::GREATER_EQUAL,
    BuiltinOperator::LESS_EQUAL,
    BuiltinOperator::SELECT,
    BuiltinOperator::SLICE,
    BuiltinOperator::SIN,
    BuiltinOperator::TILE,
    BuiltinOperator::EXPAND_DIMS,
    BuiltinOperator::EQUAL,
    BuiltinOperator::NOT_EQUAL,
    BuiltinOperator::LOG,
    BuiltinOperator::SQRT,
    BuiltinOperator::RSQRT,
    BuiltinOperator::POW,
    BuiltinOperator::LOGICAL_OR,
    BuiltinOperator::LOGICAL_AND,
    BuiltinOperator::LOGICAL_NOT,
    BuiltinOperator::FLOOR_DIV,
    BuiltinOperator::SQUARE,
    BuiltinOperator::ZEROS_LIKE,
    BuiltinOperator::FILL,
    BuiltinOperator::FLOOR_MOD,
    BuiltinOperator::RANGE,
    BuiltinOperator::SQUARED_DIFFERENCE,
    BuiltinOperator::ABS,
    BuiltinOperator::CEIL,
    BuiltinOperator::REVERSE_V2,
    BuiltinOperator::ADD_N,
    BuiltinOperator::GATHER_ND,
    BuiltinOperator::COS,
    BuiltinOperator::WHERE,
    BuiltinOperator::RANK,
    BuiltinOperator::ELU,
    BuiltinOperator::MATRIX_DIAG,
    BuiltinOperator::QUANTIZE,
    BuiltinOperator::MATRIX_SET_DIAG,
    BuiltinOperator::ROUND,
    BuiltinOperator::HARD_SWISH,
    BuiltinOperator::NON_MAX_SUPPRESSION_V4,
    BuiltinOperator::NON_MAX_SUPPRESSION_V5,
    BuiltinOperator::SCATTER_ND,
    BuiltinOperator::SELECT_V2,
    BuiltinOperator::DENSIFY,
    BuiltinOperator::SEGMENT_SUM,
    BuiltinOperator::BROADCAST_TO,
    BuiltinOperator::RFFT2D,
    BuiltinOperator::IMAG,
    BuiltinOperator::REAL,
    BuiltinOperator::COMPLEX_ABS,
    BuiltinOperator::HASHTABLE_FIND,
    BuiltinOperator::HASHTABLE_IMPORT,
    BuiltinOperator::HASHTABLE_SIZE,
    BuiltinOperator::READ_VARIABLE,
    BuiltinOperator::ASSIGN_VARIABLE,
    BuiltinOperator::BROADCAST_ARGS,
    BuiltinOperator::DYNAMIC_UPDATE_SLICE,
    BuiltinOperator::RELU_0_TO_1,
    BuiltinOperator::UNSORTED_SEGMENT_PROD,
    BuiltinOperator::UNSORTED_SEGMENT_MAX,
    BuiltinOperator::UNSORTED_SEGMENT_SUM,
    BuiltinOperator::ATAN2,
    BuiltinOperator::UNSORTED_SEGMENT_MIN,
    BuiltinOperator::SIGN,
    BuiltinOperator::BITCAST,
    BuiltinOperator::BITWISE_XOR,
    BuiltinOperator::RIGHT_SHIFT,
    BuiltinOperator::STABLEHLO_LOGISTIC,
    BuiltinOperator::STABLEHLO_ADD,
    BuiltinOperator::STABLEHLO_DIVIDE,
    BuiltinOperator::STABLEHLO_MULTIPLY,
    BuiltinOperator::STABLEHLO_MAXIMUM,
    BuiltinOperator::STABLEHLO_RESHAPE,
    BuiltinOperator::STABLEHLO_CLAMP,
    BuiltinOperator::STABLEHLO_ABS,
    BuiltinOperator::STABLEHLO_AND,
    BuiltinOperator::STABLEHLO_COSINE,
    BuiltinOperator::STABLEHLO_EXPONENTIAL,
    BuiltinOperator::STABLEHLO_FLOOR,
    BuiltinOperator::STABLEHLO_LOG,
    BuiltinOperator::STABLEHLO_MINIMUM,
    BuiltinOperator::STABLEHLO_NEGATE,
    BuiltinOperator::STABLEHLO_OR,
    BuiltinOperator::STABLEHLO_POWER,
    BuiltinOperator::STABLEHLO_REMAINDER,
    BuiltinOperator::STABLEHLO_RSQRT,
    BuiltinOperator::STABLEHLO_SELECT,
    BuiltinOperator::STABLEHLO_SUBTRACT,
    BuiltinOperator::STABLEHLO_TANH,
    BuiltinOperator::STABLEHLO_CONVERT,
    BuiltinOperator::STABLEHLO_DYNAMIC_UPDATE_SLICE,
    BuiltinOperator::DILATE,
    BuiltinOperator::STABLEHLO_SHIFT_LEFT,
    BuiltinOperator::STABLEHLO_CBRT,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Translates a struct to options and back, and checks that both say the same.
    fn check<P: Params + PartialEq + std::fmt::Debug>(operator: BuiltinOperator, params: P) -> BuiltinOptionsT {
        // SAFETY: the pointer leads to the operator's struct.
        let options = unsafe { options_of(operator, (&raw const params).cast()) };
        let options = options.unwrap_or_else(|| panic!("{operator:?} has no options"));
        let data = params_of(operator, &options).unwrap_or_else(|| panic!("{operator:?} has no parameters"));
        // SAFETY: the pointer leads to the operator's struct.
        assert_eq!(unsafe { *data.as_ptr().cast::<P>() }, params, "{operator:?}");
        options
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
        let BuiltinOptionsT::Conv2DOptions(options) = options else { panic!("options of CONV_2D") };
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
        check(BuiltinOperator::LSTM, TfLiteLSTMParams { kernel_type, cell_clip: 0.5, ..Default::default() });
    }

    #[test]
    fn every_operator_with_parameters_has_both_directions() {
        let mut with_parameters = 0;
        for code in 0..=BuiltinOperator::ENUM_MAX {
            let operator = BuiltinOperator(code);
            let Some(data) = params_of(operator, &BuiltinOptionsT::NONE) else { continue };
            // SAFETY: the pointer is null or leads to the operator's struct.
            let options = unsafe { options_of(operator, data.as_ptr()) }.unwrap();
            assert_eq!(options == BuiltinOptionsT::NONE, data.as_ptr().is_null(), "{operator:?}");
            with_parameters += usize::from(!data.as_ptr().is_null());
            let again = params_of(operator, &options).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { options_of(operator, again.as_ptr()) }.unwrap(), options, "{operator:?}");
        }
        assert_eq!(with_parameters, 49);
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
        let data = composite_params_of(&options).unwrap();
        // SAFETY: the pointer leads to the operator's struct, whose name and attributes it contains.
        unsafe {
            let params = *data.as_ptr().cast::<TfLiteStablehloCompositeParams>();
            assert_eq!(std::ffi::CStr::from_ptr(params.name), c"odml.rms_norm");
            assert_eq!((params.subgraph_index, params.version), (3, 2));
            assert_eq!(std::slice::from_raw_parts(params.attributes, params.attributes_size), [1, 2, 3]);
        }
    }

    #[test]
    fn options_that_are_left_out_are_the_defaults_of_the_schema() {
        let data = params_of(BuiltinOperator::SOFTMAX, &BuiltinOptionsT::NONE).unwrap();
        // SAFETY: the pointer leads to the operator's struct.
        assert_eq!(unsafe { (*data.as_ptr().cast::<TfLiteSoftmaxParams>()).beta }, 0.0);
        assert!(params_of(BuiltinOperator::EXP, &BuiltinOptionsT::NONE).unwrap().as_ptr().is_null());
    }

    #[test]
    fn what_the_other_side_cannot_say_is_refused() {
        let activation = TfLiteMulParams { activation: TfLiteFusedActivation::SIGMOID };
        let padding = TfLitePoolParams { padding: TfLitePadding::UNKNOWN, ..Default::default() };
        let shape = TfLiteReshapeParams { num_dimensions: 9, ..Default::default() };
        // SAFETY: the pointers are null or lead to the operators' structs.
        unsafe {
            assert!(options_of(BuiltinOperator::MUL, (&raw const activation).cast()).is_none());
            assert!(options_of(BuiltinOperator::MAX_POOL_2D, (&raw const padding).cast()).is_none());
            assert!(options_of(BuiltinOperator::RESHAPE, (&raw const shape).cast()).is_none());
            assert!(options_of(BuiltinOperator::ADD, std::ptr::null()).is_none());
            assert!(options_of(BuiltinOperator::CONV_3D, std::ptr::null()).is_none());
            assert!(options_of(BuiltinOperator::EXP, std::ptr::null()).is_some());
        }
        let long = schema::ReshapeOptionsT { new_shape: Some(vec![1; 9]) };
        assert!(params_of(BuiltinOperator::RESHAPE, &BuiltinOptionsT::ReshapeOptions(Box::new(long))).is_none());
        assert!(params_of(BuiltinOperator::VAR_HANDLE, &BuiltinOptionsT::NONE).is_none());
    }
}
