//! The one thing to collect next, as a command to paste.

use whyoom_text::messages::{Backend, Releases};

use super::answer::finding;
use crate::explanation::{Cause, Collect, Confidence, Finding};

/// What is known of a message when the next thing is chosen.
pub(super) struct After {
    pub(super) releases: Releases,
    pub(super) backend: Backend,
}

fn collect(why: &str, command: &str) -> Collect {
    Collect { why: why.to_owned(), command: command.to_owned() }
}

/// A recording decides between a leak, a spike and an amount, and shows the line.
pub(super) fn record() -> Collect {
    collect(
        "a recording shows who holds it, since when and at which line, and lets remedies be tried without a GPU",
        "# before the model is built\n\
         torch.cuda.memory._record_memory_history()\n\
         # where the failure is caught; then: whyoom oom.pickle\n\
         torch.cuda.memory._dump_snapshot(\"oom.pickle\")",
    )
}

pub(super) fn after_message(after: &After) -> Collect {
    match after.backend {
        Backend::Mps => collect(
            "how allocated and driver memory move from step to step",
            "print(step, torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())",
        ),
        _ => after_bare(after.releases),
    }
}

/// By release: recordings since 2.0, the summary since 1.4, before that nothing but the driver.
pub(super) fn after_bare(releases: Releases) -> Collect {
    if releases.may_be(2, 1) {
        return record();
    }
    if releases.may_be(1, 4) {
        return collect(
            "allocated figures step by step tell a leak from an amount (PyTorch 2.1 and later can record every allocation)",
            "# each step\n\
             print(step, torch.cuda.memory_allocated(), torch.cuda.memory_reserved())\n\
             # where the failure is caught\n\
             print(torch.cuda.memory_summary())",
        );
    }
    collect(
        "allocated figures step by step tell a leak from an amount; this release prints no more",
        "# each step\n\
         print(step, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())",
    )
}

/// Figures of the allocator, where only the card was watched.
pub(super) fn allocator_figures() -> Collect {
    collect(
        "from outside a cache that grows and live tensors that grow look the same; the allocator tells them apart",
        "# each step\n\
         print(step, torch.cuda.memory_allocated(), torch.cuda.memory_reserved())",
    )
}

pub(super) fn processes() -> Collect {
    collect(
        "who holds memory on the card, at the moment of the failure",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
    )
}

pub(super) fn device_memory() -> Collect {
    collect(
        "what the driver and the kernel take for the device's memory",
        "python -c \"import torch; print(torch.cuda.get_device_properties(0))\"\n\
         sudo dmesg | grep -i vram",
    )
}

pub(super) fn hidden_limit() -> Collect {
    collect(
        "whether a cap or a limit of the system refuses",
        "grep -rn memory_fraction .\n\
         python -c \"import torch; print(torch.cuda.mem_get_info())\"\n\
         # on Windows: Get-Counter '\\Memory\\Committed Bytes','\\Memory\\Commit Limit'",
    )
}

pub(super) fn pools() -> Collect {
    collect(
        "how much of the unused bytes lies in private pools",
        "torch.cuda.memory._dump_snapshot(\"oom.pickle\")  # then: whyoom oom.pickle",
    )
}

pub(super) fn whole_text() -> Collect {
    collect("the message is cut; its end has the figures", "python train.py 2>&1 | tee run.log | whyoom -")
}

pub(super) fn whole_table() -> Collect {
    collect("the rest of the table", "print(torch.cuda.memory_summary())  # the whole of it")
}

pub(super) fn blocking() -> Collect {
    collect(
        "the line at which it really fails: the error is reported late",
        "CUDA_LAUNCH_BLOCKING=1 python train.py; nvidia-smi",
    )
}

pub(super) fn host() -> Collect {
    collect("what the host has left while the program runs", "free -h; df -h /dev/shm; dmesg | tail -30")
}

pub(super) fn task_manager() -> Collect {
    collect(
        "Windows does not tell nvidia-smi what each process holds; its own counters do",
        "Get-Counter '\\GPU Process Memory(*)\\Dedicated Usage'",
    )
}

pub(super) fn settings(string: &str) -> Collect {
    collect("what each release makes of the string", &format!("whyoom settings -- '{string}'"))
}

/// Nothing was found in the text.
pub(super) fn nothing_said() -> (Finding, Collect) {
    let summary = "There is no message, table, log or setting in the text that says something of GPU memory.";
    let unknown = finding(Cause::Undetermined, Confidence::Weak, summary, 0, Vec::new());
    (unknown, collect("the failure itself, with the lines around it", "python train.py 2>&1 | whyoom -"))
}
