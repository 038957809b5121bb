//! What this process's control group has of the machine, and what it was kept from (cgroups(7), version 2 or 1).
//!
//! Knows: where groups are, and which of their files say what. Does not know: who asks. Where several groups stand one above
//! the other, that one counts which bounds, as it is the one that is felt; its own where none does.
//!
//! ```text
//!           version 2                  version 1
//! mounted   /sys/fs/cgroup[/unified]   /sys/fs/cgroup/<controller>
//! bound     memory.max, cpu.max        memory.limit_in_bytes, cpu.cfs_quota_us
//! ```

use std::path::{Path, PathBuf};

/// More than this is what v1 says where there is no bound.
const NO_BOUND: u64 = 1 << 60;
/// Whom processes wait for.
pub const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// How a group's processes were kept from processors, because it had used up its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// Periods of its quota in which it was.
    pub periods: u64,
    /// For how long, in nanoseconds, of all processors.
    pub time: u64,
}

/// How long processes had to wait for a resource, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// One of [`RESOURCES`].
    pub resource: &'static str,
    /// `some`: one or more did; `full`: all that had something to do.
    pub kind: &'static str,
    pub stalled: u64,
}

/// The control groups that a process is in, as they are now.
pub struct Groups {
    /// The folder that has `proc` and `sys`.
    root: PathBuf,
    /// The process's /proc/PID/cgroup.
    named: String,
}

/// A group's folder, for one controller.
struct Folder {
    path: PathBuf,
    /// It is one of version 2.
    second: bool,
}

/// How much memory this process's control group uses, and how much it may, in bytes. None where there is no bound, or no such
/// group.
pub fn container_memory() -> Option<(u64, u64)> {
    let (used, most) = Groups::own()?.memory()?;
    Some((used, most?))
}

impl Groups {
    /// Those of this process; None where the system has none.
    pub fn own() -> Option<Self> {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Option<Self> {
        let named = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        Some(Self { root: root.into(), named })
    }

    /// The folders that a controller may tell of this process in: of its own group first, and then of those above it. What
    /// cannot be seen from here, as a container's path outside of it, is not there.
    fn folders(&self, controller: &str) -> Vec<Folder> {
        let mut found = Vec::new();
        for line in self.named.lines() {
            let Some((controllers, group)) = line.split_once(':').and_then(|(_, rest)| rest.split_once(':'))
            else {
                continue;
            };
            let first = format!("sys/fs/cgroup/{controller}");
            let mounts = match controllers {
                "" => &["sys/fs/cgroup", "sys/fs/cgroup/unified"][..],
                _ if controllers.split(',').any(|one| one == controller) => &[first.as_str()],
                _ => continue,
            };
            for mount in mounts {
                let group = Path::new(group.trim_matches('/'));
                found.extend(group.ancestors().map(|group| Folder {
                    path: self.root.join(mount).join(group),
                    second: controllers.is_empty(),
                }));
            }
        }
        found
    }

    /// How much memory is used, and how much may be, in bytes. What the kernel can give back at once, as it holds files, does
    /// not count.
    pub fn memory(&self) -> Option<(u64, Option<u64>)> {
        let bound = |folder: &Folder| {
            folder.number("memory.max", "memory.limit_in_bytes").filter(|most| *most < NO_BOUND)
        };
        let used = |folder: &Folder| {
            let used = folder.number("memory.current", "memory.usage_in_bytes")?;
            let stat = folder.text("memory.stat", "memory.stat").unwrap_or_default();
            let files = if folder.second { "inactive_file" } else { "total_inactive_file" };
            Some(used.saturating_sub(counted(&stat, files).unwrap_or(0)))
        };
        match self.folders("memory").into_iter().find_map(|folder| Some((bound(&folder)?, folder))) {
            Some((most, folder)) => Some((used(&folder)?, Some(most))),
            None => self.folders("memory").into_iter().find_map(|folder| Some((used(&folder)?, None))),
        }
    }

    /// How it was kept from processors. None where no group tells, as that of a whole machine in version 2.
    pub fn throttled(&self) -> Option<Throttled> {
        let is_bound = |folder: &Folder| {
            let quota = folder.text("cpu.max", "cpu.cfs_quota_us").unwrap_or_default();
            // "max", or -1 in version 1, is none.
            quota.split_ascii_whitespace().next().is_some_and(|quota| quota.parse::<u64>().is_ok())
        };
        let told = |folder: &Folder| {
            let stat = folder.text("cpu.stat", "cpu.stat")?;
            let time = if folder.second {
                counted(&stat, "throttled_usec")?.saturating_mul(1000)
            } else {
                counted(&stat, "throttled_time")?
            };
            Some(Throttled { periods: counted(&stat, "nr_throttled")?, time })
        };
        let bounds = self.folders("cpu").into_iter().find(is_bound).and_then(|folder| told(&folder));
        bounds.or_else(|| self.folders("cpu").into_iter().find_map(|folder| told(&folder)))
    }

    /// How long processes had to wait: those of the group, where it tells, or of the machine. Version 1 does not tell.
    pub fn pressure(&self) -> Vec<Pressure> {
        let of = |path: PathBuf, end: &str| {
            let mut found = Vec::new();
            for resource in RESOURCES {
                let text = std::fs::read_to_string(path.join(format!("{resource}{end}"))).unwrap_or_default();
                for kind in ["some", "full"] {
                    let stalled = stalled(&text, kind);
                    found.extend(stalled.map(|stalled| Pressure { resource, kind, stalled }));
                }
            }
            found
        };
        let groups = self.folders("").into_iter().filter(|folder| folder.second);
        let machine = std::iter::once_with(|| of(self.root.join("proc/pressure"), ""));
        let mut all = groups.map(|folder| of(folder.path, ".pressure")).chain(machine);
        all.find(|found| !found.is_empty()).unwrap_or_default()
    }
}

impl Folder {
    /// What one of its files says, by its name in version 2 and in version 1.
    fn text(&self, second: &str, first: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(if self.second { second } else { first })).ok()
    }

    fn number(&self, second: &str, first: &str) -> Option<u64> {
        self.text(second, first)?.trim().parse().ok()
    }
}

/// The number behind a word, of which each line has one.
fn counted(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=4711`, in microseconds; here in nanoseconds.
fn stalled(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
    let total = line.split(' ').find_map(|part| part.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()?.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `proc` and `sys`, gone at the end.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("forehand-groups-{name}-{}", std::process::id())))
        }

        fn tell(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }

        fn groups(&self) -> Groups {
            Groups::below(&self.0).expect("a process is in groups")
        }

        fn throttled(&self) -> Option<(u64, u64)> {
            self.groups().throttled().map(|found| (found.periods, found.time))
        }

        fn pressure(&self) -> Vec<(&'static str, &'static str, u64)> {
            let told = self.groups().pressure();
            told.iter().map(|one| (one.resource, one.kind, one.stalled)).collect()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_bound_is_that_of_the_next_group_which_has_one() {
        let machine = Machine::new("bound");
        let first = "sys/fs/cgroup/memory";
        assert!(Groups::below(&machine.0).is_none(), "no such system");
        machine.tell("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/pods/shop\n0::/pods/shop\n");
        assert_eq!(machine.groups().memory(), None, "no group");
        machine.tell(&format!("{first}/pods/shop/memory.limit_in_bytes"), "9223372036854771712\n");
        machine.tell(&format!("{first}/pods/shop/memory.usage_in_bytes"), "500\n");
        machine.tell(&format!("{first}/memory.limit_in_bytes"), "9223372036854771712\n");
        assert_eq!(machine.groups().memory(), Some((500, None)), "no bound");
        machine.tell(&format!("{first}/pods/memory.limit_in_bytes"), "1000\n");
        machine.tell(&format!("{first}/pods/memory.usage_in_bytes"), "700\n");
        assert_eq!(machine.groups().memory(), Some((700, Some(1000))));
        machine.tell(&format!("{first}/pods/memory.stat"), "inactive_file 1\ntotal_inactive_file 100\n");
        assert_eq!(machine.groups().memory(), Some((600, Some(1000))));
        // Of a container the groups are named as they are outside, and what is mounted is its own.
        machine.tell("proc/self/cgroup", "0::/docker/4f\n");
        machine.tell("sys/fs/cgroup/memory.max", "max\n");
        machine.tell("sys/fs/cgroup/memory.current", "300\n");
        machine.tell("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 20\n");
        assert_eq!(machine.groups().memory(), Some((280, None)));
        machine.tell("sys/fs/cgroup/memory.max", "800\n");
        assert_eq!(machine.groups().memory(), Some((280, Some(800))));
    }

    #[test]
    fn throttling_is_told_by_the_group_with_a_quota_in_the_units_of_its_version() {
        let machine = Machine::new("quota");
        machine.tell("proc/self/cgroup", "0::/system.slice/shop.service\n");
        assert_eq!(machine.throttled(), None, "nobody tells");
        machine.tell("sys/fs/cgroup/cpu.stat", "usage_usec 9\nuser_usec 8\nsystem_usec 1\n");
        assert_eq!(machine.throttled(), None, "the machine's own group has no quota");
        let (slice, own) = ("sys/fs/cgroup/system.slice", "sys/fs/cgroup/system.slice/shop.service");
        let stat = "usage_usec 9\nnr_periods 7\nnr_throttled 0\nthrottled_usec 0\n";
        machine.tell(&format!("{own}/cpu.stat"), stat);
        machine.tell(&format!("{own}/cpu.max"), "max 100000\n");
        assert_eq!(machine.throttled(), Some((0, 0)), "it has none, and was never throttled");
        machine.tell(&format!("{slice}/cpu.max"), "50000 100000\n");
        let stat = "usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2500\nnr_bursts 0\n";
        machine.tell(&format!("{slice}/cpu.stat"), stat);
        assert_eq!(machine.throttled(), Some((3, 2_500_000)), "that of the slice is felt");

        let machine = Machine::new("quota-1");
        machine.tell("proc/self/cgroup", "3:cpu,cpuacct:/docker/4f\n0::/\n");
        machine.tell("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        machine
            .tell("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 90\nnr_throttled 12\nthrottled_time 345678901\n");
        assert_eq!(machine.throttled(), Some((12, 345_678_901)));
        machine.tell("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000\n");
        assert_eq!(machine.throttled(), Some((12, 345_678_901)));
    }

    #[test]
    fn pressure_is_the_group_s_where_it_tells_and_else_the_machine_s() {
        let machine = Machine::new("pressure");
        let line = |kind, total| format!("{kind} avg10=0.00 avg60=1.50 avg300=2.00 total={total}\n");
        machine.tell("proc/self/cgroup", "4:memory:/docker/4f\n0::/docker/4f\n");
        assert_eq!(machine.pressure(), [], "a kernel without");
        machine.tell("proc/pressure/cpu", &line("some", 7));
        machine.tell("proc/pressure/io", &(line("some", 11) + &line("full", 5)));
        assert_eq!(
            machine.pressure(),
            [("cpu", "some", 7000), ("io", "some", 11_000), ("io", "full", 5000)],
            "cpu has but one line before Linux 5.13"
        );
        machine.tell("sys/fs/cgroup/memory/docker/4f/memory.pressure", &line("some", 1));
        assert_eq!(machine.pressure().len(), 3, "version 1 has no such file");
        machine.tell("sys/fs/cgroup/unified/memory.pressure", &(line("some", 3) + &line("full", 2)));
        assert_eq!(machine.pressure(), [("memory", "some", 3000), ("memory", "full", 2000)]);
    }
}
