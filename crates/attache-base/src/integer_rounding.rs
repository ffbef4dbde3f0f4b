//! How the CPU rounds results of quantized operators.

/// How the CPU rounds the results of quantized operators. TensorFlow Lite has several sets of kernels, whose results differ
/// in the last bit of some elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IntegerRounding {
    /// As TensorFlow Lite's reference kernels (`BUILTIN_REF`), bit for bit.
    #[default]
    Reference,
    /// As LiteRT's default interpreter, which runs XNNPACK's kernels where they apply, bit for bit for `CONV_2D`,
    /// `DEPTHWISE_CONV_2D`, `FULLY_CONNECTED`, `ADD` and `MUL` with activations of `INT8` or `UINT8`. Products are scaled
    /// in single precision, and results are rounded once. All other operators, and nodes of these five that XNNPACK does
    /// not take (for instance with weights that a run computes), are computed as with [`IntegerRounding::Reference`].
    XnnPack,
}
