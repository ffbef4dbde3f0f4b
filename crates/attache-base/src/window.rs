//! Arithmetic of sliding windows (convolution, pooling) and fused activations, as in TensorFlow Lite: the
//! number of positions of a window, where the first one starts, and the bounds of an activation.

/// Padding of a sliding window at the edges of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// `ceil(input / stride)` window positions. Half of the padding is before the input and half after it; if
    /// the number of padding elements is odd, the larger half is after the input.
    Same,
    /// No padding: only the window positions that are completely inside the input.
    Valid,
}

/// Number of positions and padding of a sliding window along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowExtent {
    /// Number of window positions, which is the output's extent.
    pub output: usize,
    /// Number of padding elements before the first element of the input.
    pub before: usize,
}

impl Padding {
    /// Returns the number of positions and the padding along one axis of `input` elements, for a window of
    /// `size` elements that are `dilation` elements apart and that moves by `stride` elements.
    ///
    /// `None` if `size`, `stride` or `dilation` is zero or a product overflows. With [`Padding::Valid`], a
    /// window larger than the input has zero positions. Source: TensorFlow Lite's `ComputeOutSize` and
    /// `ComputePadding`.
    #[must_use]
    pub fn window(self, input: usize, size: usize, stride: usize, dilation: usize) -> Option<WindowExtent> {
        if size == 0 || stride == 0 || dilation == 0 {
            return None;
        }
        let effective = (size - 1).checked_mul(dilation)?.checked_add(1)?;
        let output = match self {
            Padding::Same => input.div_ceil(stride),
            Padding::Valid => input.checked_add(1)?.saturating_sub(effective).div_ceil(stride),
        };
        let covered = output.saturating_sub(1).checked_mul(stride)?.checked_add(effective)?;
        Some(WindowExtent { output, before: covered.saturating_sub(input) / 2 })
    }
}

/// A fused activation: a function that an operator applies to each element `x` of its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x` unchanged.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x` clamped to `[-1, 1]`.
    ReluN1To1,
    /// `x` clamped to `[0, 6]`.
    Relu6,
    /// `tanh(x)`.
    Tanh,
    /// The sign bit of `x`. TensorFlow Lite has no float kernel for it.
    SignBit,
}

impl Activation {
    /// Returns the activation with this code of the schema's enum `ActivationFunctionType`; `None` for a code
    /// that the schema does not have.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        use Activation::*;
        [None, Relu, ReluN1To1, Relu6, Tanh, SignBit].get(usize::try_from(code).ok()?).copied()
    }

    /// Returns the activation's code in the schema's enum `ActivationFunctionType`.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Returns the lower and the upper bound if the activation is a clamp, infinite where there is no bound;
    /// `None` for `Tanh` and `SignBit`, which are not clamps.
    #[must_use]
    pub fn bounds(self) -> Option<(f32, f32)> {
        match self {
            Activation::None => Some((f32::NEG_INFINITY, f32::INFINITY)),
            Activation::Relu => Some((0.0, f32::INFINITY)),
            Activation::ReluN1To1 => Some((-1.0, 1.0)),
            Activation::Relu6 => Some((0.0, 6.0)),
            Activation::Tanh | Activation::SignBit => Option::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_as_tensorflow_lite_counts_them() {
        let window = |output, before| Some(WindowExtent { output, before });
        assert_eq!(Padding::Same.window(224, 3, 2, 1), window(112, 0));
        assert_eq!(Padding::Same.window(5, 3, 1, 2), window(5, 2));
        assert_eq!(Padding::Valid.window(5, 3, 1, 1), window(3, 0));
        assert_eq!(Padding::Valid.window(2, 3, 1, 1), window(0, 0));
        assert_eq!(Padding::Same.window(5, 3, 0, 1), None);
    }
}
