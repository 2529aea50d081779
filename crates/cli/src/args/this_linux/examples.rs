//! Usage lines and examples in the help texts of `reach text`, `reach pages` and `reach stat`.

/// Examples of `reach text`.
pub const TEXT: &str = "\
Examples:
  Which code of a program can be superpages, and which is:
      reach text show /usr/bin/node
  Promote it for all processes that start from now on, and undo that:
      reach text promote /usr/bin/node
      reach text promote --restore /usr/bin/node
  Measure whether it helps this program, here:
      reach text bench -- node app.js
  Superpages for one process, with no file changed:
      reach text run -- node app.js";

/// Examples of `reach text show`.
pub const SHOW: &str = "\
Examples:
  reach text show /usr/bin/node
  reach text show --libraries /usr/bin/node
  reach text show 1
  Predict what promotion would save, before anything is promoted:
      reach text show --gain -- node app.js";

/// Examples of `reach stat`.
pub const STAT: &str = "\
Examples:
  reach stat -- ./program
  reach stat --pid 1234 --seconds 30
  Counts from another computer:
      perf stat -x, -e EVENTS -o counts.csv -- ./program
      reach stat --read counts.csv
  Without performance counters:
      reach stat --simulate -- ./program";

/// Examples of `reach pages`.
pub const PAGES: &str = "\
Examples:
  reach pages 1
  reach pages --all --format jsonl 1
  reach pages collapse 1234";

/// Examples of `reach pages collapse`.
pub const COLLAPSE: &str = "\
Examples:
  sudo reach pages collapse 1234
  sudo reach pages collapse --what heap --least 64 1234
  Split the huge pages again:
      sudo reach pages collapse --undo 1234

Exit status: 0 if the memory has more huge pages than before (or none, with --undo), 1 if
not.";

/// Examples of `reach text promote`.
pub const PROMOTE: &str = "\
Examples:
  reach text promote /usr/bin/node
  reach text promote --libraries --threshold 16 /usr/lib/postgresql/15/bin/postgres
  reach text promote --restore /usr/bin/node

Exit status: 0 if all files are as requested, 1 if one is not; the other files are still
processed.";

/// Examples of `reach text align`.
pub const ALIGN: &str = "\
Examples:
  reach text align /usr/bin/rustc -o rustc-aligned";

/// Usage of `reach text run`.
pub const RUN_USAGE: &str = "reach text run [OPTIONS] -- PROG [ARGS]…";

/// Examples of `reach text run`.
pub const RUN: &str = "\
Examples:
  reach text run -- node server.js

The program replaces reach: input, output, process ID and exit status are the program's
own.";

/// Examples of `reach text keep`.
pub const KEEP: &str = "\
Examples:
  reach text keep /usr/bin/node /usr/lib/postgresql/15/bin/postgres
  reach text keep --list /etc/reach/text.list --every 300";

/// Usage of `reach text bench`.
pub const BENCH_USAGE: &str = "reach text bench [OPTIONS] -- PROG [ARGS]…";

/// Examples of `reach text bench`.
pub const BENCH: &str = "\
Examples:
  reach text bench -- node app.js
  reach text bench --libraries --rounds 30 -- gcc -O2 -c file.c";
