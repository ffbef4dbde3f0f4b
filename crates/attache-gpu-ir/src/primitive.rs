//! The primitives: the operations into which operators are lowered for a device. The set is closed. A new one is a case
//! of the enum [`Primitive`], with its shapes in [`Primitive::infer`] and its meaning in `interpret`.

use attache_base::Shape;

use crate::{Expression, IndexMap, IntExpression, Rows, Scalar};

/// An operation of a device. Shapes are dense and row-major, with the outermost axis first.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// Computes one element from one element of each input. Inputs are broadcast to `shape` by numpy's rules. Integers
    /// are converted to floats.
    Map {
        /// The expression that is computed.
        expression: Expression,
        /// The output's shape.
        shape: Shape,
        /// The type of the output's elements. Integers are the expression's value rounded towards zero.
        scalar: Scalar,
    },
    /// Computes one integer from one integer of each input. Inputs are broadcast to `shape` by numpy's rules.
    IntMap {
        /// The expression that is computed.
        expression: IntExpression,
        /// The output's shape.
        shape: Shape,
    },
    /// The same elements in the same order, with another shape.
    Reshape(Shape),
    /// Moves, repeats, drops or fills in elements.
    IndexMap(IndexMap),
    /// Concatenates inputs along an axis.
    Concatenate {
        /// The axis.
        axis: usize,
    },
    /// Reduces axes to extent 1.
    Reduce {
        /// How elements are reduced.
        reduction: ReduceOp,
        /// The axes, ascending.
        axes: Vec<usize>,
    },
    /// Applies a sequence of reductions and maps to the elements of each row.
    Rows(Rows),
    /// Pools over the two middle axes of `[batch, height, width, channel]`.
    Window(Window),
    /// A convolution of any kind, including matrix products in that form. Integer sums wrap.
    Convolution(ConvolutionGeometry),
    /// Resamples the two middle axes of `[batch, height, width, channel]`.
    Resample(Resample),
    /// The inverse of max pooling. `[batch, height, width, channel]` grows by `size`. The output is 0 except for
    /// `out[b, y·h + i, x·w + j, c] = values[b, y, x, c]` where `indices[b, y, x, c] = j·h + i`. Inputs: values and
    /// indices, both of the same shape.
    Unpool {
        /// Height `h` and width `w` of the windows, which do not overlap.
        size: [usize; 2],
    },
    /// The index of the first largest or smallest element along an axis, which is reduced to extent 1.
    ArgReduce {
        /// Whether to find the largest element rather than the smallest.
        largest: bool,
        /// The axis.
        axis: usize,
    },
    /// Gathers slices of the data by index. An index out of range is clamped to the nearest valid one. Inputs: data and
    /// integer indices.
    Gather(Gather),
    /// Prefix sums along an axis.
    Scan {
        /// The axis.
        axis: usize,
        /// Whether each sum excludes its own element.
        exclusive: bool,
        /// Whether sums start at the end of the axis.
        reverse: bool,
    },
    /// The largest elements of the innermost axis in descending order, and their indices, as two outputs. Equal
    /// elements keep their order.
    TopK {
        /// The number of elements.
        count: usize,
    },
    /// The matrix product of the two innermost axes, for each index of the outer axes, which are broadcast. Integer
    /// sums wrap.
    MatMul {
        /// Whether the left and the right matrix are transposed before the product.
        transposed: [bool; 2],
    },
}

/// How elements are reduced. Float sums accumulate in f32, integer sums wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Mean,
    Maximum,
    Minimum,
    Product,
}

/// A pooling window. Elements outside of the input are left out: they are neither candidates for the maximum nor
/// counted in the mean's divisor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// How the elements in the window are reduced.
    pub kind: WindowKind,
    /// Height and width.
    pub size: [usize; 2],
    /// Vertical and horizontal stride.
    pub strides: [usize; 2],
    /// Padding at the top and on the left.
    pub before: [usize; 2],
    /// The output's height and width.
    pub output: [usize; 2],
}

/// How the elements in a window are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// The mean.
    Average,
    /// The maximum.
    Maximum,
    /// Two outputs: the maximum, and the first position in the window where it occurs. Positions are numbered along the
    /// window's columns: column × height + row.
    ArgMaximum,
}

/// `out[b, y, x, o] = bias[o] + Σ filter[o, i, j, c] × in[b, y·stride + i·dilation − before, …, group(o) + c]`. A
/// transposed convolution uses the same relation with the roles of input and output positions exchanged.
///
/// Inputs: data `[batch, height, width, channels]`, filter `[outputs, height, width, channels / groups]` and,
/// optionally, bias `[outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionGeometry {
    /// Vertical and horizontal stride.
    pub strides: [usize; 2],
    /// Vertical and horizontal dilation.
    pub dilations: [usize; 2],
    /// Padding at the top and on the left.
    pub before: [usize; 2],
    /// The output's height and width.
    pub output: [usize; 2],
    /// The number of groups of channels that are convolved independently.
    pub groups: usize,
    /// Whether the convolution is transposed: each input element is scattered to the output.
    pub transposed: bool,
    /// Zero points that are subtracted from every element of the data and of the filter before the multiplication. 0
    /// for floats.
    pub zero_points: [i32; 2],
}

impl ConvolutionGeometry {
    /// Whether each output pixel depends only on the input pixel at the same position.
    ///
    /// # Panics
    ///
    /// If a shape has fewer than three axes.
    pub fn is_pointwise(&self, data: &[usize], filter: &[usize]) -> bool {
        let is_in_place = self.strides == [1, 1] && self.before == [0, 0] && data[1..3] == self.output;
        filter[1..3] == [1, 1] && is_in_place && !self.transposed
    }

    /// Whether each channel is a group of its own with one output channel.
    ///
    /// # Panics
    ///
    /// If `data` has fewer than four axes or `filter` has none.
    pub fn is_depthwise(&self, data: &[usize], filter: &[usize]) -> bool {
        self.groups == data[3] && filter[0] == data[3] && !self.transposed
    }
}

/// Slices of data selected by indices. With `data = [B…, O…, N…, I…]` and `indices = [B…, J…, n]`,
/// `out[b…, o…, j…, i…] = data[b…, o…, indices[b…, j…, 0], …, indices[b…, j…, n - 1], i…]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The number of leading axes `B` that data and indices share.
    pub batch: usize,
    /// The first indexed axis `N` of the data, at least `batch`. The extent of the innermost axis of the indices is the
    /// number of indexed axes.
    pub axis: usize,
}

/// Resampling of the two middle axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resample {
    /// How a point between elements is sampled.
    pub sampling: Sampling,
    /// The output's height and width.
    pub output: [usize; 2],
    /// Whether the corner elements of input and output are aligned.
    pub align_corners: bool,
    /// Whether elements are at the centres of their pixels.
    pub half_pixel_centers: bool,
}

/// How a point between elements is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Interpolation between the four surrounding elements.
    Bilinear,
    /// The nearest element.
    Nearest,
}

impl Resample {
    /// Input elements per output element along height and width. Source: TensorFlow Lite's resize kernels.
    ///
    /// # Panics
    ///
    /// In builds with overflow checks, if `align_corners` is set and an empty input axis has more than one output
    /// element.
    pub fn scales(&self, input: [usize; 2]) -> [f32; 2] {
        [0, 1].map(|axis| {
            let (from, to) = (input[axis], self.output[axis]);
            if self.align_corners && to > 1 { (from - 1) as f32 / (to - 1) as f32 } else { from as f32 / to as f32 }
        })
    }
}

impl Primitive {
    /// The name of the variant, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Primitive::Map { .. } => "map",
            Primitive::IntMap { .. } => "int_map",
            Primitive::Reshape(_) => "reshape",
            Primitive::IndexMap(_) => "index_map",
            Primitive::Concatenate { .. } => "concatenate",
            Primitive::Reduce { .. } => "reduce",
            Primitive::Rows(_) => "rows",
            Primitive::Window(_) => "window",
            Primitive::Convolution(_) => "convolution",
            Primitive::Resample(_) => "resample",
            Primitive::Unpool { .. } => "unpool",
            Primitive::ArgReduce { .. } => "arg_reduce",
            Primitive::Gather(_) => "gather",
            Primitive::Scan { .. } => "scan",
            Primitive::TopK { .. } => "top_k",
            Primitive::MatMul { .. } => "matmul",
        }
    }

    /// The types and shapes of the outputs for inputs of these types and shapes.
    ///
    /// # Errors
    ///
    /// If the primitive does not accept these inputs. The text says why.
    // Long because each primitive is an arm of one match.
    pub fn infer(&self, inputs: &[(Scalar, &Shape)]) -> Result<Vec<(Scalar, Shape)>, String> {
        let arity = |expected: usize| {
            if inputs.len() == expected { Ok(()) } else { Err(format!("{} inputs, not {expected}", inputs.len())) }
        };
        let float_shape = |index: usize| match inputs.get(index) {
            Some((Scalar::F32, shape)) => Ok(*shape),
            _ => Err(format!("input {index} is not float")),
        };
        let image = |index: usize| {
            let shape = float_shape(index)?;
            if shape.rank() == 4 { Ok(shape) } else { Err(format!("input {index} of shape {shape} is not of rank 4")) }
        };
        match self {
            Primitive::Map { expression, shape, scalar } => {
                if expression.arity() > inputs.len() {
                    return Err(format!("{} inputs for an expression of {}", inputs.len(), expression.arity()));
                }
                broadcast_all(inputs, shape)?;
                Ok(vec![(*scalar, shape.clone())])
            }
            Primitive::IntMap { expression, shape } => {
                if expression.arity() > inputs.len() || inputs.iter().any(|(scalar, _)| *scalar != Scalar::I32) {
                    return Err(format!("{} integers are needed", expression.arity()));
                }
                broadcast_all(inputs, shape)?;
                Ok(vec![(Scalar::I32, shape.clone())])
            }
            Primitive::Reshape(shape) => {
                arity(1)?;
                if inputs[0].1.elements() != shape.elements() {
                    return Err(format!("{} cannot be reshaped to {shape}", inputs[0].1));
                }
                Ok(vec![(inputs[0].0, shape.clone())])
            }
            Primitive::IndexMap(map) => {
                arity(1)?;
                if map.coordinates.len() != inputs[0].1.rank() {
                    return Err(format!("{} coordinates into {}", map.coordinates.len(), inputs[0].1));
                }
                Ok(vec![(inputs[0].0, map.output.clone().into())])
            }
            Primitive::Concatenate { axis } => {
                let (scalar, first) = inputs.first().ok_or("no inputs")?;
                let mut extents = first.to_vec();
                *extents.get_mut(*axis).ok_or("no such axis")? = 0;
                for (other, shape) in inputs {
                    let fits =
                        shape.rank() == extents.len() && (0..extents.len()).all(|a| a == *axis || shape[a] == first[a]);
                    if other != scalar || !fits {
                        return Err(format!("{shape} does not follow {first} along axis {axis}"));
                    }
                    extents[*axis] += shape[*axis];
                }
                Ok(vec![(*scalar, extents.into())])
            }
            Primitive::Reduce { axes, .. } => {
                arity(1)?;
                let mut extents = inputs[0].1.to_vec();
                for axis in axes {
                    *extents.get_mut(*axis).ok_or("no such axis")? = 1;
                }
                Ok(vec![(inputs[0].0, extents.into())])
            }
            Primitive::Rows(rows) => {
                broadcast_all(inputs, &rows.shape)?;
                rows.check(&inputs.iter().map(|(_, shape)| *shape).collect::<Vec<_>>())?;
                Ok(vec![(rows.scalar, rows.output())])
            }
            Primitive::ArgReduce { axis, .. } => {
                arity(1)?;
                let mut extents = float_shape(0)?.to_vec();
                *extents.get_mut(*axis).ok_or("no such axis")? = 1;
                Ok(vec![(Scalar::I32, extents.into())])
            }
            Primitive::Gather(gather) => {
                arity(2)?;
                let (data, (scalar, indices)) = (inputs[0].1, inputs[1]);
                let named = *indices.last().ok_or("indices need an axis")?;
                let shared = gather.batch < indices.rank() && gather.batch <= gather.axis;
                let fits = gather.axis + named <= data.rank() && shared;
                if scalar != Scalar::I32 || !fits || data[..gather.batch] != indices[..gather.batch] {
                    return Err(format!("indices {indices} do not name axis {} of {data}", gather.axis));
                }
                let inner = &indices[gather.batch..indices.rank() - 1];
                let parts = [&data[..gather.axis], inner, &data[gather.axis + named..]];
                let output = Shape::from(parts.concat());
                // Indices are clamped to the nearest valid one, but an empty axis has none.
                if data[gather.axis..gather.axis + named].contains(&0) && output.elements() > 0 {
                    return Err(format!(
                        "there is nothing along axis {} of {data} that indices could name",
                        gather.axis
                    ));
                }
                Ok(vec![(inputs[0].0, output)])
            }
            Primitive::Scan { axis, .. } => {
                arity(1)?;
                let shape = float_shape(0)?;
                shape.get(*axis).ok_or("no such axis")?;
                Ok(vec![(Scalar::F32, shape.clone())])
            }
            Primitive::TopK { count } => {
                arity(1)?;
                let mut extents = float_shape(0)?.to_vec();
                match extents.last_mut() {
                    Some(last) if *last >= *count => *last = *count,
                    _ => return Err(format!("there are not {count} elements in {}", inputs[0].1)),
                }
                Ok(vec![(Scalar::F32, extents.clone().into()), (Scalar::I32, extents.into())])
            }
            Primitive::MatMul { transposed } => {
                arity(2)?;
                let scalar = inputs[0].0;
                if inputs[1].0 != scalar {
                    return Err("floats and integers are not multiplied".into());
                }
                let split = |index: usize| {
                    let shape = inputs[index].1;
                    let Some((outer, [rows, columns])) = shape.split_last_chunk::<2>() else {
                        return Err(format!("input {index} of shape {shape} is no matrix"));
                    };
                    let matrix = if transposed[index] { [*columns, *rows] } else { [*rows, *columns] };
                    Ok((Shape::from(outer), matrix))
                };
                let ((left, [rows, depth]), (right, [other, columns])) = (split(0)?, split(1)?);
                let outer = left.broadcast(&right).filter(|_| depth == other);
                let outer = outer.ok_or_else(|| format!("{} and {} do not multiply", inputs[0].1, inputs[1].1))?;
                Ok(vec![(scalar, [outer.extents(), &[rows, columns]].concat().into())])
            }
            Primitive::Window(window) => {
                arity(1)?;
                let input = image(0)?;
                let shape = Shape::from([input[0], window.output[0], window.output[1], input[3]]);
                Ok(match window.kind {
                    WindowKind::ArgMaximum => vec![(Scalar::F32, shape.clone()), (Scalar::I32, shape)],
                    WindowKind::Average | WindowKind::Maximum => vec![(Scalar::F32, shape)],
                })
            }
            Primitive::Convolution(convolution) => {
                let scalar = inputs.first().map_or(Scalar::F32, |(scalar, _)| *scalar);
                if inputs.iter().any(|(other, _)| *other != scalar) {
                    return Err("floats and integers are not multiplied".into());
                }
                let image = |index: usize| match inputs.get(index) {
                    Some((_, shape)) if shape.rank() == 4 => Ok(*shape),
                    _ => Err(format!("input {index} is not of rank 4")),
                };
                let (data, filter) = (image(0)?, image(1)?);
                let groups = convolution.groups;
                if groups == 0 || filter[3] * groups != data[3] || filter[0] % groups != 0 {
                    return Err(format!("filter {filter} in {groups} groups does not fit data {data}"));
                }
                if convolution.transposed && groups != 1 {
                    return Err("a transposed convolution has one group".into());
                }
                if inputs.len() > 3 || (inputs.len() == 3 && **inputs[2].1 != [filter[0]]) {
                    return Err("the bias has one element for each output channel".into());
                }
                let [height, width] = convolution.output;
                Ok(vec![(scalar, [data[0], height, width, filter[0]].into())])
            }
            Primitive::Resample(resample) => {
                arity(1)?;
                let input = image(0)?;
                Ok(vec![(Scalar::F32, [input[0], resample.output[0], resample.output[1], input[3]].into())])
            }
            Primitive::Unpool { size } => {
                arity(2)?;
                let values = image(0)?;
                if inputs[1] != (Scalar::I32, values) {
                    return Err(format!("indices {} are not integers of the shape {values}", inputs[1].1));
                }
                let shape = [values[0], values[1] * size[0], values[2] * size[1], values[3]];
                Ok(vec![(Scalar::F32, shape.into())])
            }
        }
    }
}

/// Returns an error unless each input can be broadcast to `shape`.
fn broadcast_all(inputs: &[(Scalar, &Shape)], shape: &Shape) -> Result<(), String> {
    for (index, (_, input)) in inputs.iter().enumerate() {
        if input.broadcast(shape).as_ref() != Some(shape) {
            return Err(format!("input {index} of shape {input} does not broadcast to {shape}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_into_an_empty_axis_are_rejected() {
        let gather = |data: [usize; 2], indices: [usize; 2]| {
            let inputs = [(Scalar::F32, &Shape::from(data)), (Scalar::I32, &Shape::from(indices))];
            Primitive::Gather(Gather { batch: 0, axis: 0 }).infer(&inputs)
        };
        assert!(gather([0, 4], [3, 1]).unwrap_err().contains("nothing along axis 0"));
        assert!(gather([0, 4], [0, 1]).is_ok() && gather([2, 0], [3, 1]).is_ok() && gather([2, 4], [3, 1]).is_ok());
    }
}
