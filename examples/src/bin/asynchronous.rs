//! Starts runs without waiting for them: awaits one, gives one a deadline, and cancels one.
//!
//!     cargo run --release -p attache-examples --bin asynchronous [gpu] [MODEL]
//!
//! A run is a future that any executor can await; here it is the smallest one, `pollster`.

use std::time::Duration;

use attache::{ErrorKind, Interpreter};
use attache_examples::{Arguments, Result, picture};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("mobilenet_v1_1.0_224")?;
    let mut interpreter = arguments.builder(&model)?.build()?;
    let mut input = interpreter.input(0)?;
    let picture = picture::floats(&picture::open(None)?, input.shape())?;
    input.quantize_from(&picture)?;

    println!("awaited: {:.4}", pollster::block_on(highest(&mut interpreter))?);

    // A deadline. The run goes on after it, so it can be waited for again.
    let run = interpreter.invoke_async()?;
    match run.wait_timeout(Duration::from_micros(10)) {
        None => println!("not done after 10 µs"),
        Some(result) => println!("done: {result:?}"),
    }
    interpreter.wait(&run)?;
    println!("waited for: {:.4}", interpreter.output(0)?.dequantize()?[0]);

    // Cancellation, from any thread. The interpreter can run again afterwards.
    let cancellation = interpreter.cancellation();
    let run = interpreter.invoke_async()?;
    std::thread::spawn(move || cancellation.cancel()).join().map_err(|_| "a thread panicked")?;
    let error = interpreter.wait(&run).expect_err("the run was cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    println!("{error}");
    println!("awaited again: {:.4}", pollster::block_on(highest(&mut interpreter))?);
    Ok(())
}

/// Runs the model without blocking the thread, and returns the highest score.
async fn highest(interpreter: &mut Interpreter) -> Result<f32> {
    let run = interpreter.invoke_async()?;
    run.clone().await?;
    interpreter.wait(run)?;
    Ok(interpreter.output(0)?.dequantize()?.into_iter().fold(f32::MIN, f32::max))
}
