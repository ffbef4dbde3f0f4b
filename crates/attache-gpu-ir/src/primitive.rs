//! [`Primitive`], the closed set of operations into which operators are lowered for a device, with its
//! parameters and its shape inference. A new primitive is a variant of [`Primitive`], with its shapes in
//! [`Primitive::infer`] and its meaning in `interpret`.

use attache_base::Shape;

use crate::{Expression, IndexMap, IntExpression, Rows, Scalar};

/// An operation that a device performs on tensors. Tensors are dense and row-major, and axis 0 is the
/// outermost.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// Computes each output element with a float expression of the input elements at the same position.
    /// Inputs are broadcast to `shape` by NumPy's rules. Integer inputs are converted to floats.
    Map {
        /// The float expression that computes an output element. `Input(k)` is the element of the k-th input.
        expression: Expression,
        /// The output's shape.
        shape: Shape,
        /// The type of the output's elements. If it is `I32`, the expression's value is rounded towards zero.
        scalar: Scalar,
    },
    /// Computes each output integer with an integer expression of the input integers at the same position.
    /// Inputs are broadcast to `shape` by NumPy's rules.
    IntMap {
        /// The integer expression that computes an output element. `Input(k)` is the element of the k-th
        /// input.
        expression: IntExpression,
        /// The output's shape.
        shape: Shape,
    },
    /// Changes the shape of a tensor to the given one. The elements and their row-major order stay the same.
    Reshape(Shape),
    /// Copies each output element from the input coordinates that an index map gives, or sets it to a fill
    /// value: transposes, slices, tiles and pads.
    IndexMap(IndexMap),
    /// Concatenates the inputs along an axis.
    Concatenate {
        /// The axis along which the inputs are concatenated.
        axis: usize,
    },
    /// Combines all elements along the given axes into one. These axes keep extent 1.
    Reduce {
        /// The operation that combines the elements.
        reduction: ReduceOp,
        /// The axes to reduce, in ascending order.
        axes: Vec<usize>,
    },
    /// Applies a sequence of reductions and element-wise expressions to each row of a tensor, for example a
    /// softmax.
    Rows(Rows),
    /// Pools over the two middle axes of `[batch, height, width, channel]`.
    Window(Window),
    /// Convolves `[batch, height, width, channel]` with a filter. Depthwise, grouped and transposed
    /// convolutions are included, as are matrix products in the form of 1×1 convolutions. Integer sums wrap.
    Convolution(ConvolutionGeometry),
    /// Resamples the two middle axes of `[batch, height, width, channel]`.
    Resample(Resample),
    /// Reverses max pooling: the height and width of `[batch, height, width, channel]` are multiplied by
    /// `size`. The output is 0 except for `out[b, y·h + i, x·w + j, c] = values[b, y, x, c]` where
    /// `indices[b, y, x, c] = j·h + i`. Inputs: values and indices, both of the same shape.
    Unpool {
        /// Height `h` and width `w` of the windows, which do not overlap.
        size: [usize; 2],
    },
    /// Finds the index along an axis of the largest or smallest element, for each part of the axis. If several
    /// elements are equal, the first one counts. NaN counts only where a part has nothing else.
    ///
    /// Inputs: data and, optionally, integers of the data's shape apart from the axis: the indices to search,
    /// ascending and in range. There is one part then.
    ArgReduce {
        /// Whether to find the largest element rather than the smallest.
        largest: bool,
        /// The axis that is searched. The output's extent along it is `parts`.
        axis: usize,
        /// The number of parts of the axis, at least 1: part p begins at p × ⌈extent / parts⌉, or at the last
        /// element if that is less, and has at most ⌈extent / parts⌉ elements.
        parts: usize,
    },
    /// Selects slices of the data by index. An index out of range is clamped to the nearest valid one.
    /// Inputs: data and integer indices.
    Gather(Gather),
    /// Combines rows of updates with the rows of an operand at given places. Row `p` of the output is row `p` of the
    /// operand, with which the rows of updates whose place is `p` are combined one after the other, in their order.
    /// Rows whose place is not one of the output are left out. Integer sums and products wrap; floats accumulate in f32.
    ///
    /// Inputs: the operand, which broadcasts to the output `[rows, N]`, places `[K]` in ascending order, and updates
    /// `[K, N]`.
    Scatter {
        /// How a row of updates is combined with what is there; `None` if it replaces that. The larger or smaller one
        /// of two floats is the first one if either is NaN. There is no mean.
        combination: Option<ReduceOp>,
        /// The number of rows of the output.
        rows: usize,
    },
    /// Replaces a block of the operand. The block begins at these indices, each of which is clamped so that the block lies
    /// inside of the operand.
    ///
    /// Inputs: the operand, which has axes, the block, of the operand's rank and no longer along any axis, and the integer
    /// indices, one for each axis.
    Update,
    /// Computes the prefix sums of the elements along an axis. Integer sums wrap.
    Scan {
        /// The axis along which elements are summed.
        axis: usize,
        /// Whether the sum at a position excludes the element at that position.
        exclusive: bool,
        /// Whether the sum at a position covers the elements from there to the end of the axis, rather than
        /// those from the start of the axis to there.
        reverse: bool,
    },
    /// Finds the `count` largest elements along the innermost axis. The two outputs are these elements, in
    /// descending order, and their indices along the axis. Equal elements keep their order.
    TopK {
        /// The number of largest elements to find, at most the extent of the innermost axis.
        count: usize,
    },
    /// Selects boxes by non-maximum suppression, for each row of scores. Inputs: boxes `[N, 4]` and scores `[rows, N]`.
    /// Outputs: the indices of the selected boxes `[rows, most]`, in the order of selection, and their number `[rows]`.
    Suppress(Suppression),
    /// Multiplies a matrix `[M, K]` by a matrix `[K, N]`, the two innermost axes of the inputs, for each
    /// index of the outer axes, which are broadcast. Integer sums wrap.
    MatMul {
        /// Whether the left matrix is given as `[K, M]`, and whether the right matrix is given as `[N, K]`.
        transposed: [bool; 2],
        /// The order of the output's axes: axis `a` of the output is axis `order[a]` of the products. Empty if the
        /// order is that of the products.
        order: Vec<usize>,
    },
}

/// The operation by which a reduction combines elements. Float sums accumulate in f32, sums and products of integers wrap.
/// There is no mean of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Mean,
    Maximum,
    Minimum,
    Product,
}

impl ReduceOp {
    /// Whether the order in which floats, the values of an expression, are reduced changes the result by more than rounding:
    /// that of products, and of sums of terms that may be negative.
    #[must_use]
    pub fn depends_on_order(self, of: &Expression) -> bool {
        match self {
            ReduceOp::Sum | ReduceOp::Mean => !of.is_never_negative(),
            ReduceOp::Product => true,
            ReduceOp::Maximum | ReduceOp::Minimum => false,
        }
    }

    /// Whether the elements are added.
    #[must_use]
    pub fn is_sum(self) -> bool {
        matches!(self, ReduceOp::Sum | ReduceOp::Mean)
    }
}

/// The limits of [`Primitive::Suppress`]. The remaining box with the highest score is selected, the first one of equals,
/// until none is left; boxes that overlap it too much are dropped. A box is given by two opposite corners
/// `[y1, x1, y2, x2]`. Boxes whose score is NaN are never selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// Maximum number of boxes to select from a row.
    pub most: usize,
    /// Limit on the intersection over union of two selected boxes, each operation of which is rounded to f32.
    pub overlap: f32,
    /// Limit on the score of a selected box.
    pub score: f32,
    /// Whether boxes at a limit are kept, and zeros of both signs are equal scores. Else boxes at a limit are dropped,
    /// and the positive zero is the larger score.
    pub keeps_limits: bool,
    /// The index that is written after those of selected boxes.
    pub unused: i32,
}

impl Suppression {
    /// Returns the smallest rounded intersection over union by which a box is dropped.
    #[must_use]
    pub fn dropped_from(&self) -> f32 {
        if self.keeps_limits { self.overlap.next_up() } else { self.overlap }
    }
}

/// A pooling window. Elements outside of the input are left out: they are neither candidates for the maximum nor
/// counted in the mean's divisor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// How the elements in the window are reduced.
    pub kind: WindowKind,
    /// Height and width of the window, in input elements.
    pub size: [usize; 2],
    /// Vertical and horizontal distance between neighbouring windows, in input elements.
    pub strides: [usize; 2],
    /// Rows of padding above the input, and columns of padding to its left.
    pub before: [usize; 2],
    /// The output's height and width.
    pub output: [usize; 2],
}

/// How the elements in a window are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// Average pooling: the mean of the window's elements.
    Average,
    /// Max pooling: the largest of the window's elements.
    Maximum,
    /// Max pooling with two outputs: the largest of the window's elements, and the first position in the
    /// window where it occurs. Positions are numbered along the window's columns: column × height + row.
    ArgMaximum,
}

/// The parameters of a convolution: `out[b, y, x, o] = bias[o] + Σ filter[o, i, j, c] × in[b, y·stride +
/// i·dilation − before, …, group(o) + c]`. A transposed convolution uses the same relation with the roles of
/// input and output positions exchanged.
///
/// Inputs: data `[batch, height, width, channels]`, filter `[outputs, height, width, channels / groups]` and,
/// optionally, bias `[outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionGeometry {
    /// Vertical and horizontal stride, in elements.
    pub strides: [usize; 2],
    /// Vertical and horizontal dilation: the distance between neighbouring filter taps, in elements.
    pub dilations: [usize; 2],
    /// Rows of padding above the input, and columns of padding to its left. For a transposed convolution, the
    /// rows and columns that are cropped from the output there.
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
    /// Returns the geometry of a pointwise convolution with one group, to an image of this height and width.
    #[must_use]
    pub fn pointwise(output: [usize; 2]) -> Self {
        let (strides, dilations, before) = ([1; 2], [1; 2], [0; 2]);
        Self { strides, dilations, before, output, groups: 1, transposed: false, zero_points: [0; 2] }
    }

    /// Whether the convolution is pointwise: with data and filter of these shapes, each output pixel depends
    /// only on the input pixel at the same position.
    ///
    /// # Panics
    ///
    /// If a shape has fewer than three axes.
    #[must_use]
    pub fn is_pointwise(&self, data: &[usize], filter: &[usize]) -> bool {
        let is_in_place = self.strides == [1, 1] && self.before == [0, 0] && data[1..3] == self.output;
        filter[1..3] == [1, 1] && is_in_place && !self.transposed
    }

    /// Whether the convolution is depthwise with multiplier 1: with data and filter of these shapes, each
    /// input channel is a group of its own with one output channel.
    ///
    /// # Panics
    ///
    /// If `data` has fewer than four axes or `filter` has none.
    #[must_use]
    pub fn is_depthwise(&self, data: &[usize], filter: &[usize]) -> bool {
        self.groups == data[3] && filter[0] == data[3] && !self.transposed
    }
}

/// The axes that [`Primitive::Gather`] indexes. With `data = [B…, O…, N…, I…]` and `indices = [B…, J…, n]`,
/// `out[b…, o…, j…, i…] = data[b…, o…, indices[b…, j…, 0], …, indices[b…, j…, n - 1], i…]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The number of leading axes `B` that data and indices share.
    pub batch: usize,
    /// The first indexed axis `N` of the data, at least `batch`. The extent of the innermost axis of the indices is the
    /// number of indexed axes.
    pub axis: usize,
}

/// The parameters of [`Primitive::Resample`], which resizes height and width.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resample {
    /// How the value at a point between input elements is computed.
    pub sampling: Sampling,
    /// The output's height and width.
    pub output: [usize; 2],
    /// Whether the output's corner elements are sampled at the input's corner elements (TensorFlow Lite's
    /// `align_corners`).
    pub align_corners: bool,
    /// Whether positions are scaled between the centres of pixels, at an offset of 0.5, rather than between
    /// their corners (TensorFlow Lite's `half_pixel_centers`).
    pub half_pixel_centers: bool,
}

/// How the value at a point between input elements is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Interpolates linearly between the four surrounding elements.
    Bilinear,
    /// Takes one input element: the scaled coordinate is rounded if corners are aligned, otherwise rounded
    /// down.
    Nearest,
}

impl Resample {
    /// Returns the number of input elements per output element along height and width. `input` is the input's
    /// height and width. Source: TensorFlow Lite's resize kernels.
    ///
    /// # Panics
    ///
    /// In builds with overflow checks, if `align_corners` is set and an empty input axis has more than one output
    /// element.
    #[must_use]
    pub fn scales(&self, input: [usize; 2]) -> [f32; 2] {
        [0, 1].map(|axis| {
            let (from, to) = (input[axis], self.output[axis]);
            if self.align_corners && to > 1 { (from - 1) as f32 / (to - 1) as f32 } else { from as f32 / to as f32 }
        })
    }
}

impl Primitive {
    /// Returns the name of the primitive in snake case, for reports.
    #[must_use]
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
            Primitive::Scatter { .. } => "scatter",
            Primitive::Update => "update",
            Primitive::Scan { .. } => "scan",
            Primitive::TopK { .. } => "top_k",
            Primitive::Suppress(_) => "suppress",
            Primitive::MatMul { .. } => "matmul",
        }
    }

    /// Returns the types and shapes of the outputs for inputs of these types and shapes.
    ///
    /// # Errors
    ///
    /// If the primitive does not accept these inputs. The error text says why.
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
            Primitive::Reduce { reduction, axes } => {
                arity(1)?;
                if *reduction == ReduceOp::Mean {
                    float_shape(0)?;
                }
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
            Primitive::ArgReduce { axis, parts, .. } => {
                let mut extents = inputs.first().ok_or("no inputs")?.1.to_vec();
                let extent = std::mem::replace(extents.get_mut(*axis).ok_or("no such axis")?, *parts);
                if let Some((scalar, places)) = inputs.get(1) {
                    let other = |(axis_of, extent): (usize, &usize)| axis_of == *axis || *extent == extents[axis_of];
                    let fits = places.rank() == extents.len() && places.iter().enumerate().all(other);
                    if *scalar != Scalar::I32 || !fits || places[*axis] == 0 || *parts != 1 {
                        return Err(format!("{places} are no places along axis {axis} of {}", inputs[0].1));
                    }
                }
                if *parts == 0 || extent == 0 || inputs.len() > 2 {
                    return Err(format!("{parts} parts of an axis of {extent}, with {} inputs", inputs.len()));
                }
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
            Primitive::Scatter { combination, rows } => {
                arity(3)?;
                let [(scalar, operand), (of_places, places), (of_updates, updates)] = [0, 1, 2].map(|at| inputs[at]);
                let &[count, width] = updates.extents() else { return Err(format!("{updates} is no list of rows")) };
                let output = Shape::from([*rows, width]);
                broadcast_all(&[(scalar, operand)], &output)?;
                let fits = of_places == Scalar::I32 && places.extents() == [count] && of_updates == scalar;
                if !fits || *combination == Some(ReduceOp::Mean) {
                    return Err(format!("{combination:?} of rows {updates} at places {places} of {operand}"));
                }
                Ok(vec![(scalar, output)])
            }
            Primitive::Update => {
                arity(3)?;
                let [(scalar, operand), (of_block, block), (of_starts, starts)] = [0, 1, 2].map(|at| inputs[at]);
                let fits =
                    operand.rank() == block.rank() && operand.iter().zip(block.iter()).all(|(all, part)| part <= all);
                if !fits
                    || operand.rank() == 0
                    || of_block != scalar
                    || of_starts != Scalar::I32
                    || starts.extents() != [operand.rank()]
                {
                    return Err(format!("a block of {block} at {starts} indices of {operand}"));
                }
                Ok(vec![(scalar, operand.clone())])
            }
            Primitive::Scan { axis, .. } => {
                arity(1)?;
                let (scalar, shape) = inputs[0];
                shape.get(*axis).ok_or("no such axis")?;
                Ok(vec![(scalar, shape.clone())])
            }
            Primitive::TopK { count } => {
                arity(1)?;
                let mut extents = inputs[0].1.to_vec();
                match extents.last_mut() {
                    Some(last) if *last >= *count => *last = *count,
                    _ => return Err(format!("there are not {count} elements in {}", inputs[0].1)),
                }
                Ok(vec![(inputs[0].0, extents.clone().into()), (Scalar::I32, extents.into())])
            }
            Primitive::Suppress(suppression) => {
                arity(2)?;
                let (boxes, scores) = (float_shape(0)?, float_shape(1)?);
                match (&**boxes, &**scores) {
                    (&[count, 4], &[rows, scores]) if count == scores => {
                        let places = Shape::from([rows, suppression.most]);
                        Ok(vec![(Scalar::I32, places), (Scalar::I32, [rows].into())])
                    }
                    _ => Err(format!("boxes of shape {boxes} and scores of shape {scores}")),
                }
            }
            Primitive::MatMul { transposed, order } => {
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
                let products = Shape::from([outer.extents(), &[rows, columns]].concat());
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !order.is_empty() && sorted.iter().copied().ne(0..products.rank()) {
                    return Err(format!("{order:?} is no order of the axes of {products}"));
                }
                Ok(vec![(scalar, ordered(&products, order))])
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

/// Returns the extents in the given order; an empty order leaves them as they are.
pub(crate) fn ordered(shape: &Shape, order: &[usize]) -> Shape {
    if order.is_empty() { shape.clone() } else { order.iter().map(|axis| shape[*axis]).collect() }
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
