# awk -v functions=N -f source.awk: writes a C file of N functions, each with loops, branches and calls of others, for a compiler.
BEGIN {
	print "struct item { struct item *next; long key; int count[8]; };\nextern struct item *find(long key);\n"
	for (k = 0; k < functions; k++) {
		printf "long function%d(struct item *item, long depth)\n{\n\tlong sum = depth;\n", k
		printf "\tfor (int i = 0; item && i < %d; i++, item = item->next) {\n", 3 + k % 29
		printf "\t\tswitch ((item->key + i) %% %d) {\n", 5 + k % 4
		for (c = 0; c < 5; c++)
			printf "\t\tcase %d: sum += item->count[%d] * %d; break;\n", c, (c + k) % 8, 1 + (k * 7 + c) % 97
		printf "\t\tdefault: sum ^= item->key >> %d; item->count[%d]++;\n\t\t}\n", 1 + k % 13, k % 8
		printf "\t\tif (sum > %d && (item->key & %d))\n\t\t\titem = find(sum %% %d);\n\t}\n", 1000 + k, 1 + k % 15, 11 + k
		if (k > 0) printf "\tif (depth > 0)\n\t\tsum += function%d(item, depth - 1) * function%d(find(sum), depth - 2);\n", k - 1, int(k / 2)
		print "\treturn sum;\n}\n"
	}
}
