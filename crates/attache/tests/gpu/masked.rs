//! Softmax of scores to which a mask adds a constant beyond the range of 16 bits, where some rows have no score that
//! counts: as exact in 16 bits as elsewhere.

use std::sync::Arc;

use attache::gpu::Precision;
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, SoftmaxOptionsT};
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Model, OperatorBuilder};

use crate::common::{Net, floats, on_cpu, run};

const SCORES: [usize; 3] = [2, 4, 8];

/// Adds SOFTMAX of scores.
fn softmax(net: &mut Net, scores: usize) -> usize {
    let output = net.tensor("", &SCORES);
    let options = BuiltinOptionsT::SoftmaxOptions(Box::new(SoftmaxOptionsT { beta: 1.0 }));
    net.builder.operator(0, OperatorBuilder::new(BuiltinOperator::SOFTMAX, [scores], [output]).options(options));
    output
}

/// Returns a model of `x + (1 - mask) * large` and `x + large`, of the greatest elements of both, and of softmax of both.
fn model(large: f32) -> Model {
    let mut net = Net::new();
    let (scores, mask) = (net.tensor("scores", &SCORES), net.tensor("mask", &[2, 1, 8]));
    let [half, one, factor] = [0.5, 1.0, large].map(|value| net.constant(&[value]));
    let scaled = net.multiply(scores, half, &SCORES);
    let turned = net.tensor("", &[2, 1, 8]);
    net.builder.operator(0, OperatorBuilder::new(BuiltinOperator::SUB, [one, mask], [turned]));
    let masks = [net.multiply(turned, factor, &[2, 1, 8]), net.constant(&[large; 8])];
    let sums = masks.map(|mask| net.add(scaled, mask, &SCORES));
    // A second reader, so that the sums are stored.
    let bound = net.constant(&[-2.0]);
    let others = sums.map(|sum| {
        let output = net.tensor("", &SCORES);
        net.builder.operator(0, OperatorBuilder::new(BuiltinOperator::MAXIMUM, [sum, bound], [output]));
        output
    });
    let rows = sums.map(|sum| softmax(&mut net, sum));
    net.finish(&[scores, mask], &[rows, others].concat())
}

#[test]
fn rows_without_scores_have_a_softmax_in_16_bits() {
    let scores: Vec<f32> = (0..64).map(|index| (index * 37 % 64) as f32 / 8.0 - 4.0).collect();
    // Nothing of the first batch counts, and a part of the second.
    let mask: Vec<f32> = (0..16).map(|index| if index < 11 { 0.0 } else { 1.0 }).collect();
    for large in [-1e9, f32::MIN] {
        let model = model(large);
        let mut expected = on_cpu(&model);
        run(&mut expected, &[&scores, &mask]);
        for (precision, in_pairs) in [(Precision::F32, false), (Precision::F16, false), (Precision::F16, true)] {
            let options = GpuDelegateOptions::default().software(true).precision(precision).no_shader_f16(in_pairs);
            let gpu = Arc::new(GpuDelegate::new(options).expect("a device to test on"));
            let mut found = Interpreter::builder(&model).delegate(gpu).require_delegation(true).build().unwrap();
            run(&mut found, &[&scores, &mask]);
            for output in 0..4 {
                for (expected, found) in floats(&expected, output).into_iter().zip(floats(&found, output)) {
                    let near = (expected - found).abs() <= 2e-3;
                    assert!(near, "{large}, {precision:?}, {in_pairs}, {output}: {found}, not {expected}");
                }
            }
        }
    }
}
