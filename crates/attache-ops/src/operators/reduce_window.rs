//! REDUCE_WINDOW and STABLEHLO_REDUCE_WINDOW: the elements in each window of a tensor, combined with an initial value. The
//! window moves along all axes.
//!
//! STABLEHLO_REDUCE_WINDOW also pads the tensor, with the initial value, at its ends and between its elements; its function is
//! that of a subgraph of one operator.

use std::ops::Range;

use attache_base::{DataType, Shape, strides};
use attache_gpu_ir::{Index, IndexMap, Primitive, ValueId, Window, WindowKind};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_model::schema::{BuiltinOperator, ReduceWindowFunction};

use crate::shared::combine::{
    COMBINABLE, Combinable, combined_along, combined_floats, combined_integers, with_combinable,
};
use crate::shared::integers::filled;
use crate::shared::spread::{self, Along};
use crate::shared::support::{countable, elements, elements_mut, product, refuse};
use crate::{Code, Combination, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::REDUCE_WINDOW),
        versions: 1..=1,
        inputs: &[
            input("input").of(&COMBINABLE),
            input("init_value").like(0),
            input("window_dimensions").of(&[DataType::Int64]),
            input("window_strides").of(&[DataType::Int64]),
            input("window_dilations").of(&[DataType::Int64]),
        ],
        parse,
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::STABLEHLO_REDUCE_WINDOW),
        versions: 1..=1,
        inputs: &[input("input").of(&COMBINABLE), input("init_value").like(0)],
        parse: parse_stablehlo,
    },
];

#[derive(Debug)]
struct ReduceWindow {
    combination: Combination,
    /// How the window moves; `None` where inputs say so.
    windows: Option<Windows>,
}

/// A window and how it moves, for each axis.
#[derive(Clone, Debug, PartialEq)]
struct Windows {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Distance of the elements of the tensor, in elements of the padded one.
    spread: Vec<i64>,
    /// Padding before and after the tensor; negative to cut it.
    padding: Vec<[i64; 2]>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_reduce_window_options();
    let combination = match options.ok_or_else(|| declaration.no_options())?.reduce_function() {
        ReduceWindowFunction::ADD => Combination::Sum,
        ReduceWindowFunction::MUL => Combination::Product,
        ReduceWindowFunction::MINIMUM => Combination::Minimum,
        ReduceWindowFunction::MAXIMUM => Combination::Maximum,
        ReduceWindowFunction::ALL => Combination::All,
        ReduceWindowFunction::ANY => Combination::Any,
        other => return Err(OpError::invalid(format!("function {} is none of those from 1 to 6", other.0))),
    };
    Ok(Box::new(ReduceWindow { combination, windows: None }))
}

/// Returns a list of the options; ones where it is left out.
fn list_or_ones(list: Option<impl IntoIterator<Item = i64>>, rank: usize) -> Vec<i64> {
    list.map_or_else(|| vec![1; rank], |list| list.into_iter().collect())
}

fn parse_stablehlo(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_reduce_window_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let sizes: Vec<i64> = options.window_dimensions().map(|list| list.iter().collect()).unwrap_or_default();
    let rank = sizes.len();
    let padding: Vec<i64> = match options.padding() {
        Some(list) => list.iter().collect(),
        None => vec![0; 2 * rank],
    };
    let windows = Windows {
        strides: list_or_ones(options.window_strides(), rank),
        dilations: list_or_ones(options.window_dilations(), rank),
        spread: list_or_ones(options.base_dilations(), rank),
        padding: padding.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(i64::MIN)]).collect(),
        sizes,
    };
    let combination = declaration.combination(options.body_subgraph_index(), super::definitions())?;
    Ok(Box::new(ReduceWindow { combination, windows: Some(windows) }))
}

/// The extents of one axis, all checked.
#[derive(Clone, Copy, Debug)]
struct Axis {
    size: usize,
    stride: usize,
    dilation: usize,
    spread: usize,
    before: i64,
    input: usize,
    output: usize,
}

impl Axis {
    /// Returns the element of the input that element `tap` of the window at position `at` covers; `None` in the padding.
    fn covered(&self, at: usize, tap: usize) -> Option<usize> {
        let place = (at * self.stride + tap * self.dilation) as i64 - self.before;
        let place = usize::try_from(place).ok().filter(|place| place.is_multiple_of(self.spread))?;
        Some(place / self.spread).filter(|place| *place < self.input)
    }
}

impl Windows {
    fn axes(&self, shape: &Shape) -> Result<Vec<Axis>, OpError> {
        let rank = shape.rank();
        let lists = [&self.sizes, &self.strides, &self.dilations, &self.spread];
        if lists.iter().any(|list| list.len() != rank) || self.padding.len() != rank {
            return Err(OpError::invalid(format!("its lists do not have a number for each axis of {shape}")));
        }
        let axis = |axis: usize| {
            let wrong = || OpError::invalid(format!("the window along axis {axis} of {shape} is out of range"));
            let number = |list: &[i64]| usize::try_from(list[axis]).ok().filter(|number| *number > 0);
            let numbers = (number(&self.sizes), number(&self.strides), number(&self.dilations), number(&self.spread));
            let (Some(size), Some(stride), Some(dilation), Some(spread)) = numbers else { return Err(wrong()) };
            let [before, after] = self.padding[axis];
            let spaced = shape[axis].saturating_sub(1).checked_mul(spread);
            let spaced = spaced.and_then(|last| last.checked_add(usize::from(shape[axis] > 0)));
            let padded = i64::try_from(spaced.ok_or_else(wrong)?)
                .ok()
                .and_then(|spaced| spaced.checked_add(before)?.checked_add(after).filter(|padded| *padded >= 0));
            let covered = (size - 1).checked_mul(dilation).and_then(|last| last.checked_add(1)).ok_or_else(wrong)?;
            let padded = usize::try_from(padded.ok_or_else(wrong)?).map_err(|_| wrong())?;
            let output = if padded < covered { 0 } else { (padded - covered) / stride + 1 };
            // Places in the padded tensor are computed in 64 bits with a sign.
            i64::try_from(padded.checked_add(covered).ok_or_else(wrong)?).map_err(|_| wrong())?;
            Ok(Axis { size, stride, dilation, spread, before, input: shape[axis], output })
        };
        (0..rank).map(axis).collect()
    }
}

/// Combines the elements in each window. Elements of the padding are `start` as well.
fn reduce<T: Combinable>(
    engine: Engine<'_>,
    combination: Combination,
    axes: &[Axis],
    (input, start): (&[T], T),
    output: &mut [T],
) {
    if output.is_empty() {
        return;
    }
    let Some((inner, outer)) = axes.split_last() else {
        output[0] = T::combine(combination, start, input[0]);
        return;
    };
    let width = inner.output;
    let task = |first: usize, output: &mut [T]| {
        output.fill(start);
        visit_rows(axes, first..first + output.len() / width, &mut |line, place| {
            let line = &mut output[(line - first) * width..][..width];
            let row = place.map(|place| &input[place..][..inner.input]);
            (0..inner.size).for_each(|tap| inner.combine(combination, (row, start), tap, line));
        });
    };
    if cfg!(attache_small) {
        return task(0, output);
    }
    let taps = outer.iter().map(|axis| axis.size).product::<usize>();
    let nanoseconds = output.len() as f64 * taps as f64 * inner.size as f64 * 0.5;
    let tasks = engine.tasks(nanoseconds, output.len() / width);
    engine.for_each_part(output, width, tasks, task);
}

/// Calls `visit` for each row that windows cover, of these lines of the output: with the line, and with the place where the row
/// of the input begins, `None` in the padding. The rows of a line come in their order.
fn visit_rows(axes: &[Axis], lines: Range<usize>, visit: &mut dyn FnMut(usize, Option<usize>)) {
    let extents: Vec<usize> = axes.iter().map(|axis| axis.input).collect();
    let steps = strides(&extents);
    let outer = &axes[..axes.len() - 1];
    let taps = outer.iter().map(|axis| axis.size).product::<usize>();
    let (mut at, mut tap) = (vec![0; outer.len()], vec![0; outer.len()]);
    let mut rest = lines.start;
    for (coordinate, axis) in at.iter_mut().zip(outer).rev() {
        (*coordinate, rest) = (rest % axis.output, rest / axis.output);
    }
    for line in lines {
        tap.fill(0);
        for _ in 0..taps {
            let places = outer.iter().zip(at.iter().zip(&tap)).map(|(axis, (at, tap))| axis.covered(*at, *tap));
            visit(line, places.zip(&steps).try_fold(0, |sum, (place, step)| Some(sum + place? * step)));
            advance(&mut tap, |axis| outer[axis].size);
        }
        advance(&mut at, |axis| outer[axis].output);
    }
}

impl Axis {
    /// Combines each result of a line along the axis with the element of `row` that element `tap` of its window covers: with
    /// `start` in the padding, and everywhere if there is no row.
    fn combine<T: Combinable>(
        &self,
        combination: Combination,
        (row, start): (Option<&[T]>, T),
        tap: usize,
        line: &mut [T],
    ) {
        let combine = |result: &mut T, element: T| *result = T::combine(combination, *result, element);
        let Some(row) = row else { return line.iter_mut().for_each(|result| combine(result, start)) };
        if self.spread > 1 || cfg!(attache_small) {
            for (at, result) in line.iter_mut().enumerate() {
                combine(result, self.covered(at, tap).map_or(start, |place| row[place]));
            }
            return;
        }
        // The results from `first` to before `end` have elements in the row.
        let (before, stride) = (self.before.saturating_sub((tap * self.dilation) as i64), self.stride as i64);
        let position = |place: i64| {
            (place.saturating_add(before).max(0) as u64).div_ceil(stride as u64).min(line.len() as u64) as usize
        };
        let (first, end) = (position(0), position(self.input as i64));
        let places = (first as i64).saturating_mul(stride).saturating_sub(before).max(0) as usize;
        line[..first].iter_mut().for_each(|result| combine(result, start));
        let elements = row.get(places..).unwrap_or_default();
        match self.stride {
            1 => line[first..end].iter_mut().zip(elements).for_each(|(result, element)| combine(result, *element)),
            stride => {
                let elements = elements.iter().step_by(stride);
                line[first..end].iter_mut().zip(elements).for_each(|(result, element)| combine(result, *element));
            }
        }
        line[end..].iter_mut().for_each(|result| combine(result, start));
    }
}

/// Moves coordinates to the next ones in row-major order.
fn advance(coordinates: &mut [usize], extent: impl Fn(usize) -> usize) {
    for (axis, coordinate) in coordinates.iter_mut().enumerate().rev() {
        *coordinate += 1;
        if *coordinate < extent(axis) {
            return;
        }
        *coordinate = 0;
    }
}

impl ReduceWindow {
    /// Returns how the window moves, given the inputs that say so.
    fn windows(&self, list: impl Fn(usize) -> Result<Option<Vec<i64>>, OpError>) -> Result<Option<Windows>, OpError> {
        if let Some(windows) = &self.windows {
            return Ok(Some(windows.clone()));
        }
        let (Some(sizes), Some(strides), Some(dilations)) = (list(2)?, list(3)?, list(4)?) else { return Ok(None) };
        let (spread, padding) = (vec![1; sizes.len()], vec![[0, 0]; sizes.len()]);
        Ok(Some(Windows { sizes, strides, dilations, spread, padding }))
    }
}

/// Returns two neighbouring axes that hold all axes along which windows are larger than an element; `None` where there are
/// none, or the tensor is padded between its elements or windows have gaps.
fn plane(axes: &[Axis]) -> Option<usize> {
    let is_moved = |axis: &Axis| axis.size > 1 || axis.stride > 1 || axis.before != 0 || axis.output != axis.input;
    let first = axes.iter().position(is_moved)?;
    let first = first.min(axes.len().checked_sub(2)?);
    let rest = axes.iter().enumerate().filter(|(index, _)| ![first, first + 1].contains(index));
    let is_plain = axes.iter().all(|axis| axis.spread == 1 && axis.dilation == 1 && axis.before >= 0);
    (is_plain && rest.into_iter().all(|(_, axis)| !is_moved(axis))).then_some(first)
}

/// Emits the largest floats in windows that move along the axis `first` and the next one. Padding is left out.
fn largest_in_plane(
    lowering: &mut Lowering<'_>,
    axes: &[Axis],
    first: usize,
    input: ValueId,
) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(input).clone();
    let [outer, inner] = [&shape[..first], &shape[first + 2..]].map(|extents| extents.iter().product());
    let plane = [axes[first], axes[first + 1]];
    let image = lowering.reshape(input, &[outer, plane[0].input, plane[1].input, inner].into())?;
    let window = Window {
        kind: WindowKind::Maximum,
        size: plane.map(|axis| axis.size),
        strides: plane.map(|axis| axis.stride),
        before: plane.map(|axis| axis.before as usize),
        output: plane.map(|axis| axis.output),
    };
    let largest = lowering.emit(Primitive::Window(window), &[image])?;
    lowering.reshape(largest, &axes.iter().map(|axis| axis.output).collect())
}

/// Emits the tensor with the padding of all axes, which has the value of the operator's second input.
fn padded(lowering: &mut Lowering<'_>, axes: &[Axis], after: &[i64], input: ValueId) -> Result<ValueId, Unsupported> {
    let along: Vec<Along> = axes.iter().map(|axis| Along { first: axis.before, step: axis.spread as i64 }).collect();
    let extent = |(axis, after): (&Axis, &i64)| {
        let spaced = axis.input.saturating_sub(1) * axis.spread + usize::from(axis.input > 0);
        (spaced as i64 + axis.before + after) as usize
    };
    let output: Shape = axes.iter().zip(after).map(extent).collect();
    let shape = lowering.shape(input).clone();
    // Padding on one side may have cut as much on the other.
    let is_whole = |(axis, after): (&Axis, &i64)| axis.before == 0 && *after == 0 && axis.spread == 1;
    if axes.iter().zip(after).all(is_whole) {
        return Ok(input);
    }
    filled(lowering, spread::map(&shape, &along, &output)?, input, 1)
}

/// Refuses distances that do not fit a device's integers.
fn check_distances(axes: &[Axis], after: &[i64]) -> Result<(), Unsupported> {
    const MOST: u64 = 1 << 28;
    let distances = |axis: &Axis| [axis.stride as u64, axis.dilation as u64, axis.spread as u64];
    let distances = axes.iter().flat_map(|axis| distances(axis).into_iter().chain([axis.before.unsigned_abs()]));
    match distances.chain(after.iter().map(|after| after.unsigned_abs())).find(|distance| *distance > MOST) {
        Some(distance) => {
            Err(Unsupported::new(format!("a stride, dilation or padding of {distance}: too far for a device")))
        }
        None => Ok(()),
    }
}

/// Emits the elements of each window along an axis next to each other, along a new axis behind it.
fn side_by_side(lowering: &mut Lowering<'_>, axis: usize, along: Axis, input: ValueId) -> Result<ValueId, Unsupported> {
    /// Copies that are always allowed, in elements, and in multiples of the elements that are copied.
    const MOST: [usize; 2] = [1 << 22, 64];
    let mut output = lowering.shape(input).to_vec();
    let elements = lowering.shape(input).elements();
    let copied = (elements / output[axis].max(1)).saturating_mul(along.output).saturating_mul(along.size);
    if copied > MOST[0].max(elements.saturating_mul(MOST[1])) {
        let reason = format!("windows of {} elements, which a device copies: {copied} from {elements}", along.size);
        return Err(Unsupported::new(reason));
    }
    let mut coordinates: Vec<Index> = (0..output.len()).map(|at| Index::Axis(at + usize::from(at > axis))).collect();
    coordinates[axis] =
        Index::Axis(axis).times(along.stride as i64).sum(Index::Axis(axis + 1).times(along.dilation as i64));
    output[axis] = along.output;
    output.insert(axis + 1, along.size);
    lowering.emit(Primitive::IndexMap(IndexMap { output, coordinates, fill: None }), &[input])
}

impl Operator for ReduceWindow {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, start] = inputs.required();
        if start.shape.as_ref().is_some_and(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid("input 1 (init_value) is not one value"));
        }
        let windows = self.windows(|index| inputs.integers(index))?;
        let (Some(shape), Some(windows)) = (&input.shape, windows) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let output: Shape = windows.axes(shape)?.iter().map(|axis| axis.output).collect();
        Ok(vec![Inferred::new(input.data_type, countable(output)?)])
    }

    fn multiply_adds(&self, _: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let sizes = self.windows.as_ref()?.sizes.iter().map(|size| usize::try_from(*size).unwrap_or(0));
        Some(product(outputs.first()?).saturating_mul(product(&sizes.collect::<Vec<_>>())))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, start) = (eval.input(0)?, eval.input(1)?);
        let windows = self.windows(|index| eval.input(index)?.integers().map(Some))?;
        let axes = windows.ok_or_else(|| OpError::invalid("it has no windows"))?.axes(input.shape)?;
        with_combinable!(input.data_type, T => {
            let (input, start) = (elements::<T>(input.bytes)?, elements::<T>(start.bytes)?[0]);
            let output = elements_mut(eval.outputs[0].bytes)?;
            reduce(Engine::new(eval.parallel), self.combination, &axes, (input, start), output);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let list = |index: usize| lowering.integers(index).map(Some).map_err(|error| OpError::unsupported(error.0));
        let windows = self.windows(list).map_err(refuse)?.ok_or_else(|| Unsupported::new("it has no windows"))?;
        let axes = windows.axes(lowering.input_shape(0)?).map_err(refuse)?;
        let (data_type, shape) = (lowering.input_fact(0)?.data_type, lowering.output_shape(0)?.clone());
        let (input, start) = (lowering.input(0)?, lowering.input(1)?);
        let after: Vec<i64> = windows.padding.iter().map(|[_, after]| *after).collect();
        check_distances(&axes, &after)?;
        let combined = match (data_type, self.combination, plane(&axes)) {
            // The padding has the value that is combined with the result.
            (DataType::Float32, Combination::Maximum, Some(first)) => largest_in_plane(lowering, &axes, first, input)?,
            _ => {
                let mut value = padded(lowering, &axes, &after, input)?;
                let moved = axes.iter().enumerate().filter(|(_, along)| along.size > 1 || along.stride > 1);
                for (axis, along) in moved {
                    let apart = side_by_side(lowering, axis, *along, value)?;
                    let folded = combined_along(lowering, (self.combination, data_type), vec![axis + 1], apart)?;
                    let mut extents = lowering.shape(folded).to_vec();
                    extents.remove(axis + 1);
                    value = lowering.reshape(folded, &extents.into())?;
                }
                value
            }
        };
        let start = lowering.reshape(start, &Shape::default())?;
        let output = match data_type {
            DataType::Float32 => lowering.map(combined_floats(self.combination)?, &shape, &[combined, start])?,
            _ => lowering.int_map(combined_integers(self.combination, data_type), &shape, &[combined, start])?,
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    fn windows(sizes: &[i64], padding: &[[i64; 2]]) -> Windows {
        let ones = vec![1; sizes.len()];
        let (strides, dilations, spread) = (ones.clone(), ones.clone(), ones);
        Windows { sizes: sizes.to_vec(), strides, dilations, spread, padding: padding.to_vec() }
    }

    #[test]
    fn windows_are_counted() {
        let output = |windows: &Windows, shape: &[usize]| {
            windows.axes(&shape.into()).map(|axes| axes.iter().map(|axis| axis.output).collect::<Vec<_>>())
        };
        assert_eq!(output(&windows(&[2, 3], &[[0, 0], [1, 1]]), &[3, 4]).unwrap(), [2, 4]);
        assert_eq!(output(&windows(&[5], &[[0, 0]]), &[3]).unwrap(), [0]);
        assert_eq!(output(&windows(&[1], &[[-1, 0]]), &[3]).unwrap(), [2]);
        for wrong in [windows(&[0], &[[0, 0]]), windows(&[1], &[[-4, 0]]), windows(&[1], &[[i64::MAX, 1]])] {
            assert!(output(&wrong, &[3]).is_err(), "{wrong:?}");
        }
        assert!(output(&windows(&[1], &[[0, 0]]), &[3, 3]).is_err());
    }

    fn sum(windows: &Windows, shape: &[usize], input: &[i32], start: i32) -> Vec<i32> {
        let axes = windows.axes(&shape.into()).unwrap();
        let mut output = vec![0; axes.iter().map(|axis| axis.output).product()];
        reduce(Engine::new(&Serial), Combination::Sum, &axes, (input, start), &mut output);
        output
    }

    #[test]
    fn the_padding_counts() {
        assert_eq!(sum(&windows(&[2], &[[1, 0]]), &[3], &[1, 2, 3], 10), [21, 13, 15]);
    }

    #[test]
    fn lines_are_sums_of_single_windows() {
        let mut seed = 1_u32;
        let mut below = |limit: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((seed >> 16) % limit)
        };
        for _ in 0..500 {
            let shape: Vec<usize> = (0..3).map(|_| 1 + below(6) as usize).collect();
            let mut list = |most: u32| -> Vec<i64> { (0..3).map(|_| 1 + below(most)).collect() };
            let (sizes, strides, dilations, spread) = (list(3), list(3), list(2), list(2));
            let padding = (0..3).map(|_| [below(4) - 1, below(4)]).collect();
            let windows = Windows { sizes, strides, dilations, spread, padding };
            let Ok(axes) = windows.axes(&shape[..].into()) else { continue };
            let input: Vec<i32> = (0..shape.iter().product::<usize>() as i32).map(|index| index * index).collect();
            let outputs: Vec<usize> = axes.iter().map(|axis| axis.output).collect();
            let mut expected = Vec::new();
            let mut at = [0; 3];
            for _ in 0..outputs.iter().product() {
                let (mut total, mut tap) = (7, [0; 3]);
                for _ in 0..axes.iter().map(|axis| axis.size).product() {
                    let place = |[a, b, c]: [Option<usize>; 3]| Some((a? * shape[1] + b?) * shape[2] + c?);
                    let places = [0, 1, 2].map(|axis| axes[axis].covered(at[axis], tap[axis]));
                    total += place(places).map_or(7, |place| input[place]);
                    advance(&mut tap, |axis| axes[axis].size);
                }
                expected.push(total);
                advance(&mut at, |axis| outputs[axis]);
            }
            assert_eq!(sum(&windows, &shape, &input, 7), expected, "{windows:?} {shape:?}");
        }
    }
}
