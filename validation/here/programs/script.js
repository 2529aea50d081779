// Objects in a map, sorted: the collector of garbage has work.
const items = new Map();
let state = 12345;
for (let i = 0; i < 300000; i++) {
    state = (state * 1103515245 + 12345) % 2147483648;
    const key = 'k' + (state % 100000);
    const item = items.get(key) || { key, places: [] };
    item.places.push(i);
    items.set(key, item);
}
const sorted = [...items.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
console.log(sorted.length, sorted[0].places.length);
