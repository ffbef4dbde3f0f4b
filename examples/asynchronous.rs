//! Starts runs without waiting for them: awaits one, gives one a deadline, and cancels one.
//!
//!     cargo run --release -p attache-examples --bin asynchronous [gpu] [MODEL]
//!
//! A run is a future that any executor can await; here it is the smallest one, `pollster`.

use std::thread;
use std::time::Duration;

use attache::{ErrorKind, Interpreter};
use attache_examples::{Arguments, Result};

fn main() -> Result {
    let arguments = Arguments::read();
    let model = arguments.model("mobilenet_v1_1.0_224")?;
    let mut interpreter = arguments.builder(&model)?.build()?;
    let mut input = interpreter.input(0)?;
    let grey = vec![0.5; input.elements()];
    input.quantize_from(&grey)?;

    println!("awaited: {:.4}", pollster::block_on(awaited(&mut interpreter))?);

    // A deadline. The run goes on after it, so it can be waited for again.
    let run = interpreter.invoke_async()?;
    match run.wait_timeout(Duration::from_micros(10)) {
        None => println!("not done after 10 µs"),
        Some(result) => println!("done: {result:?}"),
    }
    interpreter.wait(&run)?;
    println!("waited for: {:.4}", highest(&interpreter)?);

    // Cancellation, from any thread. Later runs are not cancelled, even if this one has ended before.
    let run = interpreter.invoke_async()?;
    let cancellation = interpreter.cancellation();
    thread::spawn(move || cancellation.cancel()).join().map_err(|_| "a thread panicked")?;
    match interpreter.wait(&run) {
        Err(error) if error.kind() == ErrorKind::Cancelled => println!("{error}"),
        result => println!("done before it was cancelled: {result:?}"),
    }
    println!("awaited again: {:.4}", pollster::block_on(awaited(&mut interpreter))?);
    Ok(())
}

/// Runs the model without blocking the thread, and returns the highest score.
async fn awaited(interpreter: &mut Interpreter) -> Result<f32> {
    let run = interpreter.invoke_async()?;
    run.clone().await?;
    // The run has ended, so this does not block; it makes the outputs available.
    interpreter.wait(run)?;
    highest(interpreter)
}

fn highest(interpreter: &Interpreter) -> Result<f32> {
    Ok(interpreter.output(0)?.dequantize()?.into_iter().fold(f32::MIN, f32::max))
}
