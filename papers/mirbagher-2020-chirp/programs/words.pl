# perl words.pl N: counts N words drawn at random, groups them by their letters, and sorts the groups.
use strict;
my ($count, $state, %seen, %groups) = (shift, 1);
for (1 .. $count) {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    my $word = join '', map { chr(97 + ($state >> 3 * $_) % 17) } 1 .. 4 + $state % 4;
    $seen{$word}++;
}
push @{ $groups{ join '', sort split //, $_ } }, $_ for keys %seen;
my @largest = sort { @{ $groups{$b} } <=> @{ $groups{$a} } || $a cmp $b } keys %groups;
print scalar(@largest), " $largest[0]\n";
