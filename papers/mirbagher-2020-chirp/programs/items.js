// node items.js N: N objects in a map, written as text, read again, and sorted by what they refer to.
const count = Number(process.argv[2]);
const items = new Map();
let state = 7;
for (let i = 0; i < count; i++) {
    state = (state * 1103515245 + 12345) % 2147483648;
    items.set(i, { key: 'item ' + (state % count), parts: [state % 89, state % 97], other: state % count });
}
const read = JSON.parse(JSON.stringify([...items.values()]));
const by = (a, b) => read[a.other].key.localeCompare(read[b.other].key) || a.parts[0] - b.parts[0];
console.log(read.slice().sort(by).length);
