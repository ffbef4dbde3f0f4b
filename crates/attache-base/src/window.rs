//! Window arithmetic of TensorFlow Lite: number of positions of a sliding window and where the window starts.

/// Padding of a sliding window at the edges of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// `ceil(input / stride)` positions. The padding is split evenly, with the odd element after the input.
    Same,
    /// No padding: only positions that lie completely inside the input.
    Valid,
}

/// Positions and padding of a sliding window along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowExtent {
    /// Number of window positions, which is the output's extent.
    pub output: usize,
    /// Elements of padding before the input.
    pub before: usize,
}

impl Padding {
    /// The window positions along one axis of extent `input`, for a window of `size` elements that are `dilation`
    /// apart.
    ///
    /// `None` if an argument is zero or a product overflows. With [`Padding::Valid`], a window larger than the input
    /// has zero positions. Source: TensorFlow Lite's `ComputeOutSize` and `ComputePadding`.
    pub fn window(self, input: usize, size: usize, stride: usize, dilation: usize) -> Option<WindowExtent> {
        if size == 0 || stride == 0 || dilation == 0 {
            return None;
        }
        let effective = (size - 1).checked_mul(dilation)?.checked_add(1)?;
        let output = match self {
            Padding::Same => input.div_ceil(stride),
            Padding::Valid => (input + 1).saturating_sub(effective).div_ceil(stride),
        };
        let covered = output.saturating_sub(1).checked_mul(stride)?.checked_add(effective)?;
        Some(WindowExtent { output, before: covered.saturating_sub(input) / 2 })
    }
}

/// A function that an operator applies to its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The unchanged result.
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
    /// The activation with this file code (`ActivationFunctionType` of the schema).
    pub fn from_code(code: i8) -> Option<Self> {
        use Activation::*;
        [None, Relu, ReluN1To1, Relu6, Tanh, SignBit].get(usize::try_from(code).ok()?).copied()
    }

    /// The file code (`ActivationFunctionType` of the schema).
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Lower and upper bound if the activation is a clamp (infinite where unbounded); `None` for other functions.
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
