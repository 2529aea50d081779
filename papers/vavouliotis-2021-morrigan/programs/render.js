// Renders pages from templates: parses, escapes, sorts and joins. Usage: node render.js PAGES

'use strict';
const count = Number(process.argv[2]);
const words = 'page table walk entry frame fault huge base map level cache line hit miss'.split(' ');
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const template = (text) => {
  const parts = text.split(/\{(\w+)\}/);
  return (values) => parts.map((part, at) => (at % 2 ? escape(String(values[part])) : part)).join('');
};
const row = template('<tr><td>{name}</td><td>{price}</td><td title="{note}">{day}</td></tr>');
const page = template('<html><h1>{title}</h1><p>{sum}</p>');
let state = 1;
const random = (n) => (state = (state * 48271) % 2147483647) % n;
let bytes = 0;
for (let number = 0; number < count; number++) {
  const items = Array.from({ length: 40 }, (_, at) => ({
    name: `${words[random(words.length)]} ${words[random(words.length)]}`,
    price: (random(100000) / 100).toFixed(2),
    note: `<${words[random(words.length)]}> & "${at}"`,
    day: new Date(86400000 * random(20000)).toISOString().slice(0, 10),
  }));
  items.sort((a, b) => a.name.localeCompare(b.name) || a.price - b.price);
  const groups = new Map();
  for (const item of items) groups.set(item.name, (groups.get(item.name) || 0) + Number(item.price));
  const text = JSON.stringify({ groups: [...groups], items });
  const { items: parsed } = JSON.parse(text);
  bytes += page({ title: `Page ${number}`, sum: [...groups.values()].reduce((a, b) => a + b, 0) }).length;
  bytes += parsed.map(row).join('\n').length;
}
console.log(bytes);
