//! Measures where a model's time goes on the GPU: for each dispatch its operators, its work and its share of
//! the device's peaks. Times are medians of several runs, and everything else is computed from them.

use attache::ProfiledDispatch;
use serde::{Deserialize, Serialize};

use super::operator::{Operator, label, median, names, percent};
use super::operators::CpuProfile;
use crate::console::Console;
use crate::device::{Device, DevicePeaks};
use crate::failure::Failure;
use crate::measure::caller::Caller;
use crate::measure::timing::Stop;

/// Number of warm-up runs before the profiled runs.
const WARM_UP: usize = 3;
/// Number of profiled runs, unless they take longer than `MOST_SECONDS`.
const RUNS: usize = 30;
/// Time limit of the warm-up runs and of the profiled runs of `bench`, each, in seconds.
pub(super) const MOST_SECONDS: f64 = 20.0;

/// One dispatch of a run. Times in microseconds are medians over the profiled runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Dispatch {
    pub(super) partition: usize,
    /// The name of the kernel variant.
    pub(super) kernel: String,
    /// The operators that the dispatch computes.
    pub(super) operators: Vec<Operator>,
    /// Microseconds between the end of the previous dispatch of the partition and the start of this dispatch.
    pub(super) wait_us: f64,
    pub(super) us: f64,
    pub(super) operations: u64,
    /// Whether matrix units execute the operations. Matrix units have a peak rate of their own.
    #[serde(default)]
    pub(super) on_matrices: bool,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// The dispatch's share of the GPU time of a run, in percent.
    pub(super) time_percent: f64,
    /// Bytes that the dispatch reads and writes, in percent of those that the device copies in the same time
    /// at its peak rate.
    pub(super) bandwidth_percent: f64,
    /// Operations of the dispatch, in percent of those that the device executes in the same time at its peak
    /// rate.
    pub(super) arithmetic_percent: f64,
    /// The larger of `bandwidth_percent` and `arithmetic_percent`: at 100 no shader could be faster.
    pub(super) roofline_percent: f64,
}

/// The sums over all dispatches whose operators have the same names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Total {
    pub(super) operators: String,
    pub(super) dispatches: usize,
    pub(super) us: f64,
    pub(super) time_percent: f64,
}

/// Where the time of a run goes on the GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Profile {
    pub(super) runs: usize,
    pub(super) peaks: DevicePeaks,
    /// Microseconds from the start of the first dispatch to the end of the last, without the time between
    /// partitions.
    pub(super) gpu_us: f64,
    /// Microseconds spent in dispatches.
    pub(super) dispatches_us: f64,
    /// Microseconds between the dispatches of a partition, for barriers and starts of dispatches.
    pub(super) between_us: f64,
    pub(super) between_percent: f64,
    /// Number of barriers between dispatches, if known.
    pub(super) barriers: Option<usize>,
    /// Sums by the names of operators, the longest time first.
    pub(super) totals: Vec<Total>,
    /// All dispatches of a run, in order of execution.
    pub(super) dispatches: Vec<Dispatch>,
}

/// Where the time of a run goes, on the GPU and on the CPU; `None` where nothing runs.
pub(in crate::commands) struct Profiles {
    pub(super) gpu: Option<Profile>,
    pub(super) cpu: Option<CpuProfile>,
}

impl Profiles {
    /// Profiles a model with a caller of an interpreter that times each dispatch and each operator. It is an
    /// error if the interpreter does not have `placed` partitions, the number without timing. Warm-up runs and profiled runs
    /// take at most `seconds` each, after the first of each, which is not interrupted.
    pub(in crate::commands) fn measure(
        device: &Device,
        mut caller: Caller,
        placed: usize,
        seconds: f64,
    ) -> Result<Self, Failure> {
        let placement = caller.interpreter.placement();
        if placement.partitions != placed {
            let log = placement.log.join("\n");
            return Err(Failure::unsupported(format!("what the GPU takes cannot all be timed\n{log}")));
        }
        Stop { runs: WARM_UP, seconds: 0.0, most: seconds }.time(|| caller.end_to_end())?;
        let mut runs = Vec::new();
        Stop { runs: RUNS, seconds: 0.0, most: seconds }.time(|| {
            caller.end_to_end()?;
            runs.push(caller.interpreter.profile()?);
            Ok(())
        })?;
        let gpu = (placed > 0).then(|| Ok::<_, Failure>(Profile::of(&runs, device.peaks()?))).transpose()?;
        Ok(Self { gpu, cpu: CpuProfile::of(&runs) })
    }

    /// Formats both profiles as text.
    pub(super) fn text(&self, console: &Console) -> String {
        let gpu = self.gpu.as_ref().map(|profile| profile.text(console));
        let cpu = self.cpu.as_ref().map(|profile| profile.text(console));
        let texts: Vec<String> = gpu.into_iter().chain(cpu).collect();
        if texts.is_empty() {
            "there is nothing to profile: the model has no operators".to_owned()
        } else {
            texts.join("\n")
        }
    }

    /// Returns the sums of both profiles: names of operators, how many there are, microseconds, and whether they run on
    /// the GPU.
    pub(in crate::commands) fn shares(&self) -> Vec<(String, usize, f64, bool)> {
        let totals = self.gpu.iter().flat_map(|profile| &profile.totals);
        let gpu = totals.map(|total| (total.operators.clone(), total.dispatches, total.us, true));
        gpu.chain(self.cpu.iter().flat_map(CpuProfile::shares)).collect()
    }

    /// Summarizes both profiles in one line.
    pub(in crate::commands) fn summary(&self) -> String {
        let gpu = self.gpu.as_ref().map(Profile::summary);
        gpu.into_iter().chain(self.cpu.as_ref().map(CpuProfile::summary)).collect::<Vec<_>>().join("; ")
    }
}

impl Profile {
    fn of(runs: &[attache::Profile], peaks: DevicePeaks) -> Self {
        let count = runs.iter().map(|run| run.dispatches.len()).min().unwrap_or(0);
        let timed: Vec<(f64, f64)> = (0..count)
            .map(|index| {
                let waits: Vec<f64> = runs.iter().map(|run| wait(&run.dispatches, index)).collect();
                let spans = runs.iter().map(|run| &run.dispatches[index].dispatch);
                let times: Vec<f64> = spans.map(|span| (span.end_ns - span.begin_ns).max(0.0) / 1e3).collect();
                (median(&waits), median(&times))
            })
            .collect();
        let (between_us, dispatches_us) = timed.iter().fold((0.0, 0.0), |sum, time| (sum.0 + time.0, sum.1 + time.1));
        let gpu_us = between_us + dispatches_us;
        let made = runs.first().map_or(&[][..], |run| &run.dispatches[..count]);
        let dispatches: Vec<Dispatch> = (made.iter().zip(&timed))
            .map(|(made, (wait_us, us))| dispatch(made, *wait_us, *us, percent(*us, gpu_us), &peaks))
            .collect();
        Self {
            runs: runs.len(),
            peaks,
            gpu_us,
            dispatches_us,
            between_us,
            between_percent: percent(between_us, gpu_us),
            barriers: runs.first().and_then(|run| run.barriers),
            totals: totals(&dispatches, gpu_us),
            dispatches,
        }
    }

    /// Returns an iterator over the dispatches, each with its start in microseconds. The starts are computed
    /// as if partitions directly followed each other.
    pub(super) fn begins(&self) -> impl Iterator<Item = (f64, &Dispatch)> {
        self.dispatches.iter().scan(0.0, |clock, dispatch| {
            let begin = *clock + dispatch.wait_us;
            *clock = begin + dispatch.us;
            Some((begin, dispatch))
        })
    }

    /// Summarizes the profile in one line.
    pub(super) fn summary(&self) -> String {
        let barriers = self.barriers.map_or(String::new(), |barriers| format!(" ({barriers} behind a barrier)"));
        format!(
            "GPU {:.1} µs: {} dispatches{barriers}, {:.1} µs ({:.1} %) of it between dispatches; medians of {} runs with timestamps",
            self.gpu_us,
            self.dispatches.len(),
            self.between_us,
            self.between_percent,
            self.runs
        )
    }

    /// Formats the tables of dispatches and of sums as text, followed by the summary and the device's peak
    /// rates.
    pub(super) fn text(&self, console: &Console) -> String {
        let DevicePeaks { bytes_per_second, operations_per_second, matrix_operations_per_second } = self.peaks;
        let matrices = matrix_operations_per_second.map_or(String::new(), |rate| {
            format!(", {:.1} with matrices of f16 (kernels that use these, marked *, are held to it)", rate / 1e9)
        });
        let peaks = format!(
            "at best the device copies {:.1} GB/s and does {:.1} Gop/s in f32{matrices}",
            bytes_per_second / 1e9,
            operations_per_second / 1e9
        );
        let one = |number: f64| format!("{number:.1}");
        let row = |(index, dispatch): (usize, &Dispatch)| {
            let numbers = [
                dispatch.us,
                dispatch.time_percent,
                dispatch.operations as f64 / 1e6,
                (dispatch.bytes_read + dispatch.bytes_written) as f64 / 1e3,
                dispatch.bandwidth_percent,
                dispatch.arithmetic_percent,
                dispatch.roofline_percent,
            ];
            let mark = if dispatch.on_matrices { " *" } else { "" };
            let words = [index.to_string(), dispatch.label(), format!("{}{mark}", dispatch.kernel)];
            words.into_iter().chain(numbers.map(one)).collect()
        };
        let rows: Vec<Vec<String>> = self.dispatches.iter().enumerate().map(row).collect();
        let heading = ["", "operators", "kernel", "µs", "% time", "Mop", "kB", "% bytes", "% op", "% roofline"];
        let total = |total: &Total| {
            vec![total.operators.clone(), total.dispatches.to_string(), one(total.us), one(total.time_percent)]
        };
        let totals: Vec<Vec<String>> = self.totals.iter().map(total).collect();
        let totals = console.table(&["operators", "dispatches", "µs", "% time"], &totals);
        [console.table(&heading, &rows), totals, self.summary(), peaks].join("\n")
    }
}

impl Dispatch {
    /// Returns a short list of the dispatch's operators: the first three, and how many more.
    pub(super) fn label(&self) -> String {
        label(&self.operators)
    }

    /// Returns the names of the dispatch's operators, each once, joined by ` + `.
    pub(super) fn names(&self) -> String {
        names(&self.operators)
    }
}

/// Returns the microseconds between a dispatch and the one before it in its partition; 0 for the first.
fn wait(dispatches: &[ProfiledDispatch], index: usize) -> f64 {
    let this = &dispatches[index];
    let before = index.checked_sub(1).map(|before| &dispatches[before]);
    let before = before.filter(|before| before.partition == this.partition);
    before.map_or(0.0, |before| (this.dispatch.begin_ns - before.dispatch.end_ns).max(0.0) / 1e3)
}

fn dispatch(made: &ProfiledDispatch, wait_us: f64, us: f64, time_percent: f64, peaks: &DevicePeaks) -> Dispatch {
    let attache::DispatchProfile { name, operations, on_matrices, bytes_read, bytes_written, .. } = made.dispatch;
    let seconds = us / 1e6;
    let of_matrices = peaks.matrix_operations_per_second.filter(|_| on_matrices);
    let operations_per_second = of_matrices.unwrap_or(peaks.operations_per_second);
    let bandwidth_percent = percent((bytes_read + bytes_written) as f64, peaks.bytes_per_second * seconds);
    let arithmetic_percent = percent(operations as f64, operations_per_second * seconds);
    let operator = |(index, name): &(usize, String)| Operator { index: *index, name: name.clone() };
    Dispatch {
        partition: made.partition,
        kernel: name.to_owned(),
        operators: made.operators.iter().map(operator).collect(),
        wait_us,
        us,
        operations,
        on_matrices,
        bytes_read,
        bytes_written,
        time_percent,
        bandwidth_percent,
        arithmetic_percent,
        roofline_percent: bandwidth_percent.max(arithmetic_percent),
    }
}

fn totals(dispatches: &[Dispatch], gpu_us: f64) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    for dispatch in dispatches {
        let operators = dispatch.names();
        let at = totals.iter().position(|total| total.operators == operators).unwrap_or_else(|| {
            totals.push(Total { operators, dispatches: 0, us: 0.0, time_percent: 0.0 });
            totals.len() - 1
        });
        totals[at].dispatches += 1;
        totals[at].us += dispatch.us;
        totals[at].time_percent = percent(totals[at].us, gpu_us);
    }
    totals.sort_by(|a, b| b.us.total_cmp(&a.us));
    totals
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::operators::tests::cpu_profile;
    use super::*;

    /// Returns a dispatch that computes these operators from `begin_ns` to `end_ns`.
    fn profiled(operators: &[(usize, &str)], begin_ns: f64, end_ns: f64) -> ProfiledDispatch {
        let mut profiled = ProfiledDispatch::default();
        profiled.operators = operators.iter().map(|(index, name)| (*index, (*name).to_owned())).collect();
        let dispatch = &mut profiled.dispatch;
        (dispatch.name, dispatch.begin_ns, dispatch.end_ns) = ("map", begin_ns, end_ns);
        (dispatch.operations, dispatch.bytes_read, dispatch.bytes_written) = (2000, 300, 100);
        profiled
    }

    /// Returns a profile of three runs with two dispatches each, of 2 and of 7 µs (medians) with 1 µs between
    /// them.
    pub(crate) fn profile() -> Profile {
        let run = |slower: f64| {
            let mut profile = attache::Profile::default();
            profile.dispatches = vec![
                profiled(&[(0, "CONV_2D"), (1, "<&\">")], 0.0, 2000.0 + slower),
                profiled(&[(3, "CONV_2D")], 3000.0 + slower, 10000.0 + slower),
            ];
            profile.barriers = Some(1);
            profile
        };
        Profile::of(&[run(0.0), run(-500.0), run(900.0)], PEAKS)
    }

    /// Returns [`profile`] with a profile of the CPU.
    pub(crate) fn profiles() -> Profiles {
        Profiles { gpu: Some(profile()), cpu: Some(cpu_profile()) }
    }

    const PEAKS: DevicePeaks =
        DevicePeaks { bytes_per_second: 4e8, operations_per_second: 4e9, matrix_operations_per_second: Some(8e9) };

    #[test]
    fn times_are_medians_and_add_up() {
        let profile = profile();
        assert_eq!((profile.gpu_us, profile.dispatches_us, profile.between_us), (10.0, 9.0, 1.0));
        assert_eq!((profile.between_percent, profile.barriers, profile.runs), (10.0, Some(1), 3));
        let shares: f64 = profile.dispatches.iter().map(|dispatch| dispatch.time_percent).sum();
        assert_eq!(shares + profile.between_percent, 100.0);
        let begins: Vec<f64> = profile.begins().map(|(begin, _)| begin).collect();
        assert_eq!(begins, [0.0, 3.0]);
        let totals: f64 = profile.totals.iter().map(|total| total.us).sum();
        assert_eq!((totals, profile.totals[0].operators.as_str()), (9.0, "CONV_2D"));
    }

    #[test]
    fn a_dispatch_is_compared_with_the_peaks() {
        let first = &profile().dispatches[0];
        // 400 bytes and 2,000 operations in 2 µs; the device moves 800 bytes and does 8,000 operations in that time.
        assert_eq!((first.bandwidth_percent, first.arithmetic_percent, first.roofline_percent), (50.0, 25.0, 50.0));
        let mut made = profiled(&[], 0.0, 2000.0);
        made.dispatch.on_matrices = true;
        assert_eq!(dispatch(&made, 0.0, 2.0, 100.0, &PEAKS).arithmetic_percent, 12.5);
        assert_eq!(percent(1.0, 0.0), 0.0);
    }

    #[test]
    fn long_lists_of_operators_are_cut() {
        let operators: Vec<Operator> = (0..5).map(|index| Operator { index, name: "ADD".to_owned() }).collect();
        assert_eq!(label(&operators), "0 ADD, 1 ADD, 2 ADD and 2 more");
        assert_eq!((label(&operators[..1]), label(&[])), ("0 ADD".to_owned(), "-".to_owned()));
    }

    #[test]
    fn the_tables_name_operators() {
        let text = profile().text(&Console::new(false));
        for part in ["0 CONV_2D", "3 CONV_2D", "% roofline", "2 dispatches (1 behind a barrier)", "0.4 GB/s"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
