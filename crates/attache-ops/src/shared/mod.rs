//! Code shared by several operators: checks, conversions, arithmetic of quantized tensors, and operator families such
//! as convolutions, reductions and resizing.

pub(crate) mod block_scales;
pub(crate) mod blocks;
pub(crate) mod byte_products;
pub(crate) mod callee;
pub(crate) mod combine;
pub(crate) mod contraction;
pub(crate) mod convolution;
pub(crate) mod dequantized;
pub(crate) mod exact;
pub(crate) mod fingerprint;
pub(crate) mod fourier;
pub(crate) mod fused;
pub(crate) mod integers;
pub(crate) mod overlap;
pub(crate) mod padding;
pub(crate) mod pieces;
pub(crate) mod pool;
pub(crate) mod positions;
pub(crate) mod quantized;
pub(crate) mod random_bits;
pub(crate) mod recurrent;
pub(crate) mod reduction;
pub(crate) mod resize;
pub(crate) mod scatter;
pub(crate) mod sequence;
pub(crate) mod sequence_lstm;
pub(crate) mod slices;
pub(crate) mod spread;
pub(crate) mod steps;
pub(crate) mod support;
pub(crate) mod suppression;
pub(crate) mod view;
pub(crate) mod volume;
pub(crate) mod working;
pub(crate) mod xnn_pack;
