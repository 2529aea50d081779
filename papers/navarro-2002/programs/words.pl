# In place of perlbmk of SPEC CPU2000: words counted, sorted, matched and rearranged.
use strict;
my (%seen, @lines);
while (my $line = <>) {
    push @lines, $line;
    $seen{lc $1}++ while $line =~ /([a-z]+)/gi;
}
my @words = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
my %turned;
for my $word (@words) {
    push @{ $turned{ join '', sort split //, $word } }, $word;
}
my $same = grep { @$_ > 1 } values %turned;
s/(\w+) (\w+)/$2 $1/g for @lines;
print scalar(@words), " $same ", length(join '', @lines), "\n";
