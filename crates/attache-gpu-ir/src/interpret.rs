//! The reference interpreter, which runs a [`Program`] on the CPU. It specifies the meaning of each primitive
//! with readable loops, so it favours clarity over speed.

use std::borrow::Borrow;

use attache_base::{Shape, broadcast_strides, strides};

use crate::primitive::ordered;
use crate::{
    ConvolutionGeometry, Expression, Gather, IndexMap, IntExpression, InvalidProgram, Primitive, Program, ReduceOp,
    Resample, RowStep, Rows, Sampling, Scalar, Source, Suppression, Window, WindowKind,
};

/// A tensor in host memory, as input or output of [`interpret`].
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// The extent of each axis, outermost first.
    pub shape: Shape,
    /// The elements in row-major order. f64 represents f32 and 32-bit integers exactly.
    pub elements: Vec<f64>,
}

impl HostTensor {
    /// Creates a tensor of this shape from its elements in row-major order.
    ///
    /// # Panics
    ///
    /// If the number of elements is not that of the shape.
    pub fn new(shape: impl Into<Shape>, elements: Vec<f64>) -> Self {
        let shape = shape.into();
        assert_eq!(shape.elements(), elements.len(), "a tensor has as many elements as its shape");
        Self { shape, elements }
    }

    fn from_fn(shape: impl Into<Shape>, mut element: impl FnMut(&[usize]) -> f64) -> Self {
        let shape = shape.into();
        let mut elements = Vec::with_capacity(shape.elements());
        let mut coordinates = vec![0; shape.rank()];
        for _ in 0..shape.elements() {
            elements.push(element(&coordinates));
            for axis in (0..shape.rank()).rev() {
                coordinates[axis] += 1;
                if coordinates[axis] < shape[axis] {
                    break;
                }
                coordinates[axis] = 0;
            }
        }
        Self { shape, elements }
    }

    fn at(&self, coordinates: &[usize]) -> f64 {
        self.elements[coordinates.iter().zip(strides(&self.shape)).map(|(c, s)| c * s).sum::<usize>()]
    }
}

/// Runs a program on the CPU and returns its outputs, in the program's order. `inputs` are in the order of
/// the program's inputs. Sums are computed in f64, and float results of each step are rounded to f32.
///
/// # Errors
///
/// If the program is invalid or an input is missing.
pub fn interpret(program: &Program, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, InvalidProgram> {
    program.validate()?;
    let mut values: Vec<Option<HostTensor>> = vec![None; program.values.len()];
    for (id, tensor) in program.inputs.iter().zip(inputs) {
        values[id.index()] = Some(tensor.clone());
    }
    for (value, slot) in program.values.iter().zip(&mut values) {
        if let Source::Constant(constant) = &value.source {
            let elements = match value.scalar {
                Scalar::F32 => value.floats().map(|v| v.iter().map(|x| f64::from(*x)).collect()),
                Scalar::I32 => constant.integers().map(|v| v.iter().map(|x| *x as f64).collect()),
            };
            *slot = elements.map(|elements| HostTensor { shape: value.shape.clone(), elements });
        }
    }
    let missing = |name: &'static str| InvalidProgram { primitive: name, reason: "an input has no value".into() };
    for step in &program.steps {
        let name = step.primitive.name();
        let operands: Option<Vec<&HostTensor>> = step.inputs.iter().map(|id| values[id.index()].as_ref()).collect();
        let scalar = step.outputs.first().map_or(Scalar::F32, |id| program.value(*id).scalar);
        let results = run(&step.primitive, scalar, &operands.ok_or_else(|| missing(name))?);
        for (id, mut result) in step.outputs.iter().zip(results) {
            match program.value(*id).scalar {
                Scalar::F32 => result.elements.iter_mut().for_each(|x| *x = f64::from(*x as f32)),
                // Integer sums wrap.
                Scalar::I32 if sums(&step.primitive) => {
                    result.elements.iter_mut().for_each(|x| *x = f64::from(*x as i64 as i32));
                }
                Scalar::I32 => result.elements.iter_mut().for_each(|x| *x = f64::from(*x as i32)),
            }
            values[id.index()] = Some(result);
        }
    }
    program.outputs.iter().map(|id| values[id.index()].clone().ok_or_else(|| missing("output"))).collect()
}

fn sums(primitive: &Primitive) -> bool {
    use Primitive::{Convolution, MatMul, Reduce, Scan, Scatter};
    matches!(primitive, Convolution(_) | Reduce { .. } | MatMul { .. } | Scan { .. } | Scatter { .. })
}

/// Runs a primitive whose first output has elements of type `scalar`.
fn run(primitive: &Primitive, scalar: Scalar, inputs: &[&HostTensor]) -> Vec<HostTensor> {
    vec![match primitive {
        Primitive::Map { expression, shape, .. } => map(expression, shape, inputs),
        Primitive::IntMap { expression, shape } => int_map(expression, shape, inputs),
        Primitive::Reshape(shape) => HostTensor::new(shape.clone(), inputs[0].elements.clone()),
        Primitive::IndexMap(index_map) => move_elements(index_map, inputs[0]),
        Primitive::Concatenate { axis } => concatenate(*axis, inputs),
        Primitive::Reduce { reduction: ReduceOp::Product, axes } if scalar == Scalar::I32 => {
            int_product(axes, inputs[0])
        }
        Primitive::Reduce { reduction, axes } => reduce(*reduction, axes, inputs[0]),
        Primitive::Rows(shape) => rows(shape, inputs),
        Primitive::Window(shape) => return window(shape, inputs[0]),
        Primitive::Convolution(convolution) => convolve(convolution, inputs),
        Primitive::Resample(shape) => resample(shape, inputs[0]),
        Primitive::Unpool { size } => unpool(*size, inputs[0], inputs[1]),
        Primitive::ArgReduce { largest, axis, parts } => arg_reduce(*largest, [*axis, *parts], inputs),
        Primitive::Gather(shape) => gather(shape, inputs[0], inputs[1]),
        Primitive::Scatter { combination, rows } => {
            scatter(*combination, *rows, scalar, [inputs[0], inputs[1], inputs[2]])
        }
        Primitive::Update => update([inputs[0], inputs[1], inputs[2]]),
        Primitive::Scan { axis, exclusive, reverse } => scan(*axis, *exclusive, *reverse, inputs[0]),
        Primitive::TopK { count } => return top_k(*count, inputs[0]),
        Primitive::Suppress(limits) => return suppress(limits, [inputs[0], inputs[1]]),
        Primitive::MatMul { transposed, order } => matmul(*transposed, order, [inputs[0], inputs[1]]),
    }]
}

fn map(expression: &Expression, shape: &Shape, inputs: &[impl Borrow<HostTensor>]) -> HostTensor {
    let inputs: Vec<&HostTensor> = inputs.iter().map(Borrow::borrow).collect();
    let steps: Vec<_> = inputs.iter().map(|input| broadcast_strides(&input.shape, shape)).collect();
    HostTensor::from_fn(shape.clone(), |coordinates| {
        let offset = |steps: &[usize]| coordinates.iter().zip(steps).map(|(c, s)| c * s).sum::<usize>();
        let elements: Vec<f32> = inputs.iter().zip(&steps).map(|(t, s)| t.elements[offset(s)] as f32).collect();
        f64::from(expression.evaluate(&elements))
    })
}

fn int_map(expression: &IntExpression, shape: &Shape, inputs: &[&HostTensor]) -> HostTensor {
    let steps: Vec<_> = inputs.iter().map(|input| broadcast_strides(&input.shape, shape)).collect();
    HostTensor::from_fn(shape.clone(), |coordinates| {
        let offset = |steps: &[usize]| coordinates.iter().zip(steps).map(|(c, s)| c * s).sum::<usize>();
        let elements: Vec<i32> = inputs.iter().zip(&steps).map(|(t, s)| t.elements[offset(s)] as i32).collect();
        f64::from(expression.evaluate(&elements))
    })
}

fn move_elements(map: &IndexMap, input: &HostTensor) -> HostTensor {
    HostTensor::from_fn(map.output.clone(), |out| {
        let coordinates: Option<Vec<usize>> = (map.coordinates.iter().zip(input.shape.iter()))
            .map(|(index, extent)| usize::try_from(index.evaluate(out)).ok().filter(|c| c < extent))
            .collect();
        coordinates.map_or(f64::from(map.fill.unwrap_or(0.0)), |coordinates| input.at(&coordinates))
    })
}

fn update([operand, block, starts]: [&HostTensor; 3]) -> HostTensor {
    let spare = operand.shape.iter().zip(block.shape.iter()).map(|(all, part)| (all - part) as f64);
    let starts: Vec<usize> = starts.elements.iter().zip(spare).map(|(x, most)| x.clamp(0.0, most) as usize).collect();
    HostTensor::from_fn(operand.shape.clone(), |out| {
        let within =
            |((place, start), part): ((&usize, &usize), &usize)| place.checked_sub(*start).filter(|at| at < part);
        let at: Option<Vec<usize>> = out.iter().zip(&starts).zip(block.shape.iter()).map(within).collect();
        at.map_or_else(|| operand.at(out), |at| block.at(&at))
    })
}

fn concatenate(axis: usize, inputs: &[&HostTensor]) -> HostTensor {
    let mut extents = inputs[0].shape.to_vec();
    extents[axis] = inputs.iter().map(|input| input.shape[axis]).sum();
    HostTensor::from_fn(extents, |out| {
        let mut coordinates = out.to_vec();
        for input in inputs {
            if coordinates[axis] < input.shape[axis] {
                return input.at(&coordinates);
            }
            coordinates[axis] -= input.shape[axis];
        }
        unreachable!("the output is as long as its inputs together")
    })
}

fn reduce(reduction: ReduceOp, axes: &[usize], input: &HostTensor) -> HostTensor {
    let folded = axes.iter().map(|axis| input.shape[*axis]).product::<usize>() as f64;
    fold(axes, input, |elements| match reduction {
        ReduceOp::Sum => elements.iter().sum(),
        ReduceOp::Mean => elements.iter().sum::<f64>() / folded,
        ReduceOp::Maximum => elements.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)),
        ReduceOp::Minimum => elements.iter().fold(f64::INFINITY, |a, b| a.min(*b)),
        ReduceOp::Product => elements.iter().product(),
    })
}

/// Multiplies 32-bit integers along axes. Products wrap.
fn int_product(axes: &[usize], input: &HostTensor) -> HostTensor {
    fold(axes, input, |elements| f64::from(elements.iter().fold(1i32, |a, b| a.wrapping_mul(*b as i32))))
}

/// Reduces the elements along axes to one, for each index of the other axes.
fn fold(axes: &[usize], input: &HostTensor, of: impl Fn(&[f64]) -> f64) -> HostTensor {
    let mut extents = input.shape.to_vec();
    axes.iter().for_each(|axis| extents[*axis] = 1);
    let window: Shape = (0..extents.len()).map(|a| if axes.contains(&a) { input.shape[a] } else { 1 }).collect();
    HostTensor::from_fn(extents, |out| {
        let covered = HostTensor::from_fn(window.clone(), |inner| {
            let coordinates: Vec<usize> = out.iter().zip(inner).map(|(o, i)| o + i).collect();
            input.at(&coordinates)
        });
        of(&covered.elements)
    })
}

fn rows(rows: &Rows, inputs: &[&HostTensor]) -> HostTensor {
    let axes: Vec<usize> = rows.axes.clone().collect();
    let mut known: Vec<HostTensor> = inputs.iter().map(|input| (*input).clone()).collect();
    for step in &rows.steps {
        known.push(match step {
            RowStep::Fold(reduction, expression) => reduce(*reduction, &axes, &map(expression, &rows.shape, &known)),
            RowStep::Map(expression) => map(expression, &rows.folded(), &known),
            RowStep::Across(reduction, expression) => {
                reduce(*reduction, &[rows.axes.start - 1], &map(expression, &rows.folded(), &known))
            }
        });
    }
    map(&rows.result, &rows.output(), &known)
}

fn window(window: &Window, input: &HostTensor) -> Vec<HostTensor> {
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| input.shape[axis]);
    let shape = [batch, window.output[0], window.output[1], channels];
    let mut indices = Vec::new();
    let values = HostTensor::from_fn(shape, |out| {
        let (mut sum, mut count, mut best, mut index) = (0.0, 0usize, f64::NEG_INFINITY, 0);
        for (j, i) in (0..window.size[1]).flat_map(|j| (0..window.size[0]).map(move |i| (j, i))) {
            let y = (out[1] * window.strides[0] + i).wrapping_sub(window.before[0]);
            let x = (out[2] * window.strides[1] + j).wrapping_sub(window.before[1]);
            if y >= height || x >= width {
                continue;
            }
            let element = input.at(&[out[0], y, x, out[3]]);
            (sum, count) = (sum + element, count + 1);
            if element > best {
                (best, index) = (element, j * window.size[0] + i);
            }
        }
        indices.push(index as f64);
        match window.kind {
            WindowKind::Average => sum / count as f64,
            WindowKind::Maximum | WindowKind::ArgMaximum => best,
        }
    });
    match window.kind {
        WindowKind::ArgMaximum => vec![values, HostTensor::new(shape, indices)],
        WindowKind::Average | WindowKind::Maximum => vec![values],
    }
}

fn convolve(convolution: &ConvolutionGeometry, inputs: &[&HostTensor]) -> HostTensor {
    let (data, filter) = (inputs[0], inputs[1]);
    let [batch, height, width, channels] = [0, 1, 2, 3].map(|axis| data.shape[axis]);
    let [outputs, rows, columns, depth] = [0, 1, 2, 3].map(|axis| filter.shape[axis]);
    let per_group = (outputs / convolution.groups).max(1);
    debug_assert_eq!(depth * convolution.groups, channels);
    let [data_zero, filter_zero] = convolution.zero_points.map(f64::from);
    // Returns the input position that filter tap `tap` reads for output position `o` along `axis`; `None` if
    // it is outside of the input or, if transposed, between input positions.
    let position = |o: usize, tap: usize, axis: usize, extent: usize| {
        let (stride, before) = (convolution.strides[axis], convolution.before[axis]);
        let tap = tap * convolution.dilations[axis];
        if convolution.transposed {
            let offset = (o + before).checked_sub(tap)?;
            Some(offset / stride).filter(|p| offset % stride == 0 && *p < extent)
        } else {
            (o * stride + tap).checked_sub(before).filter(|p| *p < extent)
        }
    };
    let [out_height, out_width] = convolution.output;
    HostTensor::from_fn([batch, out_height, out_width, outputs], |out| {
        let mut sum = inputs.get(2).map_or(0.0, |bias| bias.elements[out[3]]);
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let (Some(y), Some(x)) = (position(out[1], i, 0, height), position(out[2], j, 1, width)) else { continue };
            for c in 0..depth {
                let weight = filter.at(&[out[3], i, j, c]) - filter_zero;
                sum += weight * (data.at(&[out[0], y, x, out[3] / per_group * depth + c]) - data_zero);
            }
        }
        sum
    })
}

fn resample(resample: &Resample, input: &HostTensor) -> HostTensor {
    let size = [input.shape[1], input.shape[2]];
    let scales = resample.scales(size);
    let [height, width] = resample.output;
    HostTensor::from_fn([input.shape[0], height, width, input.shape[3]], |out| {
        let at = |y: usize, x: usize| input.at(&[out[0], y, x, out[3]]);
        match resample.sampling {
            Sampling::Nearest => {
                let offset = if resample.half_pixel_centers { 0.5 } else { 0.0 };
                let [y, x] = [0, 1].map(|axis| {
                    let point = (out[1 + axis] as f32 + offset) * scales[axis];
                    let point = if resample.align_corners { point.round() } else { point.floor() };
                    (point.max(0.0) as usize).min(size[axis] - 1)
                });
                at(y, x)
            }
            Sampling::Bilinear => {
                let [(y0, y1, fy), (x0, x1, fx)] = [0, 1].map(|axis| {
                    let point = if resample.half_pixel_centers {
                        (out[1 + axis] as f32 + 0.5) * scales[axis] - 0.5
                    } else {
                        out[1 + axis] as f32 * scales[axis]
                    };
                    let low = point.floor().max(0.0) as usize;
                    let high = (point.ceil().max(0.0) as usize).min(size[axis] - 1);
                    (low.min(size[axis] - 1), high, f64::from(point) - low as f64)
                });
                let top = at(y0, x0) * (1.0 - fx) + at(y0, x1) * fx;
                let bottom = at(y1, x0) * (1.0 - fx) + at(y1, x1) * fx;
                top * (1.0 - fy) + bottom * fy
            }
        }
    })
}

fn unpool([height, width]: [usize; 2], values: &HostTensor, indices: &HostTensor) -> HostTensor {
    let shape = [values.shape[0], values.shape[1] * height, values.shape[2] * width, values.shape[3]];
    HostTensor::from_fn(shape, |out| {
        let window = [out[0], out[1] / height, out[2] / width, out[3]];
        let index = (out[2] % width * height + out[1] % height) as f64;
        if indices.at(&window) == index { values.at(&window) } else { 0.0 }
    })
}

fn arg_reduce(largest: bool, [axis, parts]: [usize; 2], inputs: &[&HostTensor]) -> HostTensor {
    let extent = inputs[0].shape[axis];
    let each = extent.div_ceil(parts);
    let mut extents = inputs[0].shape.to_vec();
    extents[axis] = parts;
    let is_better = |new: f64, best: f64| match largest {
        true => new > best || (best.is_nan() && !new.is_nan()),
        false => new < best || (best.is_nan() && !new.is_nan()),
    };
    HostTensor::from_fn(extents, |out| {
        let mut coordinates = out.to_vec();
        let first = (out[axis] * each).min(extent - 1);
        let places: Vec<usize> = match inputs.get(1) {
            None => (first..(first + each).min(extent)).collect(),
            Some(places) => (0..places.shape[axis])
                .map(|at| {
                    coordinates[axis] = at;
                    places.at(&coordinates) as usize
                })
                .collect(),
        };
        let mut element = |place: usize| {
            coordinates[axis] = place;
            inputs[0].at(&coordinates)
        };
        let best = places
            .iter()
            .map(|place| (*place, element(*place)))
            .reduce(|best, new| if is_better(new.1, best.1) { new } else { best });
        best.map_or(0, |(place, _)| place) as f64
    })
}

fn gather(gather: &Gather, data: &HostTensor, indices: &HostTensor) -> HostTensor {
    let named = *indices.shape.last().expect("indices have an axis");
    let (batch, axis) = (gather.batch, gather.axis);
    let inner = indices.shape.rank() - 1 - batch;
    let parts = [&data.shape[..axis], &indices.shape[batch..batch + inner], &data.shape[axis + named..]];
    HostTensor::from_fn(parts.concat(), |out| {
        let mut which = [&out[..batch], &out[axis..axis + inner], &[0]].concat();
        let mut coordinates = out[..axis].to_vec();
        for component in 0..named {
            *which.last_mut().expect("one more axis") = component;
            let most = data.shape[axis + component] as f64 - 1.0;
            coordinates.push(indices.at(&which).clamp(0.0, most) as usize);
        }
        coordinates.extend(&out[axis + inner..]);
        data.at(&coordinates)
    })
}

fn scatter(
    combination: Option<ReduceOp>,
    rows: usize,
    scalar: Scalar,
    [operand, places, updates]: [&HostTensor; 3],
) -> HostTensor {
    let combined = |old: f64, new: f64| {
        let taken = |is_new: bool| if is_new { new } else { old };
        match (combination, scalar) {
            (None, _) => new,
            (Some(ReduceOp::Maximum), _) => taken(old < new),
            (Some(ReduceOp::Minimum), _) => taken(new < old),
            (Some(ReduceOp::Product), Scalar::F32) => old * new,
            (Some(ReduceOp::Product), Scalar::I32) => f64::from((old as i32).wrapping_mul(new as i32)),
            (Some(ReduceOp::Sum | ReduceOp::Mean), _) => old + new,
        }
    };
    let output = Shape::from([rows, updates.shape[1]]);
    let steps = broadcast_strides(&operand.shape, &output);
    HostTensor::from_fn(output, |out| {
        let start = operand.elements[out.iter().zip(&steps).map(|(c, s)| c * s).sum::<usize>()];
        let own = places.elements.iter().enumerate().filter(|(_, place)| **place == out[0] as f64);
        own.map(|(row, _)| updates.at(&[row, out[1]])).fold(start, combined)
    })
}

fn scan(axis: usize, exclusive: bool, reverse: bool, input: &HostTensor) -> HostTensor {
    HostTensor::from_fn(input.shape.clone(), |out| {
        let (own, extent) = (out[axis], input.shape[axis]);
        let range = if reverse { own..extent } else { 0..own + 1 };
        let mut coordinates = out.to_vec();
        let element = |at: usize| {
            coordinates[axis] = at;
            input.at(&coordinates)
        };
        range.filter(|at| !exclusive || *at != own).map(element).sum()
    })
}

fn top_k(count: usize, input: &HostTensor) -> Vec<HostTensor> {
    let extent = *input.shape.last().expect("the input has an axis");
    let mut extents = input.shape.to_vec();
    *extents.last_mut().expect("the input has an axis") = count;
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for row in input.elements.chunks_exact(extent.max(1)) {
        let mut order: Vec<usize> = (0..extent).collect();
        // The sum makes zeros of both signs equal.
        order.sort_by(|a, b| (row[*b] + 0.0).total_cmp(&(row[*a] + 0.0)));
        values.extend(order[..count].iter().map(|index| row[*index]));
        indices.extend(order[..count].iter().map(|index| *index as f64));
    }
    vec![HostTensor::new(extents.clone(), values), HostTensor::new(extents, indices)]
}

fn suppress(limits: &Suppression, [boxes, scores]: [&HostTensor; 2]) -> Vec<HostTensor> {
    let (rows, most) = (scores.shape[0], limits.most);
    let boxes: Vec<f32> = boxes.elements.iter().map(|element| *element as f32).collect();
    let (boxes, _) = boxes.as_chunks::<4>();
    let (mut places, mut counts) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let scores = &scores.elements[row * boxes.len()..][..boxes.len()];
        let is_kept = |score: f32| if limits.keeps_limits { score >= limits.score } else { score > limits.score };
        let mut left: Vec<usize> = (0..boxes.len()).filter(|index| is_kept(scores[*index] as f32)).collect();
        // The sum makes zeros of both signs equal.
        let key = |index: usize| if limits.keeps_limits { scores[index] + 0.0 } else { scores[index] };
        left.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
        let mut chosen = 0;
        while chosen < most && !left.is_empty() {
            let index = left.remove(0);
            let is_dropped = |other: &usize| overlap(&boxes[index], &boxes[*other]) >= limits.dropped_from();
            left.retain(|other| !is_dropped(other));
            places.push(index as f64);
            chosen += 1;
        }
        places.resize((row + 1) * most, f64::from(limits.unused));
        counts.push(chosen as f64);
    }
    vec![HostTensor::new([rows, most], places), HostTensor::new([rows], counts)]
}

/// Returns the intersection over union of two boxes; 0 where a box has no area.
fn overlap(left: &[f32; 4], right: &[f32; 4]) -> f32 {
    let sorted = |[y1, x1, y2, x2]: [f32; 4]| [y1.min(y2), x1.min(x2), y1.max(y2), x1.max(x2)];
    let area = |[y1, x1, y2, x2]: [f32; 4]| (y2 - y1) * (x2 - x1);
    let (left, right) = (sorted(*left), sorted(*right));
    if !(area(left) > 0.0 && area(right) > 0.0) {
        return 0.0;
    }
    let height = (left[2].min(right[2]) - left[0].max(right[0])).max(0.0);
    let width = (left[3].min(right[3]) - left[1].max(right[1])).max(0.0);
    height * width / (area(left) + area(right) - height * width)
}

fn matmul(transposed: [bool; 2], order: &[usize], [left, right]: [&HostTensor; 2]) -> HostTensor {
    let outer = |tensor: &HostTensor| Shape::from(&tensor.shape[..tensor.shape.rank() - 2]);
    let shape = outer(left).broadcast(&outer(right)).expect("checked");
    let extent = |tensor: &HostTensor, from_end: usize| tensor.shape[tensor.shape.rank() - from_end];
    let rows = extent(left, if transposed[0] { 1 } else { 2 });
    let depth = extent(left, if transposed[0] { 2 } else { 1 });
    let columns = extent(right, if transposed[1] { 2 } else { 1 });
    let output: Shape = shape.iter().copied().chain([rows, columns]).collect();
    HostTensor::from_fn(ordered(&output, order), |out| {
        let mut place = out.to_vec();
        order.iter().zip(out).for_each(|(axis, at)| place[*axis] = *at);
        let (outer, inner) = place.split_at(place.len() - 2);
        let element = |tensor: &HostTensor, swap: bool, row: usize, column: usize| {
            let own = &tensor.shape[..tensor.shape.rank() - 2];
            let lead = &outer[outer.len() - own.len()..];
            let mut coordinates: Vec<usize> =
                own.iter().zip(lead).map(|(extent, at)| if *extent == 1 { 0 } else { *at }).collect();
            coordinates.extend(if swap { [column, row] } else { [row, column] });
            tensor.at(&coordinates)
        };
        (0..depth).map(|k| element(left, transposed[0], inner[0], k) * element(right, transposed[1], k, inner[1])).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(primitive: Primitive, inputs: &[(Scalar, HostTensor)]) -> Vec<f64> {
        let mut program = Program::default();
        let ids: Vec<_> = inputs.iter().map(|(scalar, t)| program.input(*scalar, t.shape.clone())).collect();
        program.outputs = program.step(primitive, &ids, 0).unwrap();
        let tensors: Vec<_> = inputs.iter().map(|(_, t)| t.clone()).collect();
        interpret(&program, &tensors).unwrap().remove(0).elements
    }

    fn float(shape: &[usize], elements: &[f64]) -> (Scalar, HostTensor) {
        (Scalar::F32, HostTensor::new(shape, elements.to_vec()))
    }

    #[test]
    fn a_transposed_convolution_scatters_its_input() {
        let convolution = ConvolutionGeometry {
            strides: [1, 2],
            dilations: [1, 1],
            before: [0, 0],
            output: [1, 5],
            groups: 1,
            transposed: true,
            zero_points: [0, 0],
        };
        let inputs = [float(&[1, 1, 2, 1], &[1.0, 10.0]), float(&[1, 1, 3, 1], &[1.0, 2.0, 3.0])];
        assert_eq!(one(Primitive::Convolution(convolution), &inputs), [1.0, 2.0, 13.0, 20.0, 30.0]);
    }

    #[test]
    fn unpooling_puts_each_element_back_at_its_index() {
        let values = HostTensor::new([1, 2, 2, 1], vec![5.0, 6.0, 7.0, 8.0]);
        let window =
            Window { kind: WindowKind::ArgMaximum, size: [2, 2], strides: [2, 2], before: [0, 0], output: [1, 1] };
        let mut program = Program::default();
        let input = program.input(Scalar::F32, values.shape.clone());
        let pooled = program.step(Primitive::Window(window), &[input], 0).unwrap();
        program.outputs = program.step(Primitive::Unpool { size: [2, 2] }, &pooled, 0).unwrap();
        assert_eq!(interpret(&program, &[values]).unwrap()[0].elements, [0.0, 0.0, 0.0, 8.0]);
        let indices = (Scalar::I32, HostTensor::new([1, 1, 1, 1], vec![1.0]));
        let unpooled = one(Primitive::Unpool { size: [2, 2] }, &[float(&[1, 1, 1, 1], &[3.0]), indices]);
        assert_eq!(unpooled, [0.0, 0.0, 3.0, 0.0], "index 1 is the second row of the first column");
    }

    #[test]
    fn rows_are_combined_at_their_places() {
        let inputs = |operand| {
            let places = (Scalar::I32, HostTensor::new([4], vec![-1.0, 1.0, 1.0, 3.0]));
            [operand, places, float(&[4, 2], &[9.0, 9.0, 1.0, 2.0, f64::NAN, 4.0, 9.0, 9.0])]
        };
        let of = |combination, operand| one(Primitive::Scatter { combination, rows: 3 }, &inputs(operand));
        let last = of(Some(ReduceOp::Minimum), float(&[], &[3.0]));
        assert_eq!(last, [3.0, 3.0, 1.0, 2.0, 3.0, 3.0]);
        let operand = float(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(of(Some(ReduceOp::Maximum), operand.clone()), [0.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
        assert_eq!(of(None, operand)[3..], [4.0, 4.0, 5.0]);
    }

    #[test]
    fn averages_leave_padding_out() {
        let window =
            Window { kind: WindowKind::Average, size: [1, 3], strides: [1, 1], before: [0, 1], output: [1, 3] };
        assert_eq!(one(Primitive::Window(window), &[float(&[1, 1, 3, 1], &[1.0, 2.0, 6.0])]), [1.5, 3.0, 4.0]);
    }

    #[test]
    fn parts_of_an_axis_are_searched_apart() {
        let data = || float(&[5, 2], &[f64::NAN, 3.0, 1.0, f64::NAN, 7.0, 3.0, 7.0, f64::NAN, f64::NAN, -1.0]);
        let search = |largest, parts| Primitive::ArgReduce { largest, axis: 0, parts };
        assert_eq!(one(search(true, 1), &[data()]), [2.0, 0.0]);
        assert_eq!(one(search(false, 3), &[data()]), [1.0, 0.0, 2.0, 2.0, 4.0, 4.0]);
        let places = (Scalar::I32, HostTensor::new([2, 2], vec![1.0, 1.0, 3.0, 4.0]));
        assert_eq!(one(search(true, 1), &[data(), places]), [3.0, 4.0]);
    }

    #[test]
    fn a_step_that_does_not_fit_is_rejected() {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, [2, 3].into());
        let error = program.step(Primitive::Reshape([4].into()), &[input], 0).unwrap_err();
        assert_eq!(error.to_string(), "reshape: [2, 3] cannot be reshaped to [4]");
    }
}
