//! Steps that move elements without arithmetic.

use attache::model::schema::{self, BuiltinOperator as B, BuiltinOptionsT as O, MirrorPadMode};

use crate::draft::{Draft, Id};

/// PAD, PADV2 or MIRROR_PAD.
pub(crate) fn pad(draft: &mut Draft, value: Id) -> Option<Id> {
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    let rank = shape.len();
    (1..=4).contains(&rank).then_some(())?;
    let is_mirrored = draft.random.percent(25);
    let only_image = rank == 4 && draft.random.percent(70);
    let sides = |axis: usize, extent: usize, draft: &mut Draft| {
        let most = if is_mirrored { (extent - 1).min(2) } else { 3 };
        if only_image && ![1, 2].contains(&axis) { [0, 0] } else { [(); 2].map(|()| draft.random.within(0, most)) }
    };
    let sides: Vec<[usize; 2]> = (0..rank).map(|axis| sides(axis, shape[axis], draft)).collect();
    let padded: Vec<usize> =
        shape.iter().zip(&sides).map(|(extent, [before, after])| extent + before + after).collect();
    draft.fits(value, &padded, bound).then_some(())?;
    let integers: Vec<i32> = sides.as_flattened().iter().map(|side| *side as i32).collect();
    let sides = draft.setting(&[rank, 2], &integers);
    if is_mirrored {
        let mode = draft.random.pick(&[MirrorPadMode::REFLECT, MirrorPadMode::SYMMETRIC]);
        let options = O::MirrorPadOptions(Box::new(schema::MirrorPadOptionsT { mode }));
        return draft.node((B::MIRROR_PAD, 1), &[value, sides], options, &padded, bound);
    }
    if draft.random.percent(25) {
        let fill = draft.constant_of(draft.of_type(value), &[1], 1.0);
        let options = O::PadV2Options(Default::default());
        return draft.node((B::PADV2, 1), &[value, sides, fill], options, &padded, bound);
    }
    draft.node((B::PAD, 1), &[value, sides], O::PadOptions(Default::default()), &padded, bound)
}

/// RESHAPE, SQUEEZE or EXPAND_DIMS, to a rank of at most 5.
pub(crate) fn reshape(draft: &mut Draft, value: Id) -> Option<Id> {
    let (mut shape, bound) = (draft.shape(value), draft.bound(value));
    let ones: Vec<usize> = (0..shape.len()).filter(|axis| shape[*axis] == 1).collect();
    if !ones.is_empty() && draft.random.percent(40) {
        let axis = draft.random.pick(&ones);
        shape.remove(axis);
        let options = schema::SqueezeOptionsT { squeeze_dims: Some(vec![axis as i32]) };
        return draft.node((B::SQUEEZE, 1), &[value], O::SqueezeOptions(Box::new(options)), &shape, bound);
    }
    if shape.len() < 5 && draft.random.percent(15) {
        let axis = draft.random.within(0, shape.len());
        shape.insert(axis, 1);
        let axis = draft.setting(&[], &[axis as i32]);
        let options = O::ExpandDimsOptions(Default::default());
        return draft.node((B::EXPAND_DIMS, 1), &[value, axis], options, &shape, bound);
    }
    let shape = regrouped(draft, &shape);
    let new_shape: Vec<i32> = shape.iter().map(|extent| *extent as i32).collect();
    let target = draft.list(shape.iter().copied());
    let options = schema::ReshapeOptionsT { new_shape: Some(new_shape) };
    draft.node((B::RESHAPE, 1), &[value, target], O::ReshapeOptions(Box::new(options)), &shape, bound)
}

/// Another shape with the same number of elements. Adjacent axes are merged, or an axis is split by a factor of 4, 3, 2
/// or 1.
fn regrouped(draft: &mut Draft, shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    for _ in 0..draft.random.within(1, 3) {
        if shape.len() > 1 && draft.random.percent(60) {
            let axis = draft.random.below(shape.len() - 1);
            shape[axis] *= shape.remove(axis + 1);
        } else if shape.len() < 5 && !shape.is_empty() {
            let axis = draft.random.below(shape.len());
            let part = [4, 3, 2, 1].into_iter().find(|part| shape[axis].is_multiple_of(*part)).unwrap_or(1);
            shape[axis] /= part;
            shape.insert(axis + draft.random.below(2), part);
        }
    }
    shape
}

/// SLICE or STRIDED_SLICE.
pub(crate) fn slice(draft: &mut Draft, value: Id) -> Option<Id> {
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    (1..=5).contains(&shape.len()).then_some(())?;
    let part = |extent: &usize, draft: &mut Draft| {
        let begin = if draft.random.percent(50) { 0 } else { draft.random.below(*extent) };
        let end = if draft.random.percent(50) { *extent } else { draft.random.within(begin + 1, *extent) };
        (begin, end)
    };
    let parts: Vec<(usize, usize)> = shape.iter().map(|extent| part(extent, draft)).collect();
    let begins = draft.list(parts.iter().map(|(begin, _)| *begin));
    if draft.random.percent(40) {
        let sizes: Vec<usize> = parts.iter().map(|(begin, end)| end - begin).collect();
        let list = draft.list(sizes.iter().copied());
        let options = O::SliceOptions(Default::default());
        return draft.node((B::SLICE, 1), &[value, begins, list], options, &sizes, bound);
    }
    let strides: Vec<usize> = parts.iter().map(|_| draft.random.pick(&[1, 1, 2, 3])).collect();
    let sizes: Vec<usize> =
        parts.iter().zip(&strides).map(|((begin, end), stride)| (end - begin).div_ceil(*stride)).collect();
    let ends = draft.list(parts.iter().map(|(_, end)| *end));
    let steps = draft.list(strides);
    let single: Vec<usize> = (0..shape.len()).filter(|axis| parts[*axis].1 == parts[*axis].0 + 1).collect();
    let shrunk = if !single.is_empty() && draft.random.percent(30) { Some(draft.random.pick(&single)) } else { None };
    let kept = sizes.iter().enumerate().filter(|(axis, _)| Some(*axis) != shrunk);
    let result: Vec<usize> = kept.map(|(_, size)| *size).collect();
    let options =
        schema::StridedSliceOptionsT { shrink_axis_mask: shrunk.map_or(0, |axis| 1 << axis), ..Default::default() };
    let options = O::StridedSliceOptions(Box::new(options));
    draft.node((B::STRIDED_SLICE, 1), &[value, begins, ends, steps], options, &result, bound)
}

pub(crate) fn transpose(draft: &mut Draft, value: Id) -> Option<Id> {
    let (shape, bound) = (draft.shape(value), draft.bound(value));
    (2..=5).contains(&shape.len()).then_some(())?;
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    for last in (1..axes.len()).rev() {
        axes.swap(last, draft.random.within(0, last));
    }
    let result: Vec<usize> = axes.iter().map(|axis| shape[*axis]).collect();
    let axes = draft.list(axes);
    draft.node((B::TRANSPOSE, 1), &[value, axes], O::TransposeOptions(Default::default()), &result, bound)
}

/// CONCATENATION with existing values, which may include the value itself, and with constants.
pub(crate) fn concatenate(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    (1..=5).contains(&shape.len()).then_some(())?;
    let axis = if draft.random.percent(60) { shape.len() - 1 } else { draft.random.below(shape.len()) };
    let without = |shape: &[usize]| [&shape[..axis], &shape[axis + 1..]].concat();
    let matches = |other: &[usize]| other.len() == shape.len() && without(other) == without(&shape);
    let there = draft.peers(value, matches);
    let mut pieces = vec![value];
    for _ in 0..draft.random.within(1, 3) {
        pieces.push(match draft.random.percent(75) {
            true => draft.random.pick(&there),
            false => {
                let mut piece = shape.clone();
                piece[axis] = draft.random.within(1, 5);
                draft.constant_of(draft.of_type(value), &piece, 2.0)
            }
        });
    }
    if draft.random.percent(40) {
        pieces.reverse();
    }
    join(draft, &pieces, axis)
}

/// CONCATENATION of values whose extents are equal on all other axes.
pub(crate) fn join(draft: &mut Draft, pieces: &[Id], axis: usize) -> Option<Id> {
    let mut shape = draft.shape(pieces[0]);
    shape[axis] = pieces.iter().map(|piece| draft.values[*piece].shape[axis]).sum();
    let bound = pieces.iter().map(|piece| draft.bound(*piece)).fold(0.0, f32::max);
    let options = schema::ConcatenationOptionsT { axis: axis as i32, ..Default::default() };
    draft.node((B::CONCATENATION, 1), pieces, O::ConcatenationOptions(Box::new(options)), &shape, bound)
}

/// PACK of a value and a value of the same shape, which may be the same one.
pub(crate) fn pack(draft: &mut Draft, value: Id) -> Option<Id> {
    let mut shape = draft.shape(value);
    (shape.len() <= 3).then_some(())?;
    let there = draft.peers(value, |other| other == shape);
    let pieces = [value, draft.random.pick(&there)];
    let axis = draft.random.within(0, shape.len());
    shape.insert(axis, 2);
    let bound = pieces.map(|piece| draft.bound(piece)).into_iter().fold(0.0, f32::max);
    let options = schema::PackOptionsT { values_count: 2, axis: axis as i32 };
    draft.node((B::PACK, 1), &pieces, O::PackOptions(Box::new(options)), &shape, bound)
}

/// SPLIT into equal parts, or UNPACK.
pub(crate) fn split(draft: &mut Draft, value: Id) -> Option<Id> {
    let (mut shape, bound) = (draft.shape(value), draft.bound(value));
    let axes: Vec<usize> = (0..shape.len()).filter(|axis| (2..=12).contains(&shape[*axis])).collect();
    (!axes.is_empty()).then_some(())?;
    let axis = draft.random.pick(&axes);
    if shape[axis] <= 4 && draft.random.percent(40) {
        let num = shape.remove(axis);
        let options = O::UnpackOptions(Box::new(schema::UnpackOptionsT { num: num as i32, axis: axis as i32 }));
        return draft.split((B::UNPACK, 1), &[value], options, &vec![shape; num], bound).last().copied();
    }
    let parts = [2, 3].into_iter().find(|parts| shape[axis].is_multiple_of(*parts))?;
    shape[axis] /= parts;
    let along = draft.setting(&[], &[axis as i32]);
    let options = O::SplitOptions(Box::new(schema::SplitOptionsT { num_splits: parts as i32 }));
    draft.split((B::SPLIT, 1), &[along, value], options, &vec![shape; parts], bound).first().copied()
}

/// DEPTH_TO_SPACE or SPACE_TO_DEPTH with a block size of 2.
pub(crate) fn blocks(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth]: [usize; 4] = draft.shape(value).try_into().ok()?;
    let bound = draft.bound(value);
    if depth.is_multiple_of(4) && draft.random.percent(70) {
        let options = O::DepthToSpaceOptions(Box::new(schema::DepthToSpaceOptionsT { block_size: 2 }));
        let shape = [batch, 2 * height, 2 * width, depth / 4];
        return draft.node((B::DEPTH_TO_SPACE, 1), &[value], options, &shape, bound);
    }
    (height.is_multiple_of(2) && width.is_multiple_of(2)).then_some(())?;
    let options = O::SpaceToDepthOptions(Box::new(schema::SpaceToDepthOptionsT { block_size: 2 }));
    draft.node((B::SPACE_TO_DEPTH, 1), &[value], options, &[batch, height / 2, width / 2, 4 * depth], bound)
}

/// GATHER with constant indices, TILE, REVERSE_V2 or BROADCAST_TO.
pub(crate) fn replicate(draft: &mut Draft, value: Id) -> Option<Id> {
    let (mut shape, bound) = (draft.shape(value), draft.bound(value));
    (1..=4).contains(&shape.len()).then_some(())?;
    let axis = draft.random.below(shape.len());
    match draft.random.below(4) {
        0 => {
            let indices: Vec<usize> = (0..draft.random.within(1, 5)).map(|_| draft.random.below(shape[axis])).collect();
            shape[axis] = indices.len();
            let indices = draft.list(indices);
            let options = O::GatherOptions(Box::new(schema::GatherOptionsT { axis: axis as i32, batch_dims: 0 }));
            draft.node((B::GATHER, 1), &[value, indices], options, &shape, bound)
        }
        1 => {
            let times: Vec<usize> = shape.iter().map(|_| draft.random.pick(&[1, 1, 2])).collect();
            let shape: Vec<usize> = shape.iter().zip(&times).map(|(extent, times)| extent * times).collect();
            let times = draft.list(times);
            draft.node((B::TILE, 1), &[value, times], O::TileOptions(Default::default()), &shape, bound)
        }
        2 => {
            let axes = draft.list([axis]);
            draft.node((B::REVERSE_V2, 1), &[value, axes], O::ReverseV2Options(Default::default()), &shape, bound)
        }
        _ => {
            let grown: Vec<usize> = shape.iter().map(|extent| if *extent == 1 { 3 } else { *extent }).collect();
            let shape = [vec![draft.random.within(1, 2)], grown].concat();
            let target = draft.list(shape.iter().copied());
            draft.node((B::BROADCAST_TO, 2), &[value, target], O::BroadcastToOptions(Default::default()), &shape, bound)
        }
    }
}
