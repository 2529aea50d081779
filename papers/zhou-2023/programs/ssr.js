// A tree of components, rendered to text on a server, again and again.
const React = require('react');
const { renderToString } = require('react-dom/server');
const e = React.createElement;

const Cell = ({ row, column, count }) =>
  e('td', { className: (row + column) % 2 ? 'odd' : 'even', title: `${row}, ${column}` }, (row * column + count) % 97);
const Row = ({ row, columns, count }) =>
  e('tr', { id: `row-${row}` }, Array.from({ length: columns }, (_, column) => e(Cell, { key: column, row, column, count })));

class Table extends React.Component {
  constructor(props) {
    super(props);
    this.state = { rows: props.rows };
  }
  render() {
    const { count, columns } = this.props;
    return e('table', null, e('caption', null, `Table ${count} & more`),
      e('tbody', null, Array.from({ length: this.state.rows }, (_, row) => e(Row, { key: row, row, columns, count }))));
  }
}

const Nested = ({ depth, children }) =>
  depth ? e('div', { style: { margin: depth, color: depth % 2 ? 'red' : 'blue' } }, e(Nested, { depth: depth - 1 }, children)) : e('p', null, children);

const App = ({ count }) =>
  e('main', null, e('h1', null, 'Page ', count), e(Nested, { depth: 40 }, 'so deep'), e(Table, { rows: 25, columns: 12, count }),
    e('ul', null, Array.from({ length: 60 }, (_, i) => e('li', { key: i, onClick: () => i }, e('a', { href: `/page?at=${i}&of=60` }, `item ${i}`)))));

let bytes = 0;
const rounds = Number(process.argv[2] || 100);
for (let count = 0; count < rounds; count++) bytes += renderToString(e(App, { count })).length;
console.log(bytes);
