"""Profiles for mansi-2022-cbmm are made of what `reach where` says."""

import subprocess
import sys
from pathlib import Path

from conftest import command, lines

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "cbmm-profile.py"
WHERE = """by,owner,cycles,walk_cycles
mapping,[heap],5,900
extent,"0x7f0000000000 in [anonymous 0x7f0000000000, 4.0 MB]",50,100
extent,0x7f0000000000 in [anonymous] main (a.c:3),1,11
extent,0x7f0000200000 in [heap],5,7
extent,0x400000 in a.out (bss),3,9
extent,0x200000 in a.out (code),3,9
extent,0x0 in [stack],3,9
extent,(wrong path),3,9
"""


def profile(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_each_extent_of_memory_that_may_be_huge_is_a_line(tmp_path):
    base, huge = tmp_path / "base.csv", tmp_path / "huge.csv"
    base.write_text(WHERE)
    data, heap = "huge,data,9,addr,>,0x400000,addr,<,0x600000", "huge,heap,7,addr,>,0x7f0000200000,addr,<,0x7f0000400000"
    assert profile(base) == [data, heap, "huge,mmap,111,addr,>,0x7f0000000000,addr,<,0x7f0000200000"]
    assert profile(base, "--slice", "4M") == [
        "huge,data,4,addr,>,0x400000,addr,<,0x800000",
        "huge,heap,3,addr,>,0x7f0000000000,addr,<,0x7f0000400000",
        "huge,mmap,55,addr,>,0x7f0000000000,addr,<,0x7f0000400000",
    ]
    huge.write_text(WHERE.replace("50,100", "50,30").replace("5,7", "5,8"))
    assert profile(base, huge) == ["huge,mmap,70,addr,>,0x7f0000000000,addr,<,0x7f0000200000"], "what is left does not count"


def test_a_profile_of_an_earlier_run_gives_huge_pages(tmp_path):
    program = ["-q", "-m", "zen4", "--timing", "inorder", "--program", "gups:bytes=32M,init=pages,updates=20K"]
    where, file = tmp_path / "where.csv", tmp_path / "profile.csv"
    where.write_text(command("where", *program, "--by", "extent", "--format", "csv"))
    file.write_text("\n".join(profile(where)))
    printed = command("compare", *program, "-s", "base", "-s", f"mansi-2022-cbmm:profile={file}", "--format", "jsonl")
    _, *rows = lines(printed)
    huge = {row["system"]: row["value"] for row in rows if row["metric"] == "superpages.2M" and row["process"] == "all"}
    assert huge == {"base": 0, f"mansi-2022-cbmm:profile={file}": 16}
