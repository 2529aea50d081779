# awk -v classes=N -f sources.awk: writes N Java classes that use each other, in a package each ten.
function method(k, m) {
	printf "    /** Method %d. */\n    public static <T extends Comparable<T>> int method%d(List<T> values, int depth) {\n", m, m > file
	printf "        Map<String, Integer> seen = new HashMap<>();\n        int sum = depth;\n" > file
	printf "        for (T value : values) {\n            seen.merge(value.toString(), %d, Integer::sum);\n", m > file
	printf "            sum += switch (sum %% %d) { case 0 -> seen.size(); case 1 -> value.hashCode() & 15; default -> 1; };\n        }\n", m + 3 > file
	printf "        Function<Integer, Integer> next = x -> x * %d + seen.getOrDefault(\"\" + x, 0);\n", k + m > file
	printf "        return values.stream().filter(v -> v.compareTo(values.get(0)) >= 0).mapToInt(v -> next.apply(depth)).sum() + sum" > file
	if (k > 0) printf "\n            + p%d.Class%d.method%d(values, depth + 1)", int((k - 1) / 10), k - 1, m > file
	printf ";\n    }\n\n" > file
}
BEGIN {
	for (k = 0; k < classes; k++) {
		folder = "src/p" int(k / 10)
		system("mkdir -p " folder)
		file = folder "/Class" k ".java"
		printf "package p%d;\n\nimport java.util.*;\nimport java.util.function.*;\n\n", int(k / 10) > file
		printf "/** Class %d. */\npublic class Class%d {\n    record Pair(int left, String right) implements Comparable<Pair> {\n", k, k > file
		printf "        public int compareTo(Pair other) { return Integer.compare(left, other.left); }\n    }\n\n" > file
		for (m = 0; m < 12; m++) method(k, m)
		printf "    public static void main(String[] args) {\n        var pairs = List.of(new Pair(1, \"a\"), new Pair(2, args[0]));\n" > file
		printf "        System.out.println(method0(pairs, 0));\n    }\n}\n" > file
		close(file)
	}
}
