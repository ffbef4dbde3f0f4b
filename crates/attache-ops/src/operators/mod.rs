//! One file for each operator or family of similar operators, and the table of all of them.
//!
//! A file declares its operators' inputs in `DEFINITIONS` and implements [`Operator`](crate::Operator), whose methods
//! may rely on that declaration.

mod add_n;
mod arg_extremum;
mod assign_variable;
mod atan2;
mod audio_spectrogram;
mod average_pool_2d;
mod batch_matmul;
mod batch_to_space_nd;
mod bidirectional_sequence_lstm;
mod bidirectional_sequence_rnn;
mod binary;
mod bitcast;
mod bitwise;
mod broadcast_args;
mod broadcast_to;
mod bucketize;
mod call_once;
mod cast;
mod comparison;
mod complex;
mod concatenation;
mod conv_2d;
mod conv_3d;
mod conv_3d_transpose;
mod convolution_2d_transpose_bias;
mod cumsum;
mod densify;
mod depth_to_space;
mod depthwise_conv_2d;
mod dequantize;
mod detection_post_process;
mod dilate;
mod dynamic_update_slice;
mod embedding_lookup;
mod embedding_lookup_sparse;
mod expand_dims;
mod fake_quant;
mod fill;
mod fully_connected;
mod gather;
mod gather_nd;
mod hadamard_rotation;
mod hashtable;
mod hashtable_lookup;
mod if_op;
mod l2_normalization;
mod l2_pool_2d;
mod local_response_normalization;
mod log_softmax;
mod logical;
mod lsh_projection;
mod lstm;
mod matrix_diag;
mod max_pool_2d;
mod max_pooling_with_argmax_2d;
mod max_unpooling_2d;
mod mean;
mod mfcc;
mod mirror_pad;
mod non_max_suppression;
mod numeric_verify;
mod one_hot;
mod pack;
mod pad;
mod padv2;
mod prelu;
mod quantize;
mod random;
mod range;
mod rank;
mod read_variable;
mod reduce_window;
mod reducer;
mod reshape;
mod resize_bilinear;
mod resize_nearest_neighbor;
mod reverse_sequence;
mod reverse_v2;
mod rfft2d;
mod rnn;
mod scatter_nd;
mod segment;
mod select;
mod shape;
mod skip_gram;
mod slice;
mod softmax;
mod space_to_batch_nd;
mod space_to_depth;
mod sparse_to_dense;
mod split;
mod split_v;
mod squeeze;
mod stablehlo_binary;
mod stablehlo_case;
mod stablehlo_composite;
mod stablehlo_gather;
mod stablehlo_pad;
mod stablehlo_rng_bit_generator;
mod stablehlo_scatter;
mod strided_slice;
mod svdf;
mod tile;
mod topk_v2;
mod transpose;
mod transpose_conv;
mod unary;
mod unidirectional_sequence_lstm;
mod unique;
mod unpack;
mod var_handle;
mod where_op;
mod while_op;
mod zeros_like;

use crate::Definition;

/// The definitions of all implemented operators, sorted by the file that contains them.
static TABLE: &[&[Definition]] = &[
    add_n::DEFINITIONS,
    arg_extremum::DEFINITIONS,
    assign_variable::DEFINITIONS,
    atan2::DEFINITIONS,
    audio_spectrogram::DEFINITIONS,
    average_pool_2d::DEFINITIONS,
    batch_matmul::DEFINITIONS,
    batch_to_space_nd::DEFINITIONS,
    bidirectional_sequence_lstm::DEFINITIONS,
    bidirectional_sequence_rnn::DEFINITIONS,
    binary::DEFINITIONS,
    bitcast::DEFINITIONS,
    bitwise::DEFINITIONS,
    broadcast_args::DEFINITIONS,
    broadcast_to::DEFINITIONS,
    bucketize::DEFINITIONS,
    call_once::DEFINITIONS,
    cast::DEFINITIONS,
    comparison::DEFINITIONS,
    complex::DEFINITIONS,
    concatenation::DEFINITIONS,
    conv_2d::DEFINITIONS,
    conv_3d::DEFINITIONS,
    conv_3d_transpose::DEFINITIONS,
    convolution_2d_transpose_bias::DEFINITIONS,
    cumsum::DEFINITIONS,
    densify::DEFINITIONS,
    depth_to_space::DEFINITIONS,
    depthwise_conv_2d::DEFINITIONS,
    dequantize::DEFINITIONS,
    detection_post_process::DEFINITIONS,
    dilate::DEFINITIONS,
    dynamic_update_slice::DEFINITIONS,
    embedding_lookup::DEFINITIONS,
    embedding_lookup_sparse::DEFINITIONS,
    expand_dims::DEFINITIONS,
    fake_quant::DEFINITIONS,
    fill::DEFINITIONS,
    fully_connected::DEFINITIONS,
    gather::DEFINITIONS,
    gather_nd::DEFINITIONS,
    hadamard_rotation::DEFINITIONS,
    hashtable::DEFINITIONS,
    hashtable_lookup::DEFINITIONS,
    if_op::DEFINITIONS,
    l2_normalization::DEFINITIONS,
    l2_pool_2d::DEFINITIONS,
    local_response_normalization::DEFINITIONS,
    log_softmax::DEFINITIONS,
    logical::DEFINITIONS,
    lsh_projection::DEFINITIONS,
    lstm::DEFINITIONS,
    matrix_diag::DEFINITIONS,
    max_pool_2d::DEFINITIONS,
    max_pooling_with_argmax_2d::DEFINITIONS,
    max_unpooling_2d::DEFINITIONS,
    mean::DEFINITIONS,
    mfcc::DEFINITIONS,
    mirror_pad::DEFINITIONS,
    non_max_suppression::DEFINITIONS,
    numeric_verify::DEFINITIONS,
    one_hot::DEFINITIONS,
    pack::DEFINITIONS,
    pad::DEFINITIONS,
    padv2::DEFINITIONS,
    prelu::DEFINITIONS,
    quantize::DEFINITIONS,
    random::DEFINITIONS,
    range::DEFINITIONS,
    rank::DEFINITIONS,
    read_variable::DEFINITIONS,
    reduce_window::DEFINITIONS,
    reducer::DEFINITIONS,
    reshape::DEFINITIONS,
    resize_bilinear::DEFINITIONS,
    resize_nearest_neighbor::DEFINITIONS,
    reverse_sequence::DEFINITIONS,
    reverse_v2::DEFINITIONS,
    rfft2d::DEFINITIONS,
    rnn::DEFINITIONS,
    scatter_nd::DEFINITIONS,
    segment::DEFINITIONS,
    select::DEFINITIONS,
    shape::DEFINITIONS,
    skip_gram::DEFINITIONS,
    slice::DEFINITIONS,
    softmax::DEFINITIONS,
    space_to_batch_nd::DEFINITIONS,
    space_to_depth::DEFINITIONS,
    sparse_to_dense::DEFINITIONS,
    split::DEFINITIONS,
    split_v::DEFINITIONS,
    squeeze::DEFINITIONS,
    stablehlo_binary::DEFINITIONS,
    stablehlo_case::DEFINITIONS,
    stablehlo_composite::DEFINITIONS,
    stablehlo_gather::DEFINITIONS,
    stablehlo_pad::DEFINITIONS,
    stablehlo_rng_bit_generator::DEFINITIONS,
    stablehlo_scatter::DEFINITIONS,
    strided_slice::DEFINITIONS,
    svdf::DEFINITIONS,
    tile::DEFINITIONS,
    topk_v2::DEFINITIONS,
    transpose::DEFINITIONS,
    transpose_conv::DEFINITIONS,
    unary::DEFINITIONS,
    unidirectional_sequence_lstm::DEFINITIONS,
    unique::DEFINITIONS,
    unpack::DEFINITIONS,
    var_handle::DEFINITIONS,
    where_op::DEFINITIONS,
    while_op::DEFINITIONS,
    zeros_like::DEFINITIONS,
];

/// Returns the definitions of all implemented operators.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    TABLE.iter().flat_map(|definitions| definitions.iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Types};

    /// Whether a list of declared inputs is consistent: each has a name and a type that can be checked, and
    /// only the last one is repeated.
    fn is_sound(inputs: &[Input]) -> bool {
        inputs.iter().enumerate().all(|(index, input)| {
            let is_known = match input.types {
                Types::Like(other) => other < index && !inputs[other].is_optional && !inputs[other].is_repeated,
                Types::OneOf(types) => !types.is_empty(),
                Types::Any | Types::Movable | Types::MovableOrStrings | Types::Resource => true,
            };
            is_known && !input.name.is_empty() && (!input.is_repeated || index + 1 == inputs.len())
        })
    }

    #[test]
    fn declarations_are_sound() {
        for definition in definitions() {
            assert!(is_sound(definition.inputs), "{}", definition.name());
        }
    }
}
