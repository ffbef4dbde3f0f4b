//! Runs several interpreters of one compiled model at once.
//!
//!     cargo run --release -p attache-examples --bin threads [gpu] [MODEL]
//!
//! The model is compiled once. Its interpreters share the weights and what the GPU prepared; each has its own inputs,
//! outputs and memory for intermediate tensors.

use std::thread;

use attache_examples::{Arguments, Result};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("lstm_128")?;
    // Each interpreter works on one thread, since there are several of them.
    let compiled = arguments.builder(&model)?.threads(1).compile()?;

    let work = |number: usize| -> Result<(f32, usize)> {
        let mut interpreter = compiled.interpreter()?;
        interpreter.input_mut::<f32>(0)?.fill(number as f32 / 4.0);
        interpreter.invoke()?;
        let scores = interpreter.output(0)?.dequantize()?;
        let highest = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
        Ok((scores[highest], highest))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || work(number))).collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let (score, class) = thread.join().map_err(|_| "a thread panicked")??;
            println!("thread {number}: class {class} with {score:.4}");
        }
        Ok(())
    })
}
