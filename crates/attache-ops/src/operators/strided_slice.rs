//! STRIDED_SLICE: NumPy's basic slicing, one range per axis, with ellipsis, new axes and single indices.

use attache_base::{DataType, Shape, strides};
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::movement::StridedCopy;
use attache_model::schema::BuiltinOperator;

use crate::shared::support::refuse;
use crate::shared::view::copy_kept;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STRIDED_SLICE),
    versions: 1..=8,
    inputs: &[
        input("input").movable_or_strings(),
        input("begin").of(INDEX),
        input("end").of(INDEX),
        input("strides").of(INDEX),
    ],
    parse,
}];

const INDEX: &[DataType] = &[DataType::Int32];

/// STRIDED_SLICE with its options. Bit i of a mask applies to entry i, which consists of the elements i of
/// the inputs `begin`, `end` and `strides`.
#[derive(Debug, Default)]
struct StridedSlice {
    /// Marks entries whose range starts at the first element in the direction of the stride, whatever `begin`
    /// is.
    begin_mask: i32,
    /// Marks entries whose range extends to the last element in the direction of the stride, whatever `end`
    /// is.
    end_mask: i32,
    /// Marks the entry that stands for all axes without an entry of their own, the ellipsis.
    ellipsis_mask: i32,
    /// Marks entries that insert an axis of extent 1.
    new_axis_mask: i32,
    /// Marks entries that select one element and remove the axis.
    shrink_axis_mask: i32,
    /// Whether the elements of `end` are offsets from those of `begin`.
    offset: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_strided_slice_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(StridedSlice {
        begin_mask: options.begin_mask(),
        end_mask: options.end_mask(),
        ellipsis_mask: options.ellipsis_mask(),
        new_axis_mask: options.new_axis_mask(),
        shrink_axis_mask: options.shrink_axis_mask(),
        offset: options.offset(),
    }))
}

/// The elements of the inputs `begin`, `end` and `strides`.
struct Entries {
    begin: Vec<i64>,
    end: Vec<i64>,
    strides: Vec<i64>,
}

/// The elements `begin + k × stride`, `k < count`, of one axis of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    begin: i64,
    stride: i64,
    count: usize,
}

impl Range {
    fn whole(extent: usize) -> Self {
        Self { begin: 0, stride: 1, count: extent }
    }
}

/// One range for each axis of the input, and the output's shape.
#[derive(Debug)]
struct Plan {
    ranges: Vec<Range>,
    output: Shape,
}

impl Plan {
    fn counts(&self) -> Shape {
        self.ranges.iter().map(|range| range.count).collect()
    }

    /// Returns the copy of the elements from an input of this shape.
    fn copy(&self, shape: &Shape) -> StridedCopy {
        let dense = strides(shape);
        let steps = || self.ranges.iter().zip(&dense);
        let offset = steps().map(|(range, step)| range.begin * *step as i64).sum();
        let strides: Vec<i64> = steps().map(|(range, step)| range.stride * *step as i64).collect();
        StridedCopy::new(offset, &strides, &self.counts())
    }
}

fn bit(mask: i32, entry: usize) -> bool {
    entry < 32 && mask >> entry & 1 == 1
}

impl StridedSlice {
    /// Plans the slice of an input of this shape. An entry that several masks mark is an ellipsis first, else
    /// a new axis, else a single index.
    fn plan(&self, shape: &Shape, entries: &Entries) -> Result<Plan, OpError> {
        let count = entries.begin.len();
        if entries.end.len() != count || entries.strides.len() != count {
            return Err(OpError::invalid("begin, end and strides do not have as many elements as each other"));
        }
        let is_ellipsis = |entry: &usize| bit(self.ellipsis_mask, *entry);
        if (0..count).filter(is_ellipsis).count() > 1 {
            return Err(OpError::invalid("there is more than one ellipsis"));
        }
        let has_ellipsis = (0..count).any(|entry| is_ellipsis(&entry));
        let named = (0..count).filter(|entry| !is_ellipsis(entry) && !bit(self.new_axis_mask, *entry)).count();
        if named > shape.rank() && !has_ellipsis {
            return Err(OpError::invalid(format!("{named} ranges for an input of shape {shape}")));
        }
        // TensorFlow Lite's ellipsis stands for at least one axis, and entries beyond the last axis are ignored.
        let unnamed = shape.rank().saturating_sub(named).max(1);
        let (mut ranges, mut output) = (Vec::with_capacity(shape.rank()), Vec::new());
        for entry in 0..count {
            if is_ellipsis(&entry) {
                let covered = &shape[ranges.len()..(ranges.len() + unnamed).min(shape.rank())];
                output.extend(covered);
                ranges.extend(covered.iter().map(|extent| Range::whole(*extent)));
            } else if bit(self.new_axis_mask, entry) {
                output.push(1);
            } else if ranges.len() < shape.rank() {
                let range = self.range(shape[ranges.len()], entry, entries)?;
                if !bit(self.shrink_axis_mask, entry) {
                    output.push(range.count);
                }
                ranges.push(range);
            }
        }
        // Without an ellipsis the trailing axes without an entry are kept whole.
        let rest = &shape[ranges.len()..];
        output.extend(rest);
        ranges.extend(rest.iter().map(|extent| Range::whole(*extent)));
        Ok(Plan { ranges, output: output.into() })
    }

    /// Returns the range that entry `entry` selects on an axis of `extent` elements. Negative positions count
    /// from the end of the axis. Positions are clamped to the axis, except where the entry removes the axis:
    /// there a position outside is an error.
    fn range(&self, extent: usize, entry: usize, entries: &Entries) -> Result<Range, OpError> {
        let (begin, end, stride) = (entries.begin[entry], entries.end[entry], entries.strides[entry]);
        let extent = extent as i64;
        let from_start = |position: i64| if position < 0 { position.saturating_add(extent) } else { position };
        if stride == 0 {
            return Err(OpError::invalid(format!("stride {entry} is 0")));
        }
        if bit(self.shrink_axis_mask, entry) {
            let begin = if bit(self.begin_mask, entry) { 0 } else { from_start(begin) };
            // TensorFlow rejects such strides. LiteRT's kernels accept them and write nothing, so that the output is what the
            // memory had before.
            if stride < 0 {
                return Err(OpError::invalid(format!(
                    "a single index with the stride {stride}, which selects no element"
                )));
            }
            if !(0..extent).contains(&begin) {
                return Err(OpError::invalid(format!("index {} on an axis of {extent}", entries.begin[entry])));
            }
            return Ok(Range { begin, stride: 1, count: 1 });
        }
        let (lowest, highest) = if stride > 0 { (0, extent) } else { (-1, extent - 1) };
        let (first, past) = if stride > 0 { (lowest, highest) } else { (highest, lowest) };
        let begin = if bit(self.begin_mask, entry) { first } else { from_start(begin).clamp(lowest, highest) };
        let end = match (bit(self.end_mask, entry), self.offset) {
            (true, _) => past,
            (false, true) => begin.saturating_add(end).clamp(lowest, highest),
            (false, false) => from_start(end).clamp(lowest, highest),
        };
        let distance = if stride > 0 { end - begin } else { begin - end };
        let count = distance.max(0).unsigned_abs().div_ceil(stride.unsigned_abs()) as usize;
        Ok(Range { begin, stride: if count > 1 { stride } else { 1 }, count })
    }
}

impl Operator for StridedSlice {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (input, mut values) = (inputs.fact(0), Vec::new());
        for index in 1..=3 {
            if inputs.fact(index).shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
                return Err(OpError::invalid(format!("input {index} is not a list")));
            }
            values.extend(inputs.integers(index)?);
        }
        let (Ok([begin, end, strides]), Some(shape)) = (<[_; 3]>::try_from(values), &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let plan = self.plan(shape, &Entries { begin, end, strides })?;
        Ok(vec![Inferred::new(input.data_type, plan.output)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        copy_kept(eval, &|eval| {
            let (shape, integers) = (eval.input(0)?.shape, |index| eval.input(index)?.integers());
            let entries = Entries { begin: integers(1)?, end: integers(2)?, strides: integers(3)? };
            Ok(self.plan(shape, &entries)?.copy(shape))
        })
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let entries =
            Entries { begin: lowering.integers(1)?, end: lowering.integers(2)?, strides: lowering.integers(3)? };
        let shape = lowering.input_shape(0)?;
        let plan = self.plan(shape, &entries).map_err(refuse)?;
        let mut value = lowering.input(0)?;
        if plan.ranges.iter().zip(shape.iter()).any(|(range, extent)| *range != Range::whole(*extent)) {
            let coordinate = |(axis, range): (usize, &Range)| Index::Axis(axis).times(range.stride).plus(range.begin);
            let coordinates = plan.ranges.iter().enumerate().map(coordinate).collect();
            let map = IndexMap { output: plan.counts().to_vec(), coordinates, fill: None };
            value = lowering.emit(Primitive::IndexMap(map), &[value])?;
        }
        let output = lowering.reshape(value, &plan.output)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(slice: &StridedSlice, shape: &[usize], entries: [&[i64]; 3]) -> Result<Plan, OpError> {
        let [begin, end, strides] = entries.map(<[i64]>::to_vec);
        slice.plan(&shape.into(), &Entries { begin, end, strides })
    }

    #[test]
    fn ranges_are_pythons() {
        let range = |begin, end, stride| {
            let plan = shape_of(&StridedSlice::default(), &[10], [&[begin], &[end], &[stride]]).unwrap();
            let Range { begin, stride, count } = plan.ranges[0];
            (0..count as i64).map(|k| begin + k * stride).collect::<Vec<_>>()
        };
        assert_eq!(range(2, -1, 3), [2, 5, 8]);
        assert_eq!(range(-1, 2, -4), [9, 5]);
        assert_eq!(range(99, -99, -9), [9, 0]);
        assert_eq!(range(5, 5, 1), [0i64; 0]);
        assert_eq!(range(i64::MIN, i64::MAX, i64::MIN), [0i64; 0]);
    }

    #[test]
    fn masks_give_the_output_its_axes() {
        let slice = StridedSlice { ellipsis_mask: 2, new_axis_mask: 1, shrink_axis_mask: 1 | 4, ..Default::default() };
        let plan = shape_of(&slice, &[2, 3, 4], [&[0, 0, -1], &[0, 0, 0], &[1, 1, 1]]).unwrap();
        assert_eq!(plan.output, Shape::from([1, 2, 3]));
        assert_eq!(plan.ranges[2], Range { begin: 3, stride: 1, count: 1 });
        let masked = StridedSlice { begin_mask: 1, end_mask: 1, ..Default::default() };
        let plan = shape_of(&masked, &[5, 2], [&[3], &[3], &[-2]]).unwrap();
        assert_eq!((plan.output, plan.ranges[0].begin), (Shape::from([3, 2]), 4));
    }

    #[test]
    fn an_offset_end_counts_from_the_beginning() {
        let slice = StridedSlice { offset: true, ..Default::default() };
        let plan = shape_of(&slice, &[10], [&[-4], &[3], &[1]]).unwrap();
        assert_eq!(plan.ranges[0], Range { begin: 6, stride: 1, count: 3 });
        assert_eq!(shape_of(&slice, &[10], [&[6], &[-3], &[1]]).unwrap().output, Shape::from([0]));
    }

    #[test]
    fn wrong_entries_are_errors() {
        let slice = StridedSlice { shrink_axis_mask: 1, ..Default::default() };
        assert!(shape_of(&slice, &[4], [&[4], &[5], &[1]]).is_err(), "index past the end");
        let negative = shape_of(&slice, &[4], [&[2], &[1], &[-1]]).unwrap_err();
        assert!(negative.to_string().contains("stride -1"), "{negative}");
        assert!(shape_of(&slice, &[4], [&[0, 0], &[1, 1], &[1, 1]]).is_err(), "more ranges than axes");
        assert!(shape_of(&slice, &[4], [&[0], &[1], &[0]]).is_err(), "stride 0");
        assert!(shape_of(&slice, &[4], [&[0], &[1], &[]]).is_err(), "lists of different lengths");
        let twice = StridedSlice { ellipsis_mask: 3, ..Default::default() };
        assert!(shape_of(&twice, &[4], [&[0, 0], &[1, 1], &[1, 1]]).is_err(), "two ellipses");
    }
}
