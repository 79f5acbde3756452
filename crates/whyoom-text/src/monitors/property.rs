//! Columns of nvidia-smi's CSV, by their names.

use crate::steps::Unit;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Property {
    Time,
    Index,
    Name,
    Uuid,
    Bus,
    Used,
    Free,
    Total,
    Reserved,
    Utilization,
    Pid,
    ProcessName,
    ProcessBytes,
    DriverModel,
    MigMode,
    Driver,
    Other,
}

/// A column and the unit of its numbers where they have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub property: Property,
    pub unit: Unit,
}

impl Column {
    /// The column with this heading, `memory.used [MiB]`; `None` if nvidia-smi has no such column.
    pub(super) fn named(heading: &str) -> Option<Self> {
        let heading = heading.trim().trim_matches('"');
        let (name, unit) = match heading.split_once('[') {
            Some((name, unit)) => (name.trim(), unit.trim_end_matches(']').trim()),
            None => (heading, ""),
        };
        let property = match name.to_ascii_lowercase().as_str() {
            "timestamp" => Property::Time,
            "index" => Property::Index,
            "name" | "gpu_name" => Property::Name,
            "uuid" | "gpu_uuid" => Property::Uuid,
            "pci.bus_id" | "gpu_bus_id" => Property::Bus,
            "memory.used" => Property::Used,
            "memory.free" => Property::Free,
            "memory.total" => Property::Total,
            "memory.reserved" => Property::Reserved,
            "utilization.gpu" => Property::Utilization,
            "pid" => Property::Pid,
            "process_name" => Property::ProcessName,
            "used_gpu_memory" | "used_memory" => Property::ProcessBytes,
            "driver_model.current" => Property::DriverModel,
            "mig.mode.current" => Property::MigMode,
            "driver_version" => Property::Driver,
            "count" | "pstate" | "serial" | "gpu_serial" | "fan.speed" | "compute_mode" | "compute_cap"
            | "persistence_mode" | "vbios_version" | "display_mode" | "display_active" => Property::Other,
            name => {
                let families = [
                    "accounting.",
                    "addressing_mode",
                    "bar1.",
                    "clocks",
                    "clocks_",
                    "driver_model.",
                    "ecc.",
                    "encoder.",
                    "enforced.",
                    "fabric.",
                    "gom.",
                    "gpu",
                    "gsp.",
                    "inforom.",
                    "memory.",
                    "mig.",
                    "pci.",
                    "pcie.",
                    "power.",
                    "protected_memory.",
                    "retired_pages.",
                    "temperature.",
                    "total_",
                    "utilization.",
                    "vgpu_",
                    "c2c.",
                ];
                let is_known = families.iter().any(|family| name.starts_with(family));
                return (is_known && !name.contains(' '))
                    .then_some(Self { property: Property::Other, unit: Unit::MIB });
            }
        };
        Some(Self { property, unit: Unit::named(unit).unwrap_or(Unit::MIB) })
    }

    /// The columns of a heading line; `None` if it is none.
    pub(super) fn headings(line: &str) -> Option<Vec<Self>> {
        if line.len() > 8192 {
            return None;
        }
        let columns: Vec<Self> = line.split(',').map(Self::named).collect::<Option<_>>()?;
        let says = |column: &Self| {
            !matches!(
                column.property,
                Property::Other | Property::Name | Property::Index | Property::Pid | Property::Time
            )
        };
        (columns.iter().any(says) || (columns.len() > 1 && line.contains('['))).then_some(columns)
    }
}
