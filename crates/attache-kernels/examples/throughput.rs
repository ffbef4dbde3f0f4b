//! Prints the throughput of the f32 kernels: on one thread with each instruction set, then on all threads with the best
//! instruction set, after what it takes to hand tasks over. Times are medians over many calls.

use std::time::Instant;

use attache_base::{Activation, Parallel, Pool, Serial};
use attache_kernels::convolution::{Convolution, PackedFilter, convolve};
use attache_kernels::depthwise::{PackedDepthwise, depthwise};
use attache_kernels::elementwise::{Binary, Unary, binary, unary};
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_kernels::pooling::{Pooling, average_pool, max_pool};
use attache_kernels::reduce::{Reduction, reduce};
use attache_kernels::resize::{Resize, bilinear};
use attache_kernels::softmax::softmax;
use attache_kernels::transpose_convolution::{PackedTransposeFilter, transpose_convolve};
use attache_kernels::{AlignedFloats, Engine, Isa};

/// Returns the median duration of `call`, in seconds.
fn median(mut call: impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    call();
    let rounds = (0.15 / start.elapsed().as_secs_f64()).clamp(5.0, 2000.0) as usize;
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

fn zeros(count: usize) -> AlignedFloats {
    AlignedFloats::zeros(count)
}

fn floats(count: usize) -> AlignedFloats {
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
    AlignedFloats::from(&*values)
}

fn print(engine: Engine, what: &str, unit: &str, amount: f64, seconds: f64) {
    let (isa, threads) = (engine.isa.name(), engine.parallel.threads());
    println!("{isa:<9} x{threads} {what:<36} {:>8.1} {unit:<7} {:>9.1} us", amount / seconds / 1e9, seconds * 1e6);
}

fn same(size: [usize; 3], outputs: usize, kernel: usize, stride: usize) -> Convolution {
    let [h, w, _] = size;
    let output = [h.div_ceil(stride), w.div_ceil(stride)];
    let before = |i: usize, o: usize| ((o - 1) * stride + kernel).saturating_sub(i) / 2;
    Convolution {
        batches: 1,
        input: size,
        output: [output[0], output[1], outputs],
        kernel: [kernel; 2],
        strides: [stride; 2],
        dilations: [1, 1],
        before: [before(h, output[0]), before(w, output[1])],
        first: 0,
        groups: 1,
        clamp: (0.0, 6.0),
    }
}

fn products(engine: Engine) {
    for [m, k, n] in
        [[12544, 32, 64], [3136, 128, 128], [784, 256, 256], [196, 512, 512], [49, 1024, 1024], [1, 1024, 1001]]
    {
        let (a, weights, bias) = (floats(m * k), floats(n * k), floats(n));
        let matrix = PackedMatrix::pack(engine.isa, n, k, &weights, Some(&bias));
        let mut c = zeros(m * n);
        let seconds = median(|| gemm(engine, m, &a, k, &matrix, &mut c, n, (0.0, 6.0)));
        print(engine, &format!("gemm {m}x{k}x{n}"), "GF/s", 2.0 * (m * k * n) as f64, seconds);
    }
    let cases = [
        ([224, 224, 3], 32, 3, 2),
        ([56, 56, 64], 64, 3, 1),
        ([28, 28, 128], 128, 3, 1),
        ([14, 14, 256], 256, 3, 1),
        ([7, 7, 512], 512, 3, 1),
        ([112, 112, 16], 16, 5, 1),
        ([128, 128, 3], 24, 5, 2),
    ];
    for (input, outputs, kernel, stride) in cases {
        let convolution = same(input, outputs, kernel, stride);
        let filter = floats(outputs * kernel * kernel * input[2]);
        let packed = PackedFilter::pack(engine.isa, &convolution, &filter, None);
        let source = floats(input.iter().product());
        let mut output = zeros(convolution.output.iter().product());
        let seconds = median(|| convolve(engine, &convolution, &source, &packed, &mut output));
        let flops = 2 * output.len() * kernel * kernel * input[2];
        print(
            engine,
            &format!("conv {kernel}x{kernel}/{stride} {input:?} -> {outputs}"),
            "GF/s",
            flops as f64,
            seconds,
        );
    }
    for (input, outputs, kernel, stride) in
        [([32, 32, 64], 32, 4, 2), ([16, 16, 128], 64, 2, 2), ([64, 64, 32], 16, 3, 2)]
    {
        let mut convolution = same([input[0] * stride, input[1] * stride, outputs], input[2], kernel, stride);
        (convolution.input, convolution.output) = (input, convolution.input);
        let filter = floats(outputs * kernel * kernel * input[2]);
        let packed = PackedTransposeFilter::pack(engine.isa, &convolution, &filter, None);
        let source = floats(input.iter().product());
        let mut output = zeros(convolution.output.iter().product());
        let seconds = median(|| transpose_convolve(engine, &convolution, &source, &packed, &mut output));
        let flops = 2 * source.len() * kernel * kernel * outputs;
        print(
            engine,
            &format!("transpose {kernel}x{kernel}/{stride} {input:?} -> {outputs}"),
            "GF/s",
            flops as f64,
            seconds,
        );
    }
}

fn windows(engine: Engine) {
    let cases = [
        ([112, 112, 32], 1, 3, 1),
        ([112, 112, 64], 1, 3, 2),
        ([56, 56, 128], 1, 3, 1),
        ([14, 14, 512], 1, 3, 1),
        ([7, 7, 1024], 1, 3, 1),
        ([28, 28, 192], 1, 3, 2),
        ([64, 64, 24], 1, 5, 1),
        ([28, 28, 120], 1, 5, 1),
        ([112, 112, 8], 4, 3, 1),
        ([49, 10, 1], 64, 5, 2),
    ];
    for (input, multiplier, kernel, stride) in cases {
        let convolution = same(input, input[2] * multiplier, kernel, stride);
        let filter = floats(convolution.output[2] * kernel * kernel);
        let packed = PackedDepthwise::pack(engine.isa, &convolution, &filter, None);
        let source = floats(input.iter().product());
        let mut output = zeros(convolution.output.iter().product());
        let seconds = median(|| depthwise(engine, &convolution, &source, &packed, &mut output));
        let flops = 2 * output.len() * kernel * kernel;
        print(
            engine,
            &format!("depthwise {kernel}x{kernel}/{stride} {input:?} x{multiplier}"),
            "GF/s",
            flops as f64,
            seconds,
        );
    }
    let pooling = Pooling {
        batches: 1,
        input: [112, 112, 64],
        output: [56, 56],
        kernel: [3, 3],
        strides: [2, 2],
        before: [0, 0],
        clamp: (f32::MIN, f32::MAX),
    };
    let (source, mut output) = (floats(112 * 112 * 64), zeros(56 * 56 * 64));
    let elements = 9.0 * output.len() as f64;
    let seconds = median(|| average_pool(engine, &pooling, &source, &mut output));
    print(engine, "average 3x3/2 [112, 112, 64]", "Gtap/s", elements, seconds);
    let seconds = median(|| max_pool(engine, &pooling, &source, &mut output));
    print(engine, "maximum 3x3/2 [112, 112, 64]", "Gtap/s", elements, seconds);
    let resize =
        Resize { batches: 1, input: [33, 33, 21], output: [257, 257], align_corners: true, half_pixel_centers: false };
    let mut output = zeros(257 * 257 * 21);
    let source = floats(33 * 33 * 21);
    let seconds = median(|| bilinear(engine, &resize, &source, &mut output));
    print(engine, "bilinear [33, 33, 21] -> 257", "Gel/s", output.len() as f64, seconds);
}

fn streams(engine: Engine) {
    let shape = [56, 56, 128];
    let count = 56 * 56 * 128;
    let (a, b, mut output) = (floats(count), floats(count), zeros(count));
    for (what, right) in [("add, same shape", &shape[..]), ("add, channels", &shape[2..]), ("add, scalar", &[])] {
        let b = &b[..right.iter().product()];
        let run = || binary(engine, Binary::Add, (&a, &shape), (b, right), (&mut output, &shape), Activation::Relu);
        let seconds = median(run);
        print(engine, what, "Gel/s", count as f64, seconds);
    }
    let [pixels, colours] = [[count / 32, 32], [count / 4, 4]];
    for shape in [pixels, colours] {
        let mut run = || {
            binary(
                engine,
                Binary::Prelu,
                (&a, &shape),
                (&b[..shape[1]], &shape[1..]),
                (&mut output, &shape),
                Activation::None,
            )
        };
        let seconds = median(&mut run);
        print(engine, &format!("prelu, {} channels", shape[1]), "Gel/s", count as f64, seconds);
    }
    let functions = [
        Unary::Clamp(0.0, 6.0),
        Unary::HardSwish,
        Unary::Exp,
        Unary::Log,
        Unary::Logistic,
        Unary::Tanh,
        Unary::Gelu,
        Unary::Elu,
        Unary::Floor,
        Unary::Rsqrt,
        Unary::Sin,
    ];
    for function in functions {
        let seconds = median(|| unary(engine, function, &a, &mut output));
        print(engine, &format!("{function:?}"), "Gel/s", count as f64, seconds);
    }
    let seconds = median(|| softmax(engine, &a, &mut output, 128, 1.0));
    print(engine, "softmax, depth 128", "Gel/s", count as f64, seconds);
    let seconds = median(|| {
        reduce(engine, Reduction::Mean, &a, &shape, &[true, true, false], &mut output[..128]);
    });
    print(engine, "mean over height and width", "Gel/s", count as f64, seconds);
    let seconds = median(|| {
        reduce(engine, Reduction::Mean, &a, &shape, &[false, false, true], &mut output[..56 * 56]);
    });
    print(engine, "mean over channels", "Gel/s", count as f64, seconds);
    let seconds = median(|| attache_kernels::movement::transpose(engine, &a, &shape, &[2, 0, 1], &mut output));
    print(engine, "transpose to channels first", "Gel/s", count as f64, seconds);
}

fn measure(engine: Engine, wanted: &[String]) {
    let groups = [("contractions", products as fn(Engine)), ("windows", windows), ("streams", streams)];
    let chosen = |name: &str| wanted.iter().any(|word| word == name);
    let any = groups.iter().any(|(name, _)| chosen(name));
    groups.iter().filter(|(name, _)| !any || chosen(name)).for_each(|(_, group)| group(engine));
}

/// Measures the groups of kernels named by the arguments, or all groups if none is named. The argument `best`
/// restricts the single-threaded measurements to the best instruction set.
fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for isa in Isa::available().into_iter().rev() {
        if isa == Isa::detect() || !wanted.iter().any(|word| word == "best") {
            measure(Engine { isa, parallel: &Serial }, &wanted);
        }
    }
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in (1..).map(|power| 1usize << power).take_while(|threads| *threads <= most) {
        let pool = Pool::new(threads);
        let seconds = median(|| (0..100).for_each(|_| pool.run(threads, &|_| ()))) / 100.0;
        println!("to hand an empty task to each of {threads} threads and wait for them: {:.2} us", seconds * 1e6);
    }
    let pool = Pool::new(most);
    measure(Engine::new(&pool), &wanted);
}
