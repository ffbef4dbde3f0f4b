//! Attention whose caches are carried over: products that update the cache which they read, beside those of the CPU.

use std::sync::Arc;

use attache::DataType::{Float32, Int32};
use attache::gpu::{GpuStage, stage};
use attache::model::schema::{BatchMatMulOptionsT, BuiltinOperator, BuiltinOptionsT, SoftmaxOptionsT};
use attache::{
    Delegate, GpuDelegate, GpuDelegateOptions, Interpreter, Limits, Model, ModelBuilder, OperatorBuilder, TensorBuilder,
};

/// Sizes of attention: each of `heads` caches of `length` rows of `depth` elements is read by `queries` products of `tokens`
/// rows.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    heads: usize,
    queries: usize,
    tokens: usize,
    length: usize,
    depth: usize,
}

/// Inputs: the place of the new rows, queries, new keys, new values, the two caches. Outputs: the two caches, the result.
const PLACE: usize = 0;
const KEYS: usize = 4;
const VALUES: usize = 5;

fn model(Sizes { heads, queries, tokens, length, depth }: Sizes, is_read_twice: bool) -> Model {
    let mut net = ModelBuilder::new("attention");
    net.subgraph("main");
    let place = net.tensor(0, TensorBuilder::new("", Int32, [4]));
    let mut floats = |shape: [usize; 4]| net.tensor(0, TensorBuilder::new("", Float32, shape));
    let [query, result] = [(); 2].map(|()| floats([heads, queries, tokens, depth]));
    let [new_keys, new_values, turned] = [(); 3].map(|()| floats([heads, 1, tokens, depth]));
    let [keys, values, next_keys, next_values, twice] = [(); 5].map(|()| floats([heads, 1, length, depth]));
    let [scores, weights] = [(); 2].map(|()| floats([heads, queries, tokens, length]));
    let mut add = |operator, inputs: &[usize], output, options: Option<BuiltinOptionsT>| {
        let operator = OperatorBuilder::new(operator, inputs.iter().copied(), [output]);
        net.operator(
            0,
            match options {
                Some(options) => operator.options(options),
                None => operator,
            },
        );
    };
    let product = |adj_y| {
        let options = BatchMatMulOptionsT { adj_y, ..BatchMatMulOptionsT::default() };
        Some(BuiltinOptionsT::BatchMatMulOptions(Box::new(options)))
    };
    let softmax = BuiltinOptionsT::SoftmaxOptions(Box::new(SoftmaxOptionsT { beta: 1.0 }));
    add(BuiltinOperator::NEG, &[new_keys], turned, None);
    add(BuiltinOperator::DYNAMIC_UPDATE_SLICE, &[keys, turned, place], next_keys, None);
    add(BuiltinOperator::DYNAMIC_UPDATE_SLICE, &[values, new_values, place], next_values, None);
    add(BuiltinOperator::BATCH_MATMUL, &[query, next_keys], scores, product(true));
    add(BuiltinOperator::SOFTMAX, &[scores], weights, Some(softmax));
    add(BuiltinOperator::BATCH_MATMUL, &[weights, next_values], result, product(false));
    let mut outputs = vec![next_keys, next_values, result];
    if is_read_twice {
        add(BuiltinOperator::ABS, &[next_values], twice, None);
        outputs.push(twice);
    }
    net.inputs(0, &[place, query, new_keys, new_values, keys, values]).outputs(0, &outputs);
    Model::from_bytes(net.finish()).unwrap()
}

/// Returns the outputs of steps between which the caches are carried over, if `is_carried`, or else written by the program.
fn steps(interpreter: &mut Interpreter, length: usize, is_carried: bool) -> Vec<Vec<f32>> {
    let mut made = Vec::new();
    for step in 0..6 {
        // The last places are beyond what fits, and clamped.
        interpreter.write(PLACE, &[0, 0, (step * length / 4) as i32, 0]).unwrap();
        for input in (1..6).filter(|input| step == 0 || *input < KEYS) {
            let count = interpreter.inputs()[input].shape.elements();
            let value = |index: usize| ((index * 7 + input * 13 + step * 5) % 23) as f32 / 23.0 - 0.4;
            interpreter.write(input, &(0..count).map(value).collect::<Vec<f32>>()).unwrap();
        }
        interpreter.invoke().unwrap();
        // The program does not read the caches of each run.
        let read: Vec<usize> =
            (0..interpreter.outputs().len()).filter(|output| step % 2 == 1 || *output >= 2).collect();
        made.extend(read.iter().map(|output| interpreter.read::<f32>(*output).unwrap().to_vec()));
        for (output, input) in [(0, KEYS), (1, VALUES)] {
            match is_carried {
                true => interpreter.carry(output, input).unwrap(),
                false => {
                    let cache = interpreter.read::<f32>(output).unwrap().to_vec();
                    interpreter.write(input, &cache).unwrap();
                }
            }
        }
    }
    made
}

#[test]
fn products_update_the_caches_that_they_read() {
    let _alone = crate::validation::alone();
    let sizes = [
        Sizes { heads: 2, queries: 1, tokens: 1, length: 64, depth: 32 },
        Sizes { heads: 2, queries: 3, tokens: 1, length: 200, depth: 64 },
        Sizes { heads: 1, queries: 2, tokens: 3, length: 40, depth: 36 },
        Sizes { heads: 3, queries: 1, tokens: 7, length: 90, depth: 33 },
        Sizes { heads: 1, queries: 1, tokens: 2, length: 513, depth: 48 },
    ];
    for (sizes, is_read_twice) in sizes.into_iter().flat_map(|sizes| [(sizes, false), (sizes, true)]) {
        for without in [false, true] {
            check(sizes, is_read_twice, without);
        }
    }
}

/// Checks the steps of a device with subgroups, or without, against those of the CPU.
fn check(sizes: Sizes, is_read_twice: bool, without_subgroups: bool) {
    let model = model(sizes, is_read_twice);
    let options = GpuDelegateOptions::default().software(true).own_memory(true).validation(true).as_hardware(true);
    let options = options.no_subgroups(without_subgroups);
    let delegate = GpuDelegate::new(options).unwrap();
    let plan = stage(&model, 0, &[], &delegate, GpuStage::Plan, &Limits::default()).unwrap();
    // Both products, or the one whose cache is not read again.
    let places = plan.lines().filter_map(|line| line.strip_prefix("in place of ")?.split(" where ").next());
    let updating = places.filter(|places| places.contains(" and ")).count();
    assert_eq!(updating, if is_read_twice { 1 } else { 2 }, "{sizes:?}\n{plan}");
    let gpu: Arc<dyn Delegate> = Arc::new(delegate);
    let mut on_gpu = Interpreter::builder(&model).delegate(gpu).require_delegation(true).build().unwrap();
    assert_eq!(on_gpu.in_place_updates().len(), 2);
    let mut on_cpu = Interpreter::builder(&model).build().unwrap();
    let [made, expected] = [(&mut on_gpu, true), (&mut on_cpu, false)]
        .map(|(interpreter, is_carried)| steps(interpreter, sizes.length, is_carried));
    assert_eq!(made.len(), expected.len());
    for (index, (made, expected)) in made.iter().zip(&expected).enumerate() {
        let is_close = made.iter().zip(expected).all(|(made, expected)| (made - expected).abs() <= 1e-5);
        assert!(is_close, "output {index}, {sizes:?}");
    }
}
