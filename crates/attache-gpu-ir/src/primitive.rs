//! The primitives: a closed set. What it lacks is a new variant here, with its meaning in `interpret`.

use attache_base::Shape;

use crate::{Expression, IndexMap, Rows, Scalar, Whole};

/// One operation of a device. Shapes are dense, row-major, outermost axis first.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// One element from one element of each input, inputs broadcast to `shape` by numpy's rule. Integers are read as
    /// real numbers.
    Map {
        /// What is computed.
        expression: Expression,
        /// The output's shape.
        shape: Shape,
        /// What the output's elements mean; integers are the expression's value rounded towards zero.
        scalar: Scalar,
    },
    /// One integer from one integer of each input, inputs broadcast to `shape` by numpy's rule.
    WholeMap {
        /// What is computed.
        expression: Whole,
        /// The output's shape.
        shape: Shape,
    },
    /// The same elements, in the same order, in another shape.
    Reshape(Shape),
    /// Elements moved, repeated, dropped or filled in.
    IndexMap(IndexMap),
    /// Inputs one after the other along an axis.
    Concatenate {
        /// The axis.
        axis: usize,
    },
    /// Axes folded to extent 1.
    Reduce {
        /// How elements are folded.
        reduction: Reduction,
        /// The axes, ascending.
        axes: Vec<usize>,
    },
    /// The elements of each row folded and mapped, as often as steps say.
    Rows(Rows),
    /// A window that slides over the two middle axes of `[batch, height, width, channel]`.
    Window(Window),
    /// A sum of products: convolution of every kind, and the product of matrices. Sums of integers wrap.
    Contract(Contraction),
    /// The two middle axes of `[batch, height, width, channel]` sampled at other points.
    Resample(Resample),
    /// The inverse of the largest of each window: `[batch, height, width, channel]` grows by `size`, 0 but for
    /// `out[b, y·h + i, x·w + j, c] = values[b, y, x, c]` where `places[b, y, x, c] = j·h + i`.
    /// Inputs: values, places, both of the same shape.
    Unpool {
        /// Height `h` and width `w` of the windows, which don't overlap.
        size: [usize; 2],
    },
    /// The place of the first largest or smallest element along an axis, folded to extent 1.
    ArgReduce {
        /// Whether the largest is looked for, or the smallest.
        largest: bool,
        /// The axis.
        axis: usize,
    },
    /// Slices of the data that indices name; an index outside is taken for the nearest inside. Inputs: data and indices,
    /// which are integers.
    Gather(Gather),
    /// Running sums along an axis.
    Scan {
        /// The axis.
        axis: usize,
        /// Whether each sum leaves its own element out.
        exclusive: bool,
        /// Whether sums run from the end.
        reverse: bool,
    },
    /// Two outputs: the largest elements of the innermost axis in descending order, the first of equals first, and their
    /// places.
    TopK {
        /// How many.
        count: usize,
    },
    /// The product of matrices, the two innermost axes, for each index of the outer ones, which broadcast. Sums of integers
    /// wrap.
    Multiply {
        /// Whether the left and the right matrix are transposed first.
        transposed: [bool; 2],
    },
}

/// How a reduction folds elements. Sums of reals accumulate in binary32, those of integers wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Reduction {
    Sum,
    Mean,
    Maximum,
    Minimum,
    Product,
}

/// A sliding window that folds what it covers; elements of padding don't count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// How the covered elements are folded.
    pub kind: WindowKind,
    /// Height and width.
    pub size: [usize; 2],
    /// Rows and columns between neighbouring windows.
    pub strides: [usize; 2],
    /// Padding above and to the left.
    pub before: [usize; 2],
    /// The output's height and width.
    pub output: [usize; 2],
}

/// How a window folds what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// The mean.
    Average,
    /// The largest.
    Maximum,
    /// Two outputs: the largest, and the first place in the window that holds it. Places count down the window's columns:
    /// column × height + row.
    ArgMaximum,
}

/// `out[b, y, x, o] = bias[o] + Σ filter[o, i, j, c] × in[b, y·stride + i·dilation − before, …, group(o) + c]`;
/// transposed, the same relation with the roles of the input's and the output's positions exchanged.
///
/// Inputs: data `[batch, height, width, channels]`, filter `[outputs, height, width, channels / groups]` and,
/// optionally, bias `[outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    /// Rows and columns that the window moves from one position to the next.
    pub strides: [usize; 2],
    /// Rows and columns between neighbouring elements of the window.
    pub dilations: [usize; 2],
    /// Padding above and to the left.
    pub before: [usize; 2],
    /// The output's height and width.
    pub output: [usize; 2],
    /// Groups of channels that don't see each other.
    pub groups: usize,
    /// Whether the window is spread over the output instead of gathered from the input.
    pub transposed: bool,
    /// What is taken off every element of the data and of the filter before they are multiplied. Of reals, nothing.
    pub zero_points: [i32; 2],
}

impl Contraction {
    /// Whether each output position reads the one input position of the same number.
    pub fn is_pointwise(&self, data: &[usize], filter: &[usize]) -> bool {
        let is_in_place = self.strides == [1, 1] && self.before == [0, 0] && data[1..3] == self.output;
        filter[1..3] == [1, 1] && is_in_place && !self.transposed
    }

    /// Whether each channel is a group of its own that makes one channel.
    pub fn is_depthwise(&self, data: &[usize], filter: &[usize]) -> bool {
        self.groups == data[3] && filter[0] == data[3] && !self.transposed
    }
}

/// Slices of data that indices name: with `data = [B…, O…, N…, I…]` and `indices = [B…, J…, n]`,
/// `out[b…, o…, j…, i…] = data[b…, o…, indices[b…, j…, 0], …, indices[b…, j…, n - 1], i…]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Leading axes `B` that data and indices share.
    pub batch: usize,
    /// The first axis `N` that indices name, at least `batch`. They name as many as the innermost axis of the indices
    /// is long.
    pub axis: usize,
}

/// Sampling of the two middle axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resample {
    /// How a point between elements is read.
    pub sampling: Sampling,
    /// The output's height and width.
    pub output: [usize; 2],
    /// Whether the corner elements of input and output coincide.
    pub align_corners: bool,
    /// Whether elements lie at the centres of their cells.
    pub half_pixel_centers: bool,
}

/// How a point between elements is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// From the four elements around it.
    Bilinear,
    /// From the nearest element.
    Nearest,
}

impl Resample {
    /// Input elements per output element along the height and the width. Source: TensorFlow Lite's resize kernels.
    pub fn scales(&self, input: [usize; 2]) -> [f32; 2] {
        [0, 1].map(|axis| {
            let (from, to) = (input[axis], self.output[axis]);
            if self.align_corners && to > 1 { (from - 1) as f32 / (to - 1) as f32 } else { from as f32 / to as f32 }
        })
    }
}

impl Primitive {
    /// The variant's name, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Primitive::Map { .. } => "map",
            Primitive::WholeMap { .. } => "whole_map",
            Primitive::Reshape(_) => "reshape",
            Primitive::IndexMap(_) => "index_map",
            Primitive::Concatenate { .. } => "concatenate",
            Primitive::Reduce { .. } => "reduce",
            Primitive::Rows(_) => "rows",
            Primitive::Window(_) => "window",
            Primitive::Contract(_) => "contract",
            Primitive::Resample(_) => "resample",
            Primitive::Unpool { .. } => "unpool",
            Primitive::ArgReduce { .. } => "arg_reduce",
            Primitive::Gather(_) => "gather",
            Primitive::Scan { .. } => "scan",
            Primitive::TopK { .. } => "top_k",
            Primitive::Multiply { .. } => "multiply",
        }
    }

    /// Types and shapes of the outputs for inputs of these types and shapes; what is wrong where they don't fit.
    pub fn infer(&self, inputs: &[(Scalar, &Shape)]) -> Result<Vec<(Scalar, Shape)>, String> {
        let arity = |expected: usize| {
            if inputs.len() == expected { Ok(()) } else { Err(format!("{} inputs, not {expected}", inputs.len())) }
        };
        let number = |index: usize| match inputs.get(index) {
            Some((Scalar::F32, shape)) => Ok(*shape),
            _ => Err(format!("input {index} is not float")),
        };
        let image = |index: usize| {
            let shape = number(index)?;
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
            Primitive::WholeMap { expression, shape } => {
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
                let mut extents = number(0)?.to_vec();
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
                // An index is taken for the nearest inside, and here there is none.
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
                let shape = number(0)?;
                shape.get(*axis).ok_or("no such axis")?;
                Ok(vec![(Scalar::F32, shape.clone())])
            }
            Primitive::TopK { count } => {
                arity(1)?;
                let mut extents = number(0)?.to_vec();
                match extents.last_mut() {
                    Some(last) if *last >= *count => *last = *count,
                    _ => return Err(format!("there are not {count} elements in {}", inputs[0].1)),
                }
                Ok(vec![(Scalar::F32, extents.clone().into()), (Scalar::I32, extents.into())])
            }
            Primitive::Multiply { transposed } => {
                arity(2)?;
                let scalar = inputs[0].0;
                if inputs[1].0 != scalar {
                    return Err("reals and integers are not multiplied".into());
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
            Primitive::Contract(contraction) => {
                let scalar = inputs.first().map_or(Scalar::F32, |(scalar, _)| *scalar);
                if inputs.iter().any(|(other, _)| *other != scalar) {
                    return Err("reals and integers are not multiplied".into());
                }
                let image = |index: usize| match inputs.get(index) {
                    Some((_, shape)) if shape.rank() == 4 => Ok(*shape),
                    _ => Err(format!("input {index} is not of rank 4")),
                };
                let (data, filter) = (image(0)?, image(1)?);
                let groups = contraction.groups;
                if groups == 0 || filter[3] * groups != data[3] || filter[0] % groups != 0 {
                    return Err(format!("filter {filter} in {groups} groups does not fit data {data}"));
                }
                if contraction.transposed && groups != 1 {
                    return Err("a transposed contraction has one group".into());
                }
                if inputs.len() > 3 || (inputs.len() == 3 && **inputs[2].1 != [filter[0]]) {
                    return Err("the bias has one element for each output channel".into());
                }
                let [height, width] = contraction.output;
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
                    return Err(format!("places {} are not integers of the shape {values}", inputs[1].1));
                }
                let shape = [values[0], values[1] * size[0], values[2] * size[1], values[3]];
                Ok(vec![(Scalar::F32, shape.into())])
            }
        }
    }
}

/// An error unless each input broadcasts to `shape`.
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
    fn indices_that_can_name_nothing_are_refused() {
        let gather = |data: [usize; 2], indices: [usize; 2]| {
            let inputs = [(Scalar::F32, &Shape::from(data)), (Scalar::I32, &Shape::from(indices))];
            Primitive::Gather(Gather { batch: 0, axis: 0 }).infer(&inputs)
        };
        assert!(gather([0, 4], [3, 1]).unwrap_err().contains("nothing along axis 0"));
        assert!(gather([0, 4], [0, 1]).is_ok() && gather([2, 0], [3, 1]).is_ok() && gather([2, 4], [3, 1]).is_ok());
    }
}
