//! Siblings: pointwise convolutions of the same data become one convolution, whose outputs are slices of its channels.
//!
//! The projections of attention to queries, keys and values are such siblings. One product with all weights fills a device
//! better than three, and reads the data once. So are, where there are few rows, the two projections of a gated layer: the
//! next product computes the gate where it stages its rows.

use std::collections::{BTreeSet, HashMap};

use attache_base::{Bytes, Constant, DataType, Shape};
use attache_gpu_ir::{Index, IndexMap, Primitive, Program, Scalar, Source, Step, Value, ValueId};

use super::views::reads_each_once;
use crate::kernel::{DeviceLimits, MAX_OUTPUTS, STAGED_ROWS, roots};

/// Maximum readers of a projection, and of what maps and reshapes make of it, that are followed.
const MAX_READERS: usize = 32;

/// Returns the program with siblings merged, which computes the same; `None` if there are none.
pub(crate) fn merge(program: &Program, limits: &DeviceLimits) -> Option<Program> {
    let (readers, roots) = (readers(program), roots(program));
    let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut first_of: HashMap<(ValueId, &Shape, Option<ValueId>), usize> = HashMap::new();
    let mut is_output = vec![false; program.values.len()];
    program.outputs.iter().for_each(|id| is_output[id.index()] = true);
    let inner = |step: &Step| program.value(step.outputs[0]).is_inner;
    for (index, step) in program.steps.iter().enumerate().filter(|(_, step)| is_projection(program, &readers, step)) {
        let gated = match is_fetched(program, &readers, &is_output, step) {
            true => None,
            false => match gated(program, &readers, &is_output, step) {
                None => continue,
                gated => gated,
            },
        };
        // Reshapes of one value to one shape are the same data.
        let data = (roots[step.inputs[0].index()], program.shape(step.inputs[0]), gated);
        let first = *first_of.entry(data).or_insert(index);
        let other = &program.steps[first];
        let is_alike = step.primitive == other.primitive && step.inputs.len() == other.inputs.len();
        if is_alike && inner(step) == inner(other) {
            groups.entry(first).or_default().push(index);
        }
    }
    groups.retain(|_, members| members.len() > 1 && fits(program, members, limits));
    if groups.is_empty() { None } else { rewrite(program, &groups) }
}

/// Returns for each value the steps that read it.
fn readers(program: &Program) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); program.values.len()];
    for (index, step) in program.steps.iter().enumerate() {
        step.inputs.iter().for_each(|id| readers[id.index()].push(index));
    }
    readers
}

/// Whether a step is a pointwise convolution with constant weights that stand for floats and that nothing else reads, so
/// that no weight is copied twice.
fn is_projection(program: &Program, readers: &[Vec<usize>], step: &Step) -> bool {
    let Primitive::Convolution(convolution) = &step.primitive else { return false };
    let [data, filter] = [0, 1].map(|input| program.shape(step.inputs[input]));
    let is_weight = |id: &ValueId| {
        let value = program.value(*id);
        let Source::Constant(constant) = &value.source else { return false };
        let is_float = value.scales.is_some() || matches!(constant.data_type, DataType::Float32 | DataType::Float16);
        value.scalar == Scalar::F32 && is_float && readers[id.index()].len() == 1
    };
    convolution.groups == 1
        && convolution.is_pointwise(data, filter)
        && step.inputs[1..].iter().all(is_weight)
        && program.shape(step.outputs[0]).elements() > 0
}

/// Whether the output of a step is only moved, and what reads the moved elements can load them from where they were. A map
/// that reads all of them in order is better fused with the convolution itself.
fn is_fetched(program: &Program, readers: &[Vec<usize>], is_output: &[bool], step: &Step) -> bool {
    let (mut at, mut is_read) = (vec![(step.outputs[0], false)], false);
    while let Some((id, is_moved)) = at.pop() {
        if is_output[id.index()] {
            return false;
        }
        for step in readers[id.index()].iter().map(|index| &program.steps[*index]) {
            is_read = true;
            match &step.primitive {
                Primitive::Reshape(_) => at.push((step.outputs[0], is_moved)),
                Primitive::IndexMap(_) => at.push((step.outputs[0], true)),
                Primitive::Map { .. } | Primitive::IntMap { .. } if !is_moved => return false,
                other if reads_each_once(other) => {}
                _ => return false,
            }
        }
    }
    is_read
}

/// Returns the value that maps compute of the output of a step with few rows, if it is the only one that other steps read.
fn gated(program: &Program, readers: &[Vec<usize>], is_output: &[bool], step: &Step) -> Option<ValueId> {
    let few = 1..=STAGED_ROWS;
    let mut at = few.contains(&program.shape(step.outputs[0])[..3].iter().product()).then_some(step.outputs[0]);
    let (mut waiting, mut last, mut left) = (BTreeSet::new(), None, MAX_READERS);
    while let Some(id) = at {
        if is_output[id.index()] {
            return None;
        }
        for reader in readers[id.index()].iter().map(|index| &program.steps[*index]) {
            left = usize::checked_sub(left, 1)?;
            match &reader.primitive {
                Primitive::Map { .. } | Primitive::Reshape(_) => {
                    waiting.insert(reader.outputs[0]);
                }
                _ if last.is_some_and(|last| last != id) => return None,
                _ => last = Some(id),
            }
        }
        at = waiting.pop_first();
    }
    last.filter(|last| *last != step.outputs[0])
}

/// Whether the merged weights, packed with their biases, and the merged outputs are within the limits.
fn fits(program: &Program, members: &[usize], limits: &DeviceLimits) -> bool {
    let sum = |of: &dyn Fn(&Step) -> usize| members.iter().map(|index| of(&program.steps[*index])).sum::<usize>();
    let outputs = sum(&|step| program.shape(step.inputs[1])[0]);
    let stored = sum(&|step| program.shape(step.outputs[0]).elements());
    let depth = program.shape(program.steps[members[0]].inputs[1])[3];
    let packed = (2 + depth.next_multiple_of(4)).saturating_mul(outputs.next_multiple_of(4));
    let most = limits.max_binding_bytes.min(i32::MAX as usize);
    outputs <= MAX_OUTPUTS && packed.max(stored).saturating_mul(4) <= most
}

/// Returns the program in which the first step of each group computes what all members do. `None` if the new program does
/// not accept a step.
fn rewrite(program: &Program, groups: &HashMap<usize, Vec<usize>>) -> Option<Program> {
    let mut made = Program { values: Vec::new(), steps: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
    let mut new: Vec<Option<ValueId>> = vec![None; program.values.len()];
    let mut is_merged = vec![false; program.values.len()];
    let members = groups.values().flatten().map(|index| &program.steps[*index]);
    members.flat_map(|step| &step.inputs[1..]).for_each(|id| is_merged[id.index()] = true);
    for (index, value) in program.values.iter().enumerate() {
        if !matches!(value.source, Source::Step(_)) && !is_merged[index] {
            made.values.push(value.clone());
            new[index] = Some(ValueId(made.values.len() as u32 - 1));
        }
    }
    for (index, step) in program.steps.iter().enumerate() {
        if let Some(members) = groups.get(&index) {
            let steps: Vec<&Step> = members.iter().map(|member| &program.steps[*member]).collect();
            for (step, id) in steps.iter().zip(merged(program, &mut made, new[step.inputs[0].index()]?, &steps)?) {
                take_over(program, &mut made, step.outputs[0], id);
                new[step.outputs[0].index()] = Some(id);
            }
        } else if new[step.outputs[0].index()].is_none() {
            let inputs: Vec<ValueId> = step.inputs.iter().map(|id| new[id.index()]).collect::<Option<_>>()?;
            for (id, old) in
                made.step(step.primitive.clone(), &inputs, step.origin).ok()?.into_iter().zip(&step.outputs)
            {
                take_over(program, &mut made, *old, id);
                new[old.index()] = Some(id);
            }
        }
    }
    let of = |ids: &[ValueId]| ids.iter().map(|id| new[id.index()]).collect::<Option<Vec<_>>>();
    (made.inputs, made.outputs) = (of(&program.inputs)?, of(&program.outputs)?);
    Some(made)
}

/// Gives a value of the new program what is known of how a value of the original one is stored.
pub(super) fn take_over(program: &Program, made: &mut Program, old: ValueId, new: ValueId) {
    let (old, new) = (program.value(old), &mut made.values[new.index()]);
    (new.is_inner, new.bytes) = (old.is_inner, old.bytes);
}

/// Adds the convolution of `data` with the weights of all steps, and the slice of each step. Returns the slices.
fn merged(program: &Program, made: &mut Program, data: ValueId, steps: &[&Step]) -> Option<Vec<ValueId>> {
    let filter = program.shape(steps[0].inputs[1]);
    let outputs: Vec<usize> = steps.iter().map(|step| program.shape(step.inputs[1])[0]).collect();
    let all = outputs.iter().sum();
    let mut inputs = vec![data];
    for input in 1..steps[0].inputs.len() {
        let shape = if input == 1 { Shape::from([all, 1, 1, filter[3]]) } else { Shape::from([all]) };
        let parts: Vec<&Value> = steps.iter().map(|step| program.value(step.inputs[input])).collect();
        inputs.push(joined(made, shape, &parts)?);
    }
    let whole = made.step(steps[0].primitive.clone(), &inputs, steps[0].origin).ok()?[0];
    let mut first = 0;
    let mut slices = Vec::new();
    for (step, count) in steps.iter().zip(outputs) {
        let mut output = made.shape(whole).to_vec();
        output[3] = count;
        let coordinates = (0..3).map(Index::Axis).chain([Index::Axis(3).plus(first)]).collect();
        let slice = Primitive::IndexMap(IndexMap { output, coordinates, fill: None });
        slices.push(made.step(slice, &[whole], step.origin).ok()?[0]);
        first += count as i64;
    }
    made.values[whole.index()].is_inner = steps.iter().all(|step| program.value(step.outputs[0]).is_inner);
    Some(slices)
}

/// Adds the constant of this shape that has the elements of all `parts`, one after the other. It holds integers if all of
/// them hold integers of the same type.
fn joined(made: &mut Program, shape: Shape, parts: &[&Value]) -> Option<ValueId> {
    let constants = parts.iter().map(|part| match &part.source {
        Source::Constant(constant) => Some(constant),
        _ => None,
    });
    let constants: Vec<&Constant> = constants.collect::<Option<_>>()?;
    let data_type = constants[0].data_type;
    // Elements of less than 8 bits share bytes.
    let is_whole = |constant: &Constant| {
        let bits = constant.data_type.bits().unwrap_or(1);
        constant.shape.elements().checked_mul(bits).is_some_and(|bits| bits.is_multiple_of(8))
    };
    let are_alike = constants.iter().all(|other| other.data_type == data_type && is_whole(other));
    let Some(scales) = joined_scales(parts, shape[shape.rank() - 1]).filter(|_| are_alike) else {
        let mut floats = Vec::new();
        for part in parts {
            floats.extend_from_slice(&part.floats()?);
        }
        return Some(made.constant(Scalar::F32, Constant::from_vec(shape, floats)));
    };
    let mut bytes = Vec::new();
    for constant in constants {
        bytes.extend_from_slice(&constant.aligned_bytes()?);
    }
    Some(made.quantized_constant(Constant { data_type, shape, bytes: Bytes::from_vec(bytes) }, scales.into()))
}

/// Returns the scales of all parts, one after the other, each for as many elements as the smallest block of a part has, which
/// is no longer than a row of `depth` elements; `None` if a part has no scales, or if its blocks don't divide evenly.
fn joined_scales(parts: &[&Value], depth: usize) -> Option<Vec<f32>> {
    let blocks: Vec<usize> = parts.iter().map(|part| part.block()).collect::<Option<_>>()?;
    let block = blocks.iter().copied().fold(depth, usize::min);
    let mut scales = Vec::new();
    for (part, own) in parts.iter().zip(blocks) {
        let times = own.checked_div(block).filter(|times| times * block == own)?;
        scales.extend(part.scales.as_deref()?.iter().flat_map(|scale| std::iter::repeat_n(*scale, times)));
    }
    Some(scales)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::tests::pointwise;
    use attache_gpu_ir::{HostTensor, interpret};

    /// Returns a program of pointwise convolutions of the same data with these numbers of outputs, each of which is
    /// reshaped, and all of which are concatenated.
    fn projections(outputs: &[usize], is_biased: bool) -> Program {
        let mut program = Program::default();
        let data = program.input(Scalar::F32, [6, 5].into());
        let weight = |program: &mut Program, shape: Shape| {
            let values: Vec<f32> =
                (0..shape.elements()).map(|index| (index * 7 % 11) as f32 - shape[0] as f32).collect();
            program.constant(Scalar::F32, Constant::from_values(shape, &values))
        };
        let mut parts = Vec::new();
        for (origin, count) in outputs.iter().enumerate() {
            let mut inputs = vec![data, weight(&mut program, [*count, 1, 1, 5].into())];
            if is_biased {
                inputs.push(weight(&mut program, [*count].into()));
            }
            inputs[0] = program.step(Primitive::Reshape([1, 2, 3, 5].into()), &[data], origin).unwrap()[0];
            let made = program.step(pointwise([2, 3]), &inputs, origin).unwrap()[0];
            parts.push(program.step(Primitive::Reshape([6, *count].into()), &[made], origin).unwrap()[0]);
        }
        program.outputs = program.step(Primitive::Concatenate { axis: 1 }, &parts, 9).unwrap();
        program
    }

    fn convolutions(program: &Program) -> usize {
        program.steps.iter().filter(|step| matches!(step.primitive, Primitive::Convolution(_))).count()
    }

    #[test]
    fn projections_of_the_same_data_are_one_convolution() {
        let data: Vec<f64> = (0..30).map(|index| f64::from(index % 7) - 2.0).collect();
        let data = [HostTensor::new([6, 5], data)];
        for is_biased in [false, true] {
            let program = projections(&[4, 3, 8], is_biased);
            let merged = merge(&program, &DeviceLimits::default()).unwrap();
            assert_eq!(convolutions(&merged), 1);
            merged.validate().unwrap();
            assert_eq!(interpret(&merged, &data).unwrap(), interpret(&program, &data).unwrap());
        }
    }

    #[test]
    fn outputs_that_others_read_stay_apart() {
        let mut program = projections(&[4, 4], false);
        let output = program.steps[1].outputs[0];
        program.outputs.push(output);
        assert!(merge(&program, &DeviceLimits::default()).is_none());
        let limits = DeviceLimits { max_binding_bytes: 100, ..DeviceLimits::default() };
        assert!(merge(&projections(&[4, 4], false), &limits).is_none());
    }
}
