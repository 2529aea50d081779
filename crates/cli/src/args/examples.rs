//! Usage lines and examples in the help texts of the verbs that simulate.

/// Examples of `reach`.
pub const REACH: &str = "\
Examples:
  reach compare -- gcc -O2 -c file.c
  reach compare --machine zen4 --machine sapphire-rapids --program gups:bytes=4G
  reach record -o gcc.reach -- gcc -O2 -c file.c
  reach run --machine zen4 --system base --trace gcc.reach";

/// Usage of `reach compare`.
pub const COMPARE_USAGE: &str = "\
reach compare [OPTIONS] -- PROG [ARGS]…
       reach compare [OPTIONS] --trace FILE
       reach compare [OPTIONS] --program NAME[:KEY=VALUE,…]
       reach compare [OPTIONS] --scenario FILE";

/// Examples of `reach compare`.
pub const COMPARE: &str = "\
Examples:
  All systems, on the machine nearest to this computer:
      reach compare -- gcc -O2 -c file.c
  Two machines, four systems:
      reach compare -m skylake-e3-1240v5 -m zenplus-2700x \\
          -s base -s linux-thp -s hugetlb-2m -s ideal -- gcc -O2 -c file.c
  The effect of a larger second-level TLB:
      reach compare -m zen4 -m zen4:tlb.l2d.entries=6144 --trace gcc.reach
  With caches, on fragmented memory, as rows for a script:
      reach compare --timing inorder --fragment scattered=0.9 -o rows.jsonl --trace gcc.reach
  A few metrics only:
      reach compare --metric wcpi,page_faults --program gups:bytes=64M

Exit status: 0 success, 1 failure of the run, 2 wrong usage; if the program itself fails,
its exit status, or 128 + N if signal N killed it. 1 also if a part of it is missing
(docs/endings.md).";

/// Usage of `reach run`.
pub const RUN_USAGE: &str = "\
reach run [OPTIONS] -- PROG [ARGS]…
       reach run [OPTIONS] --trace FILE
       reach run [OPTIONS] --program NAME[:KEY=VALUE,…]
       reach run [OPTIONS] --scenario FILE";

/// Examples of `reach run`.
pub const RUN: &str = "\
Examples:
  reach run -- python3 -c 'print(sum(range(10**6)))'
  reach run -m alpha-21264 -s base --program matrix:n=1000
  reach run --timing inorder --trace gcc.reach
  reach run --quantum 1M -p gups:bytes=64M,updates=1M -p tree";

/// Usage of `reach record`.
pub const RECORD_USAGE: &str = "reach record [OPTIONS] -o FILE -- PROG [ARGS]…";

/// Examples of `reach record`.
pub const RECORD: &str = "\
Examples:
  reach record -o ls.reach -- ls -R /usr
  reach record -o start.reach --limit 50M -- java -version

The program's input, output and exit status are unchanged. SIGTERM and SIGHUP are passed
on to the program, and its recording is finished. If recording is killed, the trace up to
that point is readable, and says that it is unfinished (docs/endings.md).";

/// Examples of `reach trace`.
pub const TRACE: &str = "\
Examples:
  reach trace info gcc.reach
  reach trace check *.reach
  reach trace dump --from 1000 --count 20 gcc.reach
  reach trace convert 600.perlbench_s-210B.champsimtrace.xz -o perlbench.reach
  reach trace convert gcc.reach --to drmemtrace -o gcc.trace.gz";

/// Examples of `reach machine`.
pub const MACHINE: &str = "\
Examples:
  reach machine list
  reach machine show zen4
  reach machine show skylake-e3-1240v5:tlb.l2.entries=3072
  reach machine check my-machine.toml
  reach machine probe -o my-machine.toml";

/// Examples of `reach system`.
pub const SYSTEM: &str = "\
Examples:
  reach system list
  reach system show linux-thp";

/// Examples of `reach program`.
pub const PROGRAM: &str = "\
Examples:
  reach program list
  reach program show gups
  reach compare --program gups:bytes=4G,updates=10M";

/// Examples of `reach explain`.
pub const EXPLAIN: &str = "\
Examples:
  reach explain
  reach explain wcpi speedup
  reach explain superpages.2M
  reach explain 'walks.*'";

/// Examples of `reach validate`.
pub const VALIDATE: &str = "\
Examples:
  reach validate --list
  reach validate random-reads
  reach validate random-reads walk-4kiu pair-4kiu --format csv
  reach validate --here
  reach validate --here hash-join tree";

/// Examples of `reach sweep`.
pub const SWEEP: &str = "\
Examples:
  reach sweep sweep.toml
  reach sweep sweep.toml --workers 2 -o more

Exit status: 0 success, 1 if a point failed, 2 wrong usage, 130 interrupted; the same command then goes on.";

/// Examples of `reach paper`.
pub const PAPER: &str = "\
Examples:
  reach paper list
  reach paper run navarro-2002
  reach paper run navarro-2002 matrix --format csv";

/// Usage of `reach where`.
pub const WHERE_USAGE: &str = "\
reach where [OPTIONS] -- PROG [ARGS]…
       reach where [OPTIONS] --trace FILE
       reach where [OPTIONS] --program NAME[:KEY=VALUE,…]
       reach where [OPTIONS] --scenario FILE";

/// Examples of `reach where`.
pub const WHERE: &str = "\
Examples:
  reach where -- python3 -c 'print(sum(range(10**6)))'
  reach where --by line --top 20 -m zen4 --trace gcc.reach
  reach where --by function,mapping -o owners.jsonl --limit 100M -- gcc -O2 -c file.c
  reach where --folded stacks.txt --trace gcc.reach
  reach where --by script --profile python.json -- python3.12 -X perf program.py

The default timing simulates all of the program out of order, a few million instructions a
second; --limit and --fast-forward choose a part of it.";
