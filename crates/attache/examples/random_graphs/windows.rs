//! Steps that compute contractions, or that slide a window over an image.

use attache::model::schema::{self, BuiltinOperator as B, BuiltinOptionsT as O, Padding};

use crate::draft::{Draft, Id, channels};

/// Size, stride and dilation of a sliding window along one axis.
#[derive(Clone, Copy)]
struct Window {
    size: usize,
    stride: usize,
    dilation: usize,
}

impl Window {
    /// Number of window positions along an axis; `None` if the window does not fit.
    fn positions(self, extent: usize, padding: Padding) -> Option<usize> {
        let reach = (self.size - 1) * self.dilation + 1;
        match padding {
            Padding::SAME => Some(extent.div_ceil(self.stride)),
            _ => Some(extent.checked_sub(reach)? / self.stride + 1),
        }
    }
}

/// Random windows along height and width, their padding, and the height and width of the result.
fn windows(
    draft: &mut Draft,
    [height, width]: [usize; 2],
    sizes: &[usize],
) -> Option<([Window; 2], Padding, [usize; 2])> {
    let random = &mut draft.random;
    let padding = random.pick(&[Padding::SAME, Padding::VALID]);
    let [mut y, mut x] =
        [(); 2].map(|()| Window { size: random.pick(sizes), stride: random.pick(&[1, 1, 1, 2, 3]), dilation: 1 });
    if random.percent(60) {
        x = y;
    }
    if y.stride == 1 && x.stride == 1 && random.percent(15) {
        (y.dilation, x.dilation) = (2, 2);
    }
    Some(([y, x], padding, [y.positions(height, padding)?, x.positions(width, padding)?]))
}

/// A constant filter for sums of `terms` products.
fn filter(draft: &mut Draft, shape: &[usize], terms: usize) -> Id {
    // Uniform in ±√(3/n): the sum of n products with values of variance 1 has variance 1.
    draft.constant(shape, (3.0 / terms as f32).sqrt())
}

/// Estimate of the largest magnitude of such a sum plus a bias of at most 1.
fn contracted(draft: &Draft, value: Id) -> f32 {
    draft.bound(value) + 1.0
}

pub(crate) fn convolution(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth] = draft.image(value)?;
    let ([y, x], padding, [rows, columns]) = windows(draft, [height, width], &[1, 1, 2, 3, 3])?;
    let outputs = channels(&mut draft.random);
    let groups = if depth.is_multiple_of(2) && outputs.is_multiple_of(2) && draft.random.percent(8) { 2 } else { 1 };
    let (shape, bound) = ([batch, rows, columns, outputs], contracted(draft, value));
    draft.fits(value, &shape, bound).then_some(())?;
    let depth = depth / groups;
    let filter = filter(draft, &[outputs, y.size, x.size, depth], y.size * x.size * depth);
    let bias = draft.constant(&[outputs], 1.0);
    let options = schema::Conv2DOptionsT {
        padding,
        stride_h: y.stride as i32,
        stride_w: x.stride as i32,
        dilation_h_factor: y.dilation as i32,
        dilation_w_factor: x.dilation as i32,
        fused_activation_function: draft.activation(),
        ..Default::default()
    };
    let version = if groups > 1 { 6 } else { 1 };
    draft.node((B::CONV_2D, version), &[value, filter, bias], O::Conv2DOptions(Box::new(options)), &shape, bound)
}

pub(crate) fn depthwise(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth] = draft.image(value)?;
    let ([y, mut x], padding, [rows, mut columns]) = windows(draft, [height, width], &[1, 2, 3, 3, 5])?;
    // Both axes have the same stride, because LiteRT's default kernels support no other.
    if x.stride != y.stride {
        x.stride = y.stride;
        columns = x.positions(width, padding)?;
    }
    let multiplier = draft.random.pick(&[1, 1, 1, 2]);
    let (shape, bound) = ([batch, rows, columns, depth * multiplier], contracted(draft, value));
    draft.fits(value, &shape, bound).then_some(())?;
    let filter = filter(draft, &[1, y.size, x.size, depth * multiplier], y.size * x.size);
    let bias = draft.constant(&[depth * multiplier], 1.0);
    let options = schema::DepthwiseConv2DOptionsT {
        padding,
        stride_h: y.stride as i32,
        stride_w: x.stride as i32,
        dilation_h_factor: y.dilation as i32,
        dilation_w_factor: x.dilation as i32,
        depth_multiplier: multiplier as i32,
        fused_activation_function: draft.activation(),
    };
    let options = O::DepthwiseConv2DOptions(Box::new(options));
    draft.node((B::DEPTHWISE_CONV_2D, 2), &[value, filter, bias], options, &shape, bound)
}

pub(crate) fn transpose_convolution(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth] = draft.image(value)?;
    let random = &mut draft.random;
    let (size, stride) = (random.within(2, 4), random.pick(&[1, 2, 2, 3]));
    let (padding, outputs) = (random.pick(&[Padding::SAME, Padding::VALID]), random.pick(&[1, 3, 4, 8]));
    let extent = |extent: usize| match padding {
        Padding::SAME => extent * stride,
        _ => (extent - 1) * stride + size,
    };
    let (shape, bound) = ([batch, extent(height), extent(width), outputs], contracted(draft, value));
    draft.fits(value, &shape, bound).then_some(())?;
    let filter = filter(draft, &[outputs, size, size, depth], (size * size * depth).div_ceil(stride * stride));
    let bias = draft.constant(&[outputs], 1.0);
    let wanted = draft.list(shape);
    let options = schema::TransposeConvOptionsT {
        padding,
        stride_h: stride as i32,
        stride_w: stride as i32,
        ..Default::default()
    };
    let inputs = [wanted, filter, value, bias];
    let (version, inputs) = if draft.random.percent(50) { (3, &inputs[..]) } else { (1, &inputs[..3]) };
    draft.node((B::TRANSPOSE_CONV, version), inputs, O::TransposeConvOptions(Box::new(options)), &shape, bound)
}

/// AVERAGE_POOL_2D or MAX_POOL_2D.
pub(crate) fn pool(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth] = draft.image(value)?;
    let ([y, x], padding, _) = windows(draft, [height, width], &[1, 2, 3])?;
    let [y, x] = [y, x].map(|window| Window { dilation: 1, ..window });
    let shape = [batch, y.positions(height, padding)?, x.positions(width, padding)?, depth];
    let options = schema::Pool2DOptionsT {
        padding,
        stride_h: y.stride as i32,
        stride_w: x.stride as i32,
        filter_height: y.size as i32,
        filter_width: x.size as i32,
        fused_activation_function: draft.activation(),
    };
    let operator = draft.random.pick(&[B::AVERAGE_POOL_2D, B::MAX_POOL_2D]);
    draft.node((operator, 1), &[value], O::Pool2DOptions(Box::new(options)), &shape, draft.bound(value))
}

pub(crate) fn fully_connected(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let (depth, rest) = shape.split_last()?;
    let outputs = draft.random.pick(&[1, 3, 4, 8, 10, 17]);
    let keep_num_dims = rest.len() != 1 && draft.random.percent(60);
    let mut result = if keep_num_dims { rest.to_vec() } else { vec![rest.iter().product()] };
    result.push(outputs);
    let bound = contracted(draft, value);
    (*depth <= 256 && draft.fits(value, &result, bound)).then_some(())?;
    let filter = filter(draft, &[outputs, *depth], *depth);
    let bias = draft.constant(&[outputs], 1.0);
    let options = schema::FullyConnectedOptionsT {
        keep_num_dims,
        fused_activation_function: draft.activation(),
        ..Default::default()
    };
    let options = O::FullyConnectedOptions(Box::new(options));
    let version = if keep_num_dims { 5 } else { 1 };
    draft.node((B::FULLY_CONNECTED, version), &[value, filter, bias], options, &result, bound)
}

/// BATCH_MATMUL by the transpose of a value with the same batch axes and row length, which may be the value itself.
pub(crate) fn multiply_matrices(draft: &mut Draft, value: Id) -> Option<Id> {
    let shape = draft.shape(value);
    let (rank, depth) = (shape.len(), *shape.last()?);
    (2..=4).contains(&rank).then_some(())?;
    let there = draft.peers(value, |other| {
        other.len() == rank && other[..rank - 2] == shape[..rank - 2] && other[rank - 1] == depth
    });
    let other = draft.random.pick(&there);
    let result = [&shape[..rank - 1], &[draft.shape(other)[rank - 2]]].concat();
    let bound = draft.bound(value) * draft.bound(other) * (depth as f32).sqrt() / 2.0;
    let options = schema::BatchMatMulOptionsT { adj_y: true, ..Default::default() };
    draft.node((B::BATCH_MATMUL, 1), &[value, other], O::BatchMatMulOptions(Box::new(options)), &result, bound)
}

/// RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR.
pub(crate) fn resize(draft: &mut Draft, value: Id) -> Option<Id> {
    let [batch, height, width, depth] = draft.image(value)?;
    let random = &mut draft.random;
    let twice = random.percent(50);
    let [rows, columns] = [height, width].map(|extent| if twice { 2 * extent } else { random.within(1, 12) });
    let (align_corners, half_pixel_centers) = random.pick(&[(false, false), (true, false), (false, true)]);
    let is_linear = random.percent(60);
    let (shape, bound) = ([batch, rows, columns, depth], draft.bound(value));
    draft.fits(value, &shape, bound).then_some(())?;
    let size = draft.list([rows, columns]);
    let version = if half_pixel_centers { 3 } else { 1 };
    let (operator, options) = if is_linear {
        let options = schema::ResizeBilinearOptionsT { align_corners, half_pixel_centers };
        (B::RESIZE_BILINEAR, O::ResizeBilinearOptions(Box::new(options)))
    } else {
        let options = schema::ResizeNearestNeighborOptionsT { align_corners, half_pixel_centers };
        (B::RESIZE_NEAREST_NEIGHBOR, O::ResizeNearestNeighborOptions(Box::new(options)))
    };
    draft.node((operator, version), &[value, size], options, &shape, bound)
}
