//! Examples of help texts of `reach text` and `reach pages`.

/// `reach text`.
pub const TEXT: &str = "\
Examples:
  What superpages the code of a program could have, and has:
      reach text show /usr/bin/node
  Promote it, for all processes from now on, and undo that:
      reach text promote /usr/bin/node
      reach text promote --restore /usr/bin/node
  Does it help this program, here?
      reach text bench -- node app.js
  One process only, and no file touched:
      reach text run -- node app.js";

/// `reach text show`.
pub const SHOW: &str = "\
Examples:
  reach text show /usr/bin/node
  reach text show --libraries /usr/bin/node
  What promotion would give, before anything is promoted:
      reach text show --gain -- node app.js
  reach text show 1";

/// `reach stat`.
pub const STAT: &str = "\
Examples:
  reach stat -- ./program
  reach stat --pid 1234 --seconds 30
  Counts of another computer:
      perf stat -x, -e EVENTS -o counts.csv -- ./program
      reach stat --read counts.csv
  Where there are no counters:
      reach stat --simulate -- ./program";

/// `reach pages`.
pub const PAGES: &str = "\
Examples:
  reach pages 1
  reach pages --all --format jsonl 1";

/// `reach text promote`.
pub const PROMOTE: &str = "\
Examples:
  reach text promote /usr/bin/node
  reach text promote --libraries --threshold 16 /usr/lib/postgresql/15/bin/postgres
  reach text promote --restore /usr/bin/node

Exit status: 0 when all files are as was asked for, 1 when one is not; the others are
done all the same.";

/// `reach text align`.
pub const ALIGN: &str = "\
Examples:
  reach text align /usr/bin/rustc -o rustc-aligned";

/// How to call `reach text run`.
pub const RUN_USAGE: &str = "reach text run [OPTIONS] -- PROG [ARGS]…";

/// `reach text run`.
pub const RUN: &str = "\
Examples:
  reach text run -- node server.js

The program takes the place of reach: its input, output, process number and exit status
are its own.";

/// `reach text keep`.
pub const KEEP: &str = "\
Examples:
  reach text keep /usr/bin/node /usr/lib/postgresql/15/bin/postgres
  reach text keep --list /etc/reach/text.list --every 300";

/// How to call `reach text bench`.
pub const BENCH_USAGE: &str = "reach text bench [OPTIONS] -- PROG [ARGS]…";

/// `reach text bench`.
pub const BENCH: &str = "\
Examples:
  reach text bench -- node app.js
  reach text bench --libraries --rounds 30 -- gcc -O2 -c file.c";
